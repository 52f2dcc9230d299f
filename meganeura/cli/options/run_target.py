"""The folder of a run in place of a model: its program, and the weights of its best evaluation."""

from pathlib import Path
from typing import Annotated

import typer

from meganeura.cli.options.target_program import RUN, is_standard
from meganeura.cli.ui.console import say

ModelOrRun = Annotated[
    str,
    typer.Argument(metavar="MODEL|RUN", help="A model, a file with one, or the folder of a run."),
]


def of_run(
    target: str, weights: list[Path] | None, seed: int | None = None
) -> tuple[str, list[Path] | None]:
    """The program of a run, and its weights where no others are given; any other target as it is.

    Raises `ProblemError` where the program of the run is gone.
    """
    if not (Path(target) / RUN).is_file() or is_standard(target):
        return target, weights
    from meganeura_dsl import pipeline
    from meganeura_dsl.syntax.parser.source_files import read_source
    from meganeura_runtime.train.loop.earlier_run import EarlierRun

    run = EarlierRun.of(Path(target))
    say(f"program: {run.target}", err=True)
    file = pipeline.find(run.target).path
    if read_source(file).text != run.text:
        say(f"{file.name} has changed since the run", err=True)
    return run.target, weights if weights or seed is not None else [run.weights]
