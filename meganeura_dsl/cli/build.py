"""`meganeura build`: what each stage makes of a program, printed."""

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from meganeura_dsl.cli.compiled import Mode, Stages, parsed_sizes, plan_of
from meganeura_dsl.cli.model_options import DisabledRules, NoOptimizer, rewriting
from meganeura_dsl.cli.optimizer_report import report_data, report_text

if TYPE_CHECKING:
    from meganeura_dsl.pipeline import Program


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
        Mode, typer.Option(help="One training step of a `train`, or a model's forward pass.")
    ] = Mode.TRAIN,
    emit: Annotated[Stage, typer.Option(help="The stage to print.")] = Stage.PLAN,
    size: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", help="A size that is free, such as n=1."),
    ] = None,
    no_opt: NoOptimizer = False,
    disabled: DisabledRules = None,
    report: Annotated[bool, typer.Option("--report", help="Say what the optimizer did.")] = False,
    as_data: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print what a stage makes of a program."""
    from meganeura_dsl import pipeline

    rules = rewriting(no_opt=no_opt, disabled=disabled)
    stages = Stages(pipeline.load(target), mode, parsed_sizes(size or ()), rules)
    text = _text(stages, emit)
    if as_data:
        found = report_data(stages.compiled) if report else {}
        typer.echo(json.dumps({"stage": emit, "text": text, **found}, indent=2))
        return
    typer.echo(text)
    if report:
        typer.echo(report_text(stages.compiled))


def _text(stages: Stages, emit: Stage) -> str:
    from meganeura_dsl.graph.text import format_graph

    match emit:
        case Stage.AST:
            return _tree(stages.program)
        case Stage.GRAPH:
            return format_graph(stages.graph)
        case Stage.OPTIMIZED:
            return format_graph(stages.compiled.optimized)
        case Stage.PLAN:
            return str(plan_of(stages.compiled.optimized))
        case Stage.WGSL:
            return "\n\n".join(plan_of(stages.compiled.optimized).kernels)
        case _:
            assert_never(emit)


def _tree(program: "Program") -> str:
    """The syntax tree of the program's own file."""
    from meganeura_dsl.cli.tree import draw
    from meganeura_dsl.diagnostics import Sink
    from meganeura_dsl.syntax.parser import parse

    return draw(parse(program.source, Sink()))
