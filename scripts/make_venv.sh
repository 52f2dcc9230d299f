#!/usr/bin/env bash
# Makes the virtual environment named by $1 with the first Python >= 3.11 found on PATH.
# $PYTHON3, if set, is the interpreter to use.
set -euo pipefail

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in ${PYTHON3:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if is_new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "Meganeura needs Python 3.11 or newer, and PATH has none." >&2
    echo "Install one, or name it:  make PYTHON3=/path/to/python3 ..." >&2
    return 1
}

python=$(find_python)
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("{}.{}".format(*sys.version_info))')
    scripts=$(dirname "${BASH_SOURCE[0]}")
    if ! "$scripts/apt_install.sh" "python$version-venv"; then
        echo "This Python cannot make virtual environments. On Debian and Ubuntu:" >&2
        echo "    sudo apt install python$version-venv" >&2
        exit 1
    fi
fi
exec "$python" -m venv "$1"
