"""`meganeura build`: what each stage makes of a program, printed."""

import json
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from meganeura.cli.driver.stages import Mode, Stages, plan_for, plan_of, require_numbers, stages_of
from meganeura.cli.options.device_options import NotTuned, require_device
from meganeura.cli.options.model_options import (
    Changes,
    DisabledRules,
    NoOptimizer,
    WeightFiles,
    rewriting,
)
from meganeura.cli.reports.optimizer_report import report_data, report_text
from meganeura.cli.ui.console import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from meganeura_dsl.ir.graph import Graph
    from meganeura_dsl.pipeline import Program
    from meganeura_runtime.backends.webgpu.plan import Plan


AFTER = "after:"
"""What the name of a pass follows, to print the graph after it."""


class Stage(StrEnum):
    """Where to stop and print."""

    AST = "ast"
    GRAPH = "graph"
    OPTIMIZED = "optimized"
    PLAN = "plan"
    WGSL = "wgsl"


def build(
    target: Annotated[str, typer.Argument(metavar="FILE|MODEL", help="A program, or a model.")],
    *,
    mode: Annotated[
        Mode | None,
        typer.Option(
            help="One training step of a `train`, or a model's forward pass, as -o wants it.",
            show_default="train",
        ),
    ] = None,
    emit: Annotated[
        str,
        typer.Option(
            metavar="STAGE",
            help="The stage to print: ast, graph, optimized, after:PASS, plan or wgsl.",
        ),
    ] = Stage.PLAN,
    size: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", help="A size that is free, such as n=1."),
    ] = None,
    changes: Changes = None,
    device: Annotated[
        str | None, typer.Option(help="Plan for this device, not for any: wgpu, or wgpu:N.")
    ] = None,
    no_tuned: NotTuned = False,
    no_opt: NoOptimizer = False,
    disabled: DisabledRules = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write a compiled model: model.mgb."),
    ] = None,
    weights: WeightFiles = None,
    report: Annotated[bool, typer.Option("--report", help="Say what the optimizer did.")] = False,
    as_data: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print what a stage makes of a program, or compile a model into a file.

    With `--mode train`, `--set` replaces settings.
    """
    if device is not None:
        require_device(device)
    rules = rewriting(no_opt=no_opt, disabled=disabled, device=device or "cpu")
    wanted = mode or (Mode.TRAIN if output is None else Mode.INFER)
    stages = stages_of(target, wanted, size, changes, rules)
    if output is not None:
        if device is not None:
            text = "a compiled model runs on any device"
            raise typer.BadParameter(text, param_hint="--device")
        say(_compile(stages, output, weights))
        return
    if emit.startswith(AFTER):
        text = _after(stages, emit.removeprefix(AFTER))
    else:
        on_device = partial(plan_for, device=device, no_tuned=no_tuned)
        text = _text(stages, _stage(emit), on_device)
    if as_data:
        found = report_data(stages.compiled) if report else {}
        say(json.dumps({"stage": emit, "text": text, **found}, indent=2))
        return
    say(text)
    if report:
        say(report_text(stages.compiled))


def _compile(stages: Stages, output: Path, files: list[Path] | None) -> str:
    """Write the inference form of a model with its weights and kernels; what was written."""
    from meganeura.cli.commands.deploy import deployment
    from meganeura_runtime.export.mgb.container import Artefact

    if stages.mode is not Mode.INFER:
        raise typer.BadParameter("only a model can be compiled", param_hint="--mode")
    if not files:
        raise typer.BadParameter("a compiled model holds its weights", param_hint="--weights")
    require_numbers(stages.graph)
    made = deployment(stages.elaboration, files, stages.rules)
    plan = plan_of(made.graph)
    Artefact(stages.program.model(), made.graph, plan, made.values).write(output)
    return f"written: {output} ({len(plan.dispatches)} dispatches of {len(plan.kernels)} kernels)"


def _text(stages: Stages, emit: Stage, plan: "Callable[[Graph], Plan]") -> str:
    from meganeura_dsl.ir.text import format_graph

    match emit:
        case Stage.AST:
            return _tree(stages.program)
        case Stage.GRAPH:
            return format_graph(stages.graph)
        case Stage.OPTIMIZED:
            return format_graph(stages.compiled.optimized)
        case Stage.PLAN:
            return str(plan(stages.compiled.optimized))
        case Stage.WGSL:
            return "\n\n".join(plan(stages.compiled.optimized).kernels)
        case _:
            assert_never(emit)


def _stage(name: str) -> Stage:
    """A stage by its name."""
    try:
        return Stage(name)
    except ValueError:
        stages = ", ".join((*Stage, f"{AFTER}PASS"))
        text = f"there is no stage `{name}`; there are {stages}"
        raise typer.BadParameter(text, param_hint="--emit") from None


def _after(stages: Stages, name: str) -> str:
    """The graph after a pass of the webgpu backend, for WebGPU's default limits."""
    from meganeura_dsl.ir.text import format_graph
    from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Target
    from meganeura_runtime.backends.webgpu.passes.pipeline import PASSES, after_each, name_of

    names = [name_of(each) for each in PASSES]
    if name not in names:
        text = f"there is no pass `{name}`; there are, in order, {', '.join(names)}"
        raise typer.BadParameter(text, param_hint="--emit")
    target = Target(DeviceLimits(half_floats=True))
    return format_graph(dict(after_each(stages.compiled.optimized, target))[name])


def _tree(program: "Program") -> str:
    """The syntax tree of the program's own file."""
    from meganeura.cli.reports.syntax_tree import draw
    from meganeura_dsl.diagnostics.problem import Sink
    from meganeura_dsl.syntax.parser.parser import parse

    return draw(parse(program.source, Sink()))
