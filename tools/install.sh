#!/bin/sh
# Installs a Debian package that tests need, where its program is missing: sh tools/install.sh haproxy
set -eu

postgres_is_there() {
    for folder in /usr/lib/postgresql/*/bin "$(pg_config --bindir 2>/dev/null || :)"; do
        if [ -x "$folder/initdb" ]; then return 0; fi
    done
    command -v initdb >/dev/null
}

program_is_there() { command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ]; }

case "${1-}" in
postgres)
    package=postgresql use="the tests of that store will fail"
    postgres_is_there && exit 0
    ;;
haproxy)
    package=haproxy use="the test of a proxy in front of replicas will fail"
    program_is_there haproxy && exit 0
    ;;
prometheus)
    package=prometheus use="the test of the rules for Prometheus will fail"
    program_is_there promtool && exit 0
    ;;
chromium) # Playwright drives it, and its own download is not needed
    package=chromium use="the test of the page will fail"
    program_is_there chromium && exit 0
    ;;
debootstrap) # make dist runs the Containerfile's steps in an empty Debian
    package=debootstrap use="make dist leaves out the container"
    program_is_there debootstrap && exit 0
    ;;
*)
    echo "give one of postgres, haproxy, prometheus, chromium, debootstrap, got '${1-}'" >&2
    exit 2
    ;;
esac

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "$1 is missing, and $use: install the package $package" >&2
    exit 0
fi

# Tests start servers of their own: PostgreSQL must make no cluster, and Prometheus must not start with its package.
if [ "$1" = postgres ]; then
    settings=/etc/postgresql-common/createcluster.d
    mkdir -p $settings
    echo "create_main_cluster = false" >$settings/coldstream-tests.conf
    trap 'rm -f $settings/coldstream-tests.conf' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
RUNLEVEL=1 apt-get install -qq -y --no-install-recommends "$package"
