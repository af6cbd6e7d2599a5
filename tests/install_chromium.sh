#!/bin/sh
# Installs Debian's Chromium where there is none: Playwright drives it, and its own download is not needed.
set -eu

if command -v chromium >/dev/null; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "no Chromium, and the test of the page will fail: install the package chromium" >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends chromium
