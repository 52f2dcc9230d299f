"""`meganeura evaluate`: the loss and the metrics of weights on examples."""

import json
from pathlib import Path
from typing import Annotated

import typer

from meganeura.cli.options.device_options import DEVICE_HELP
from meganeura.cli.options.model_options import (
    AllowMissing,
    AllowUnexpected,
    NoOptimizer,
    Prefix,
    Renames,
    WeightFiles,
    allowed,
    given_files,
    given_names,
    rewriting,
    rewriting_settings,
)
from meganeura.cli.options.target_program import RUN, is_standard, load
from meganeura.cli.ui.console import say


def evaluate(
    target: Annotated[
        str,
        typer.Argument(
            metavar="RUN|FILE|FILE.mgn:NAME|MODEL",
            help="The folder of a run, or a program with a `train`.",
        ),
    ],
    *,
    weights: WeightFiles = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Examples in place of those of the program."),
    ] = None,
    device: Annotated[str | None, typer.Option(help=DEVICE_HELP)] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Override a setting, such as batch=32."),
    ] = None,
    allow_missing: AllowMissing = None,
    allow_unexpected: AllowUnexpected = None,
    rename: Renames = None,
    prefix: Prefix = "",
    no_opt: NoOptimizer = False,
    as_data: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure weights on the examples held out, or on all where none are; nothing is trained.

    A run is measured with its program, its settings and its best weights. With `--data` these are
    examples of that data, of which `validation` holds nothing out. Of a classifier the recall and
    the precision of each class are shown too.
    """
    from meganeura.cli.reports.measurement_report import measurement_data, measurement_text
    from meganeura_dsl import pipeline
    from meganeura_runtime.train.loop.earlier_run import EarlierRun
    from meganeura_runtime.train.loop.measurement import measure
    from meganeura_runtime.train.spec.train_spec import Start

    is_run = (Path(target) / RUN).is_file()
    if Path(target).is_dir() and not is_run and not is_standard(target):
        text = f"`{target}` is not the folder of a run, which has a {RUN}"
        raise typer.BadParameter(text, param_hint="RUN")
    run = EarlierRun.of(Path(target)) if is_run else None
    if run is not None:
        target = run.target
        weights = weights or [run.weights]
        say(f"program: {target}", err=as_data)
        say(f"weights: {', '.join(map(str, weights))}", err=as_data)
    weights = given_files(weights)
    program = load(target)
    if run is not None and program.sources[0].text != run.text:
        say(f"{program.sources[0].name} has changed since the run", err=True)
    overrides = [] if data is None else ["validation=none", f"data={data}"]
    overrides += [*(changes or ()), *([] if device is None else [f"device={device}"])]
    overrides += rewriting_settings(rewriting(no_opt=no_opt, disabled=None))
    excused, called = allowed(allow_missing, allow_unexpected), given_names(rename, prefix)
    start = Start(tuple(weights), excused, called)
    folder = pipeline.find(target).path.parent
    found = measure(program, program.train(), folder, overrides, start, run=run)
    for each in found.differences:
        say(f"the weights were trained on other inputs: {each}", err=True)
    if as_data:
        say(json.dumps(measurement_data(found), indent=2))
        return
    say(f"device: {found.device}")
    say(measurement_text(found))
