#!/bin/sh
# Installs Debian's PostgreSQL where there is none. The tests start a server of their own, so none is set up for the machine.
set -eu

there_is_one() {
    for folder in /usr/lib/postgresql/*/bin "$(pg_config --bindir 2>/dev/null || :)"; do
        if [ -x "$folder/initdb" ]; then return 0; fi
    done
    command -v initdb >/dev/null
}

if there_is_one; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "no PostgreSQL server, and the tests of that store will fail: install the package postgresql" >&2
    exit 0
fi

settings=/etc/postgresql-common/createcluster.d
mkdir -p $settings
echo "create_main_cluster = false" >$settings/coldstream-tests.conf
trap 'rm -f $settings/coldstream-tests.conf' EXIT
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends postgresql
