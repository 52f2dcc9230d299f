#!/usr/bin/env bash
# Installs the Debian packages given, as root or through a sudo that asks for no password.
# Fails, with one line that says why, where neither is possible.
set -euo pipefail

if ! command -v apt-get >/dev/null; then
    echo "There is no apt-get here to install: $*" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! sudo -n true 2>/dev/null; then
        echo "Not root, and sudo wants a password: cannot install: $*" >&2
        exit 1
    fi
    as_root=(sudo -n)
fi
echo "Installing with apt-get: $*"
"${as_root[@]}" apt-get update -qq </dev/null
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null
