"""`meganeura build`: what each stage makes of a program, printed."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from meganeura_dsl.cli.model_options import free_sizes

if TYPE_CHECKING:
    from meganeura_dsl.graph.core import Graph
    from meganeura_dsl.pipeline import Program
    from meganeura_dsl.shapes.tensor import TensorType
    from meganeura_runtime.plan.plan import Plan


class Mode(StrEnum):
    """What a program is built for."""

    TRAIN = "train"
    INFER = "infer"


class Stage(StrEnum):
    """Where to stop and print."""

    AST = "ast"
    GRAPH = "graph"
    OPTIMIZED = "optimized"
    PLAN = "plan"
    WGSL = "wgsl"


def build(
    target: Annotated[str, typer.Argument(metavar="FILE|MODEL", help="A program, or a model.")],
    mode: Annotated[
        Mode, typer.Option(help="One training step of a `train`, or a model's forward pass.")
    ] = Mode.TRAIN,
    emit: Annotated[Stage, typer.Option(help="The stage to print.")] = Stage.PLAN,
    size: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", help="A size that is free, such as n=1."),
    ] = None,
) -> None:
    """Print what a stage makes of a program."""
    from meganeura_dsl import pipeline

    program = pipeline.load(target)
    sizes = dict(_size(text) for text in size or ())
    match emit:
        case Stage.AST:
            text = _tree(program)
        case Stage.GRAPH | Stage.OPTIMIZED:
            from meganeura_dsl.graph.text import format_graph

            text = format_graph(_graph(program, mode, sizes))
        case Stage.PLAN:
            text = str(_plan(_graph(program, mode, sizes)))
        case Stage.WGSL:
            text = "\n\n".join(_plan(_graph(program, mode, sizes)).kernels)
        case _:
            assert_never(emit)
    typer.echo(text)


def _size(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not name.isidentifier() or not number.isdecimal() or int(number) < 1:
        raise typer.BadParameter(f"`{text}` is not a size such as n=1", param_hint="--size")
    return name, int(number)


def _check_names(sizes: Mapping[str, int], inputs: Iterable["TensorType"]) -> None:
    """Refuse a size that no input of the model mentions."""
    free = free_sizes(inputs)
    for name in sizes:
        if name not in free:
            text = f"no input has a size `{name}`; free are: {', '.join(free) or 'none'}"
            raise typer.BadParameter(text, param_hint="--size")


def _tree(program: "Program") -> str:
    """The syntax tree of the program's own file."""
    from meganeura_dsl.cli.tree import draw
    from meganeura_dsl.diagnostics import Sink
    from meganeura_dsl.syntax.parser import parse

    return draw(parse(program.source, Sink()))


def _graph(program: "Program", mode: Mode, sizes: dict[str, int]) -> "Graph":
    """The graph of a training step, or of a model."""
    from meganeura_dsl import pipeline

    match mode:
        case Mode.INFER:
            _check_names(sizes, pipeline.elaborate_model(program).inputs.values())
            return pipeline.elaborate_model(program, sizes=sizes).graph
        case Mode.TRAIN:
            from meganeura_runtime.train.job import settings_of, step_of

            overrides = [f"{name}={number}" for name, number in sizes.items()]
            name = program.train()
            return step_of(program, name, settings_of(program, name, overrides)).graph
        case _:
            assert_never(mode)


def _plan(graph: "Graph") -> "Plan":
    """The kernels of a graph, for an adapter with no more than WebGPU promises, and f16."""
    from meganeura_runtime.kernels.limits import DeviceLimits
    from meganeura_runtime.plan.schedule import plan_graph
    from meganeura_runtime.train.failures import explained_failures

    free = free_sizes(value.type for value in graph.values)
    if free:
        text = f"a plan needs numbers for {', '.join(free)}"
        raise typer.BadParameter(text, param_hint="--size")
    with explained_failures():
        return plan_graph(graph, DeviceLimits(half_floats=True))
