#!/bin/sh
# Installs Debian's Prometheus where there is no promtool, which checks our rules. No server is set up for the machine.
set -eu

if command -v promtool >/dev/null; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "no promtool, and the test of the rules for Prometheus will fail: install the package prometheus" >&2
    exit 0
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# The package starts servers unless it is told not to; only its tools are wanted.
RUNLEVEL=1 apt-get install -qq -y --no-install-recommends prometheus
