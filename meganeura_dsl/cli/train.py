"""`meganeura train`: a `train` block on its data, into a run folder."""

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meganeura_dsl.cli.interruption import Interruption
from meganeura_dsl.cli.model_options import (
    AllowMissing,
    AllowUnexpected,
    DisabledRules,
    NoOptimizer,
    WeightFiles,
    allowed,
    exceptions,
    rewriting,
    rewriting_settings,
)

if TYPE_CHECKING:
    from meganeura_runtime.train.events import Finished
    from meganeura_runtime.train.folder import RunFolder
    from meganeura_runtime.train.job import Start

RUNS = Path("runs")
"""Where run folders are made when none is named."""

INTERRUPTED = 130
"""The exit code shells give a program that Ctrl-C ended: 128 + SIGINT."""


def train(
    target: Annotated[str, typer.Argument(metavar="FILE|MODEL", help="A program, or a model.")],
    device: Annotated[
        str | None, typer.Option(help="auto, cpu, wgpu, or wgpu:N as `meganeura devices` counts.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder; runs/NAME-1, -2, ... without one.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Override a setting, such as batch=32."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same as --set seed=N.")] = None,
    *,
    no_opt: NoOptimizer = False,
    disabled: DisabledRules = None,
    weights: WeightFiles = None,
    allow_missing: AllowMissing = None,
    allow_unexpected: AllowUnexpected = None,
) -> None:
    """Train a model and measure it on the examples held out."""
    from meganeura_dsl import pipeline
    from meganeura_dsl.cli.progress import display
    from meganeura_runtime.session import choose_device
    from meganeura_runtime.train.failures import explained_failures
    from meganeura_runtime.train.folder import named_folder, new_folder
    from meganeura_runtime.train.job import prepare
    from meganeura_runtime.train.loop import train as run_job

    overrides = list(changes or ())
    overrides += [] if device is None else [f"device={device}"]
    overrides += [] if seed is None else [f"seed={seed}"]
    overrides += rewriting_settings(rewriting(no_opt=no_opt, disabled=disabled))
    program = pipeline.load(target)
    name = program.train()
    start = _start(weights, allow_missing, allow_unexpected)
    job = prepare(program, name, pipeline.find(target).path.parent, overrides, start)
    with explained_failures():
        chosen = choose_device(job.settings.device)
        typer.echo(f"device: {chosen.description}")
        if job.start is not None:
            typer.echo("\n  ".join([f"weights: {job.start.file}", *exceptions(job.start)]))
        folder = new_folder(RUNS, name) if out is None else named_folder(out)
        with Interruption() as interruption, closing(display(sys.stdout)) as shown:
            stop = interruption.is_wanted
            finished = run_job(job, folder, chosen.open, shown.watch, stop)
    typer.echo(_summary(finished, folder))
    if finished.interrupted:
        raise typer.Exit(INTERRUPTED)


def _start(
    files: list[Path] | None, missing: list[str] | None, unexpected: list[str] | None
) -> "Start | None":
    """What `--weights` and the options beside it ask for."""
    from meganeura_runtime.train.job import Start

    if files:
        return Start(tuple(files), allowed(missing, unexpected))
    if missing or unexpected:
        raise typer.BadParameter("there are no weights to compare with", param_hint="--weights")
    return None


def _summary(finished: "Finished", folder: "RunFolder") -> str:
    """What was done, how long it took, and where it is."""
    from meganeura_dsl.cli.progress import clock

    how = "stopped" if finished.interrupted else "done"
    return f"{how} after {finished.steps:,} steps in {clock(finished.seconds)}: {folder.path}"
