"""Programs that a command line names: files, all of a folder, standard input, standard programs."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import typer

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.resources import standard_model_names

STANDARD_INPUT = "-"
"""The name of the program that standard input holds, on a command line and in messages."""
ENVIRONMENT = "pyvenv.cfg"
"""The file of a virtual environment, whose programs are those of packages."""


def named_programs(names: Iterable[str]) -> list[str]:
    """Returns each program once, in order, where a folder stands for all programs in it.

    A name of a standard program is one where a folder has it too. Raises `typer.BadParameter` for
    a folder without programs.
    """
    found: dict[str, None] = {}
    for name in names:
        if name not in standard_model_names() and Path(name).is_dir():
            inside = [str(path) for path in _below(Path(name))]
            if not inside:
                raise typer.BadParameter(f"no file in `{name}` ends in .mgn", param_hint="FILE")
            found |= dict.fromkeys(inside)
        else:
            found[name] = None
    return list(found)


def _below(folder: Path) -> Iterator[Path]:
    """Yields the programs of a folder and those inside it, sorted; hidden ones are left out."""
    for place, folders, files in os.walk(folder):
        kept = [each for each in folders if not (Path(place) / each / ENVIRONMENT).exists()]
        folders[:] = sorted(each for each in kept if not each.startswith("."))
        shown = (each for each in sorted(files) if not each.startswith("."))
        yield from (Path(place) / each for each in shown if each.endswith(".mgn"))


def standard_input() -> Source:
    """Returns the program of standard input; raises `ProblemError` for what is none."""
    from meganeura_dsl.syntax.parser.parser import LARGEST
    from meganeura_dsl.syntax.parser.source_files import decode

    return decode(sys.stdin.buffer.read(LARGEST + 1), STANDARD_INPUT)
