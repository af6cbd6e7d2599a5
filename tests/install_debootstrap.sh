#!/bin/sh
# Installs Debian's debootstrap where there is none, for `make dist`, which runs the Containerfile's steps in an empty Debian.
set -eu

if command -v debootstrap >/dev/null || [ -x /usr/sbin/debootstrap ]; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "no debootstrap: install the package debootstrap" >&2
    exit 0
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends debootstrap
