"""`meganeura predict`: what a model says of many images or sounds, as a table."""

from io import StringIO
from pathlib import Path
from typing import Annotated

import typer

from meganeura.cli.options.device_options import Device, NotTuned, Precision, announce
from meganeura.cli.options.model_options import (
    AllowMissing,
    AllowUnexpected,
    Changes,
    DisabledRules,
    NoOptimizer,
    Prefix,
    Renames,
    WeightFiles,
    allowed,
    configured,
    given_files,
    given_names,
    loaded_weights,
    rewriting,
)
from meganeura.cli.options.output_file import Force, Kind, require_writable
from meganeura.cli.options.run_target import ModelOrRun, of_run
from meganeura.cli.ui.console import say
from meganeura_dsl.diagnostics.plain_table import count
from meganeura_dsl.settings.compute_precision import ComputePrecision


def predict(
    model: ModelOrRun,
    inputs: Annotated[
        list[Path], typer.Argument(metavar="FILE|FOLDER...", help="Images or sounds.")
    ],
    *,
    weights: WeightFiles = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the table: .csv."),
    ] = None,
    force: Force = False,
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Names of classes: lines, or JSON.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="How many files are taken at once.")] = 32,
    image_size: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Height and width an image gets.")
    ] = None,
    allow_missing: AllowMissing = None,
    allow_unexpected: AllowUnexpected = None,
    rename: Renames = None,
    prefix: Prefix = "",
    changes: Changes = None,
    no_opt: NoOptimizer = False,
    disable_rule: DisabledRules = None,
    device: Device = "auto",
    precision: Precision = ComputePrecision.F32,
    no_tuned: NotTuned = False,
) -> None:
    """Write what a model says of many images or sounds: a table with a row for each.

    Of a classifier a row has the likeliest class and the probability of each. Files are prepared
    as in training, which the weights say; of a folder all images and sounds below it are taken.
    """
    from meganeura.cli.reports.model_outputs import read_labels
    from meganeura_runtime.backends.device_failures import explained_failures
    from meganeura_runtime.backends.registry import choose_device
    from meganeura_runtime.infer.prediction import (
        ClassNames,
        Predictor,
        files_of,
        preparations,
        require_rows,
        write_table,
    )
    from meganeura_runtime.io.files.atomic_write import replacing
    from meganeura_runtime.io.preprocess import preprocessor_config
    from meganeura_runtime.io.preprocess.input_transforms import Choices
    from meganeura_runtime.io.preprocess.preparation import preparation_of

    model, weights = of_run(model, weights)
    reads = [Path(model), labels, *(weights or ()), *inputs]
    require_writable(output, (Kind.PREDICTIONS,), force=force, reads=reads)
    weights = given_files(weights)
    prints = output is None  # the table stands alone on standard output
    chosen = configured(model, changes)
    symbolic = chosen.elaborate()
    require_rows(chosen.name, symbolic)
    files, prepared = files_of(inputs), preparation_of(weights)
    classes = ClassNames(prepared.classes)
    if labels is not None:
        classes = ClassNames(tuple(read_labels(labels)), str(labels))
    loaded = loaded_weights(
        symbolic,
        weights,
        None,
        allowed(allow_missing, allow_unexpected),
        given_names(rename, prefix),
        err=prints,
    )
    rules = rewriting(no_opt=no_opt, disabled=disable_rule, device=device, precision=precision)
    config = preprocessor_config.find(weights[0])
    choices = Choices(image_size, config=config, prepared=prepared)
    for line in preparations(choices, symbolic, files):
        say(line, err=prints)
    with explained_failures():
        on = choose_device(device, tuned=not no_tuned, precision=precision)
        announce(on, err=prints)
        predictor = Predictor(
            chosen.name,
            chosen.elaborate,
            loaded.values,
            loaded.opening(on),
            rules,
            choices,
            batch,
            classes,
        )
        rows = predictor(files)
        if output is None:
            shown = StringIO()
            write_table(rows, shown)
            say(shown.getvalue().removesuffix("\n"))
            return
        with replacing(output) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            written = write_table(rows, file)
    say(f"written: {output}, {count(written, 'row')}")
