"""Loading of programs for all commands: each is proved, and the notes of its proof are printed.

Notes about a program that ships with the package are left to `check`: they are nobody's to act on.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from meganeura.cli.ui.console import show
from meganeura_dsl.diagnostics.problem import ProblemError

if TYPE_CHECKING:
    from meganeura_dsl.pipeline import Program


RUN = "run.json"
"""A file that each folder of a run has."""


def is_standard(target: str) -> bool:
    """Returns True for the name of a standard model, which a folder may have, too."""
    from meganeura_dsl import pipeline

    try:
        return pipeline.find(target).is_standard
    except ProblemError:
        return False


def load(target: str) -> "Program":
    """The program of a target. Raises `ProblemError` or `ProblemsError`, as `pipeline.load`."""
    from meganeura_dsl import pipeline

    if (Path(target) / RUN).is_file() and not is_standard(target):
        text = (
            f"`{target}` is the folder of a run: name its program here, and where a command takes "
            f"weights the folder, as --weights {target}"
        )
        raise typer.BadParameter(text)
    program = pipeline.load(target)
    if not program.is_standard:
        show(program.notes, sys.stderr)
    return program
