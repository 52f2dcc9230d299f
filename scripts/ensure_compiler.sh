#!/usr/bin/env bash
# Sees to it that the tree-sitter grammar can be compiled: installs a C compiler on a Debian or Ubuntu
# without one. Where there can be none it says so and succeeds: the tests of the grammar are left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

has_compiler() { # one with the headers of C
    printf '#include <stdlib.h>\n#include <string.h>\n' | cc -fsyntax-only -x c - 2>/dev/null
}

if ! has_compiler && ! scripts/apt_install.sh gcc libc6-dev; then
    echo "No C compiler could be installed: the tests of the tree-sitter grammar will be left out." >&2
fi
