"""`meganeura export`: a model as an ONNX file, or as source of PyTorch or JAX."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from meganeura.cli.options.model_options import (
    AllowUnexpected,
    Changes,
    ModelName,
    RandomWeights,
    WeightFiles,
    allowed,
    configured,
)
from meganeura.cli.options.output_file import Force, Kind, require_writable
from meganeura.cli.options.target_program import load
from meganeura.cli.ui.console import say
from meganeura_dsl.diagnostics.plain_table import count
from meganeura_runtime.export.onnx.options import NEWEST_OPSET, OLDEST_OPSET, OnnxOptions


class ExportFormat(StrEnum):
    """A format that a model is written in."""

    ONNX = "onnx"
    TORCH = "torch"
    JAX = "jax"


def export(
    model: ModelName,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where: model.onnx, or model.py.")
    ],
    to: Annotated[
        ExportFormat,
        typer.Option("--to", help="An ONNX file, or readable source of PyTorch or JAX."),
    ] = ExportFormat.ONNX,
    weights: WeightFiles = None,
    random_weights: RandomWeights = None,
    allow_unexpected: AllowUnexpected = None,
    opset: Annotated[
        int,
        typer.Option(min=OLDEST_OPSET, max=NEWEST_OPSET, help="The version of ONNX's operators."),
    ] = NEWEST_OPSET,
    fold_batch_norm: Annotated[
        bool, typer.Option("--fold-batch-norm", help="Make batch norms part of convolutions.")
    ] = False,
    changes: Changes = None,
    force: Force = False,
) -> None:
    """Write a model as ONNX, or with --to torch or --to jax as source. Parameters keep their names.

    ONNX Runtime runs an ONNX file on random inputs first; where it does not give what the model
    gives, nothing is written. Source has no weights: it loads the same file of them.
    """
    if to is not ExportFormat.ONNX:
        given = {
            "--weights": bool(weights),
            "--random-weights": random_weights is not None,
            "--allow-unexpected": bool(allow_unexpected),
            "--opset": opset != NEWEST_OPSET,
            "--fold-batch-norm": fold_batch_norm,
        }
        for option in (name for name, is_given in given.items() if is_given):
            raise typer.BadParameter("source holds no weights and no ops", param_hint=option)
        _write_source(model, to, output, changes, force=force)
        return
    if output.suffix == ".py":
        raise typer.BadParameter(
            "source needs `--to torch` or `--to jax`; ONNX ends in .onnx", param_hint="-o"
        )
    beside = [output.with_name(output.name + ".data")]
    require_writable(output, (Kind.ONNX,), force=force, reads=weights or (), beside=beside)
    if (weights is None) == (random_weights is None):
        text = "give the one or the other: an ONNX file holds weights"
        raise typer.BadParameter(text, param_hint="--weights or --random-weights")
    if allow_unexpected and not weights:
        raise typer.BadParameter("there are no weights to compare with", param_hint="--weights")
    from meganeura_runtime.export.onnx.export import export_onnx
    from meganeura_runtime.io.preprocess.preparation import preparation_of
    from meganeura_runtime.io.weights import compare, initial_values

    chosen = configured(model, changes)
    if chosen.program.chosen in chosen.program.trains:
        text = f"an ONNX file holds no training: it is of the model `{chosen.name}`"
        say(f"{text}; with `--to torch` or `--to jax` the training is written", err=True)
    parameters = chosen.elaborate().parameters
    values = (
        initial_values(parameters, random_weights)
        if random_weights is not None
        else compare(weights or (), parameters, allowed(None, allow_unexpected)).read()
    )
    options = OnnxOptions(opset, fold_batch_norm, preparation_of(weights or ()).entries)
    exported = export_onnx(chosen.name, chosen.elaborate, values, output, options)
    shown = " and ".join(
        ", ".join(f"{name}={size}" for name, size in sizes.items()) for sizes in exported.sizes
    )
    at = f" at {shown}" if shown else ""
    say(f"largest difference of an output: {exported.difference:.2g}{at}")
    say(f"written: {output} ({count(exported.nodes, 'node')}, opset {opset})")


def _write_source(
    target: str, to: ExportFormat, output: Path, changes: Changes, *, force: bool
) -> None:
    require_writable(output, (Kind.SOURCE,), force=force)
    from meganeura_runtime.io.files.atomic_write import write_text

    program = load(target)
    is_training = program.chosen in program.trains
    text = (_training_text if is_training else _model_text)(target, to, changes)
    write_text(output, text)
    say(f"written: {output} ({count(text.count(chr(10)), 'line')})")


def _model_text(target: str, to: ExportFormat, changes: Changes) -> str:
    from meganeura_runtime.export.source.write import written

    chosen = configured(target, changes)
    module = chosen.program.module
    return written(module, module.models[chosen.name], chosen.config, chosen.sizes, to.value)


def _training_text(target: str, to: ExportFormat, changes: Changes) -> str:
    from meganeura_dsl import pipeline
    from meganeura_runtime.export.source.write import written_training
    from meganeura_runtime.train.spec.run_request import RunRequest
    from meganeura_runtime.train.spec.step_graphs import require_trainable

    program, folder = load(target), pipeline.find(target).path.parent
    request = RunRequest(program, program.train(), folder, tuple(changes or ()))
    settings, train = request.settings, request.train
    forward = pipeline.elaborate_train(program, train, sizes=settings.sizes, training=True)
    require_trainable(settings, request.written, forward)
    places = {key: each.span for key, each in request.written.items()}
    return written_training(program, train, settings, places, to.value)
