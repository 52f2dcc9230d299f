#!/usr/bin/env bash
# Sees to it that pages can be built and tested: installs Chromium on a Debian or Ubuntu without a
# browser of its kind, and what `runtime/web/package-lock.json` lists by the npm of the environment
# given. Where there can be no Chromium it says so and succeeds: the tests of pages are left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=$(realpath "$1")

has_browser() {
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" >/dev/null && return 0
    done
    return 1
}

if ! has_browser && ! scripts/apt_install.sh chromium; then
    echo "No Chromium could be installed: the tests of pages will be left out." >&2
fi
stamp=runtime/web/node_modules/.package-lock.json
if [ ! "$stamp" -nt runtime/web/package-lock.json ]; then
    echo "Installing what builds pages into runtime/web/node_modules"
    (cd runtime/web && PATH="$venv/bin:$PATH" npm ci --silent --ignore-scripts --no-audit --no-fund)
    touch "$stamp"
fi
