"""How every command comes by a program: it is proved, and what its proof notes is said.

Notes about a program that ships with the package are left to `check`: they are nobody's to act on.
"""

import sys
from typing import TYPE_CHECKING

from meganeura.cli.ui.console import show

if TYPE_CHECKING:
    from meganeura_dsl.pipeline import Program


def load(target: str) -> "Program":
    """The program of a target. Raises `ProblemError` or `ProblemsError`, as `pipeline.load`."""
    from meganeura_dsl import pipeline

    program = pipeline.load(target)
    if not program.is_standard:
        show(program.notes, sys.stderr)
    return program
