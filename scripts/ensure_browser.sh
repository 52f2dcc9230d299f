#!/usr/bin/env bash
# Sees to it that pages and the extension for VS Code can be built and tested: installs Chromium on a
# Debian or Ubuntu without a browser of its kind, and what their `package-lock.json` list by the npm
# of the environment given. Where there can be no Chromium it says so and succeeds: the tests of pages are left out.
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
for folder in runtime/web grammar/vscode; do
    stamp=$folder/node_modules/.package-lock.json
    if [ ! "$stamp" -nt "$folder/package-lock.json" ]; then
        echo "Installing what it is built with into $folder/node_modules"
        (cd "$folder" && PATH="$venv/bin:$PATH" npm ci --silent --ignore-scripts --no-audit --no-fund)
        touch "$stamp"
    fi
done
