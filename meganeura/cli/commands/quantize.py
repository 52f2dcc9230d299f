"""`meganeura quantize`: weights as whole numbers of 8 or 4 bits."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.options.device_options import DEVICE_HELP
from meganeura.cli.options.model_options import (
    AllowUnexpected,
    Changes,
    ModelName,
    Prefix,
    Renames,
    WeightFiles,
    allowed,
    configured,
    given_files,
    given_names,
)
from meganeura.cli.options.output_file import Force, Kind, require_writable
from meganeura.cli.options.target_program import load
from meganeura.cli.ui.console import say
from meganeura_dsl.diagnostics.plain_table import count, table

if TYPE_CHECKING:
    from meganeura_runtime.export.quantize_weights import Change
    from meganeura_runtime.train.spec.train_spec import Start

WORST = 3
"""So many weights are named: those with the largest errors."""


class Bits(StrEnum):
    """Bits of a number."""

    EIGHT = "8"
    FOUR = "4"


def quantize(
    model: ModelName,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE.safetensors", help="Where to.")
    ],
    weights: WeightFiles = None,
    bits: Annotated[Bits, typer.Option(help="Bits of a number.")] = Bits.EIGHT,
    group: Annotated[
        int | None,
        typer.Option(min=1, help="Numbers with one scale: a row with 8 bits, 32 with 4."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Weights that stay as they are, as 'lm_head.*'."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Examples to measure both on, by the program's `train`."),
    ] = None,
    device: Annotated[str | None, typer.Option(help=DEVICE_HELP)] = None,
    allow_unexpected: AllowUnexpected = None,
    rename: Renames = None,
    prefix: Prefix = "",
    changes: Changes = None,
    force: Force = False,
) -> None:
    """Quantize weights for inference: whole numbers of a few bits, with a scale for each group.

    The file is used as any other, and a GPU keeps such weights packed. Biases, norms and weights
    with short rows stay as they are.
    """
    from meganeura_runtime.export.quantize_weights import changed, levels_of
    from meganeura_runtime.io.preprocess.preparation import preparation_of
    from meganeura_runtime.io.tensors.quantized_tensors import write_quantized
    from meganeura_runtime.io.weights import stored_values
    from meganeura_runtime.train.spec.train_spec import Start

    weights = given_files(weights)
    if changes and data is not None:
        text = "with --data the model is as the program's `train` has it"
        raise typer.BadParameter(text, param_hint="--set")
    if device is not None and data is None:
        text = "it measures the weights, on the examples of --data"
        raise typer.BadParameter(text, param_hint="--device")
    require_writable(output, [Kind.WEIGHTS], force=force, reads=weights)
    elaborated = configured(model, changes).elaborate()
    parameters = [each for each in elaborated.parameters if each.kind != "cache"]
    excused, called = allowed(None, allow_unexpected), given_names(rename, prefix)
    start = Start(tuple(weights), excused, called)
    values = start.compared(parameters).read()
    levels = levels_of(parameters, int(bits), group, keep or ())
    if group is not None and not any(each.group for each in levels.values()):
        text = f"no weight has rows that are whole groups of {group}"
        raise typer.BadParameter(text, param_hint="--group")
    before = None if data is None else _measured(model, data, device, start)
    stored = stored_values(parameters, values)
    write_quantized(output, stored, levels, {"format": "pt", **preparation_of(weights).entries})
    total = sum(each.nbytes for each in stored.values())
    ungrouped = sum(not each.group for each in levels.values())
    say(_summary([*changed(values, levels)], total, ungrouped))
    if before is not None and data is not None:
        now = _measured(model, data, device, Start((output,)))
        rows = [(name, f"{value:.5g}", f"{now[name]:.5g}") for name, value in before.items()]
        say(table([("", "before", f"{bits} bits"), *rows], right=(1, 2)))
    say(f"written: {output}")


def _measured(target: str, data: str, device: str | None, start: "Start") -> Mapping[str, float]:
    """The loss and the metrics of weights on examples, by the `train` of the program."""
    from meganeura_dsl import pipeline
    from meganeura_runtime.train.loop.measurement import measure

    program, folder = load(target), pipeline.find(target).path.parent
    overrides = ["validation=none", f"data={data}"]
    overrides += [] if device is None else [f"device={device}"]
    return measure(program, program.train(), folder, overrides, start).values


def _summary(found: "Sequence[Change]", total: int, ungrouped: int) -> str:
    """The bytes before and after, and the weights with the largest errors.

    `ungrouped` of the weights have a scale for each row.
    """
    saved = sum(each.before - each.after for each in found)
    quantized = f"{count(len(found), 'weight')} quantized"
    if 0 < ungrouped < len(found):
        quantized += f", {ungrouped} with a scale for each row"
    worst = sorted(found, key=lambda each: -each.error)[:WORST]
    rows = [(each.name, f"{each.error:.2%}") for each in worst]
    shown = table([("largest errors", "of its root mean square"), *rows], right=(1,))
    return f"{quantized}: {total:,} bytes become {total - saved:,}\n{shown}"
