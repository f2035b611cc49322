#!/bin/sh
# Sees to a Chromium for the tests in a browser: the one that CHROMIUM names, the one that is there, or Debian's.
set -eu

if [ -x "${CHROMIUM:-/usr/bin/chromium}" ]; then
    exit 0
fi
if [ -n "${CHROMIUM:-}" ]; then
    echo "tests/browser/install.sh: CHROMIUM names $CHROMIUM, and nothing can be run there" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "tests/browser/install.sh: install Debian's package chromium, or set CHROMIUM to another one" >&2
    exit 1
fi
apt-get update -qq >&2
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >&2
