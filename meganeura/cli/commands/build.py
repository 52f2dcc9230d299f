"""`meganeura build`: what each stage makes of a program, printed."""

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from meganeura.cli.driver.browser_page import SUFFIX as PAGE
from meganeura.cli.driver.browser_page import PageOptions, write_page
from meganeura.cli.driver.compiled_model import SUFFIX as MODEL
from meganeura.cli.driver.stages import Emission, Mode, Stages, emitted, require_numbers, stages_of
from meganeura.cli.options.certificate_option import OPTION, CertificateFile, certify
from meganeura.cli.options.device_options import NotTuned, Precision, listed, require_device
from meganeura.cli.options.model_options import (
    AllowUnexpected,
    Changes,
    DisabledRules,
    NoOptimizer,
    WeightFiles,
    allowed,
    rewriting,
)
from meganeura.cli.options.output_file import Force, Kind, require_writable
from meganeura.cli.reports.optimizer_report import report_data, report_text
from meganeura.cli.ui.console import say
from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.registry import BUILT_IN, emitting, stage_forms

if TYPE_CHECKING:
    from meganeura_dsl.pipeline import Program
    from meganeura_runtime.export.mgb import Artefact
    from meganeura_runtime.io.weights import Allowed


class Stage(StrEnum):
    """A stage that every program has; backends have others."""

    AST = "ast"
    GRAPH = "graph"
    OPTIMIZED = "optimized"


STAGES = (*Stage, *stage_forms())
PLANNED = [form for each in BUILT_IN if each.capabilities.stages for form in each.forms]
"""The devices of backends that have stages."""
NO_WEIGHTS = "a compiled model holds its weights: give a .safetensors file, or a folder with one"


def build(
    target: Annotated[str, typer.Argument(metavar="FILE|MODEL", help="A program, or a model.")],
    *,
    mode: Annotated[
        Mode | None,
        typer.Option(
            help="A training step of a `train`, or a model's forward pass, as -o wants it; or "
            "one that writes texts.",
            show_default="train",
        ),
    ] = None,
    emit: Annotated[
        str,
        typer.Option(
            metavar="STAGE",
            help=f"The stage to print: {', '.join(STAGES[:-1])} or {STAGES[-1]}.",
        ),
    ] = "plan",
    size: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", help="A size that is free, such as n=1."),
    ] = None,
    changes: Changes = None,
    device: Annotated[
        str | None, typer.Option(help=f"Plan for this device, not for any: {listed(PLANNED)}.")
    ] = None,
    precision: Precision = ComputePrecision.F32,
    no_tuned: NotTuned = False,
    no_opt: NoOptimizer = False,
    disabled: DisabledRules = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Compile it: into model.mgb, or a page.html."
        ),
    ] = None,
    certified: CertificateFile = None,
    force: Force = False,
    weights: WeightFiles = None,
    allow_unexpected: AllowUnexpected = None,
    split: Annotated[
        bool, typer.Option("--split", help="Let a page's model lie in a file beside it.")
    ] = False,
    with_data: Annotated[
        bool, typer.Option("--with-data", help="Put the data into a page that trains.")
    ] = False,
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Names of a page's classes: lines, or JSON.")
    ] = None,
    white: Annotated[
        float | None,
        typer.Option(min=1e-6, max=1e6, help="What a page makes of a white pixel: 1, or 16, 255."),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Of a model of texts, a file not beside the weights."),
    ] = None,
    report: Annotated[bool, typer.Option("--report", help="Say what the optimizer did.")] = False,
    as_data: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print what a stage makes of a program, or compile a model into a file.

    With `--mode train`, `--set` replaces settings.
    """
    from meganeura.cli.reports.model_outputs import read_labels

    if device is not None:
        require_device(device)
    names = None if labels is None else read_labels(labels)
    options = PageOptions(split, with_data, names, white, tokenizer)
    rules = rewriting(no_opt=no_opt, disabled=disabled, device=device or "cpu")
    wanted = mode or (Mode.TRAIN if output is None else Mode.INFER)
    beside = [output.with_suffix(MODEL)] if split and output is not None else []
    read = [Path(target), labels, tokenizer, *(weights or ())]
    kinds = (Kind.COMPILED, Kind.PAGE)
    if output is not None or certified is None:
        require_writable(output, kinds, force=force, reads=read, beside=beside)
    if certified is not None:
        require_writable(certified, [Kind.RUNS], force=force, reads=read, option=OPTION)
    options.require_page(output, wanted)
    if tokenizer is not None and output is None:
        text = "it is about a model that reads or writes texts: -o page.html"
        raise typer.BadParameter(text, param_hint="--tokenizer")
    if allow_unexpected and not weights:
        raise typer.BadParameter("there are no weights to compare with", param_hint="--weights")
    stages = stages_of(target, wanted, size, changes, rules, precision)
    if output is not None:
        if device is not None:
            text = "a compiled model runs on any device"
            raise typer.BadParameter(text, param_hint="--device")
        _require_portable(wanted, precision)
        say(
            _compile(
                target,
                stages,
                output,
                Files(weights, allowed(None, allow_unexpected), tokenizer, certified),
                options,
            )
        )
        return
    if certified is not None:
        certify(stages.program, stages.compiled.optimizations, certified, err=True)
    text = _text(stages, emit, device, no_tuned=no_tuned)
    if as_data:
        found = report_data(stages.compiled) if report else {}
        say(json.dumps({"stage": emit, "text": text, **found}, indent=2))
        return
    say(text)
    if report:
        say(report_text(stages.compiled))


def _require_portable(mode: Mode, precision: ComputePrecision) -> None:
    """Refuse a precision that a compiled model does not have."""
    match precision:
        case ComputePrecision.F32:
            return
        case ComputePrecision.F16 if mode is Mode.INFER:
            return
        case ComputePrecision.F16:
            text = "a compiled model has f16 for an inference alone: leave it out for this mode"
        case _:
            text = f"a compiled model computes in f32 or f16, and not in {precision}"
    raise typer.BadParameter(text, param_hint="--precision")


@dataclass(frozen=True)
class Files:
    """The files that are given beside the program."""

    weights: list[Path] | None
    excused: "Allowed"
    """Their tensors that may be missing or left over."""
    tokenizer: Path | None
    certificate: Path | None
    """The certificate that is written of it."""


def _compile(target: str, stages: Stages, output: Path, files: Files, options: PageOptions) -> str:
    """Compile a model or a training step into a file or a page; what was written."""
    from meganeura.cli.driver.compiled_training import compiled_training, training_job
    from meganeura_runtime.backends.device_failures import explained_failures

    weights = files.weights
    job = (
        training_job(target, stages, weights, files.excused) if stages.mode is Mode.TRAIN else None
    )
    if files.certificate is not None:
        step = None if job is None else job.spec.whole_step
        done = stages.compiled.optimizations if step is None else step.optimizations()
        certify(stages.program, done, files.certificate)
    with explained_failures():
        if job is not None:
            compiled = compiled_training(job, stages)
        elif stages.mode is Mode.GENERATE:
            compiled = _generation(stages, files)
        else:
            compiled = _inference(stages, files)
    plan = compiled.plan
    counts = f"{len(plan.dispatches)} dispatches of {len(plan.kernels)} kernels"
    if output.suffix == PAGE:
        title = stages.program.model() if job is None else f"{Path(target).stem}: {job.spec.name}"
        return f"written: {write_page(output, title, compiled, job, weights, options)}, {counts}"
    compiled.write(output)
    return f"written: {output} ({counts})"


def _generation(stages: Stages, files: Files) -> "Artefact":
    """The steps of a model that writes texts, with its weights and its tokenizer."""
    from meganeura_dsl import pipeline
    from meganeura_runtime.export.mgb.compile import compiled_generation
    from meganeura_runtime.export.mgb.portable_tokenizer import portable_tokenizer
    from meganeura_runtime.io.weights import compare

    if not files.weights:
        raise typer.BadParameter(NO_WEIGHTS, param_hint="--weights")
    tokenizer = portable_tokenizer(files.weights, files.tokenizer)
    capacity = stages.capacity
    symbolic = pipeline.elaborate_model(stages.program, config=stages.config)
    parameters = [each for each in symbolic.parameters if each.kind != "cache"]
    found = compare(files.weights, parameters, files.excused)
    model = replace(stages.token_model, levels=found.quantized)
    return compiled_generation(model, found.read(), capacity, tokenizer)


def _inference(stages: Stages, files: Files) -> "Artefact":
    """The inference form of a model with its weights and kernels."""
    from meganeura.cli.commands.deploy import deployment
    from meganeura_runtime.export.mgb.compile import compiled_model
    from meganeura_runtime.io.preprocess.preparation import preparation_of

    if not files.weights:
        raise typer.BadParameter(NO_WEIGHTS, param_hint="--weights")
    require_numbers(stages.graph)
    deployed = deployment(
        stages.elaboration, files.weights, files.excused, stages.rules, packs=True
    )
    stated = stages.elaboration.stated_bounds({})
    found = compiled_model(
        stages.program.model(),
        deployed.graph,
        deployed.values,
        stated=stated,
        halves=stages.precision is ComputePrecision.F16,
    )
    if stages.precision is ComputePrecision.F16 and found.matrices is None:
        text = "no product of this model is large enough for matrix units: leave it out"
        raise typer.BadParameter(text, param_hint="--precision")
    return replace(found, preparation=preparation_of(files.weights))


def _text(stages: Stages, emit: str, device: str | None, *, no_tuned: bool) -> str:
    from meganeura_dsl.ir.text import format_graph

    backend = emitting(emit)
    if backend is not None:
        optimized = stages.compiled.optimized
        options = Emission(emit, device, stages.floats, tuned=not no_tuned)
        return emitted(options, backend, optimized)
    stage = _stage(emit)
    match stage:
        case Stage.AST:
            return _tree(stages.program)
        case Stage.GRAPH:
            return format_graph(stages.graph)
        case Stage.OPTIMIZED:
            return format_graph(stages.compiled.optimized)
        case _:
            assert_never(stage)


def _stage(name: str) -> Stage:
    """A stage by its name."""
    try:
        return Stage(name)
    except ValueError:
        text = f"there is no stage `{name}`; there are {', '.join(STAGES)}"
        raise typer.BadParameter(text, param_hint="--emit") from None


def _tree(program: "Program") -> str:
    """The syntax tree of the program's own file."""
    from meganeura.cli.reports.syntax_tree import draw
    from meganeura_dsl.syntax.parser.parser import parse

    return draw(parse(program.source, Sink()))
