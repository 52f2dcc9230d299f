"""Finds a C compiler, for the tests of the tree-sitter grammar."""

import shutil
import subprocess

PROGRAM = "#include <stdlib.h>\n#include <string.h>\n"


def has_c_compiler() -> bool:
    """True if there is a `cc` and C's headers; `scripts/ensure_compiler.sh` installs both."""
    if shutil.which("cc") is None:
        return False
    command = ("cc", "-fsyntax-only", "-x", "c", "-")
    done = subprocess.run(command, input=PROGRAM.encode(), capture_output=True, check=False)
    return done.returncode == 0
