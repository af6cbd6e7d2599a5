#!/bin/sh
# Installs Debian's HAProxy where there is none. The tests start a proxy of their own, so none is set up for the machine.
set -eu

if command -v haproxy >/dev/null || [ -x /usr/sbin/haproxy ]; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "no HAProxy, and the test of a proxy in front of replicas will fail: install the package haproxy" >&2
    exit 0
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends haproxy
