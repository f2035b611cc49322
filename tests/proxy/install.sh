#!/bin/sh
# Sees to nginx and Caddy for the tests behind a proxy: those that NGINX and CADDY name, those that are there, or Debian's.
set -eu

missing=
for program in nginx caddy; do
    variable=$(echo "$program" | tr a-z A-Z)
    eval "named=\${$variable:-}"
    if [ -n "$named" ]; then
        if [ ! -x "$named" ]; then
            echo "tests/proxy/install.sh: $variable names $named, and nothing can be run there" >&2
            exit 1
        fi
    elif ! PATH="$PATH:/usr/sbin" command -v "$program" >/dev/null; then
        missing="$missing $program"
    fi
done
if [ -z "$missing" ]; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "tests/proxy/install.sh: install Debian's packages$missing, or set NGINX and CADDY to others" >&2
    exit 1
fi
apt-get update -qq >&2
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
