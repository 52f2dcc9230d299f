"""The subject of `profile` and `tune`: a program with sizes, and the graph that runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from meganeura.cli.driver.stages import GraphMode, Mode, Stages, parsed_sizes
from meganeura.cli.options.target_program import load
from meganeura_dsl.settings.compute_precision import ComputePrecision

if TYPE_CHECKING:
    from meganeura_dsl.ir.graph import Graph
    from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions

Target = Annotated[str, typer.Argument(metavar="FILE|MODEL", help="A program, or a model.")]
MeasuredMode = Annotated[
    GraphMode, typer.Option(help="A model's forward pass, or one training step of a `train`.")
]
Sizes = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=NUMBER", help="A size that is free, such as n=32."),
]


@dataclass(frozen=True)
class Subject:
    """A model or a training step, all its sizes known."""

    name: str
    mode: GraphMode
    sizes: Mapping[str, int]
    graph: "Graph"
    precision: ComputePrecision
    """The precision, as asked for or as a `train` block sets it."""

    def __str__(self) -> str:
        shown = ", ".join(f"{name} = {size}" for name, size in sorted(self.sizes.items()))
        what = {GraphMode.INFER: "inference", GraphMode.TRAIN: "a training step"}[self.mode]
        return f"{self.name}: {what}{f', {shown}' if shown else ''}"


def subject(
    target: str,
    mode: GraphMode,
    sizes: Sequence[str] | None,
    rules: "RewriteOptions",
    precision: ComputePrecision = ComputePrecision.F32,
) -> Subject:
    """The graph of a target as it runs; sizes of a model that are left open are small ones."""
    program = load(target)
    given = parsed_sizes(sizes or ())
    match mode:
        case GraphMode.INFER:
            name = program.model()
            stages = Stages(program, Mode(mode), given, rules)
            from meganeura_dsl.ir.types import example_sizes

            given = {**example_sizes(stages.elaboration.inputs.values()), **given}
            stages = Stages(program, Mode(mode), given, rules, precision=precision)
        case GraphMode.TRAIN:
            name = program.train()
            stages = Stages(program, Mode(mode), given, rules, precision=precision)
        case _:
            assert_never(mode)
    return Subject(name, mode, given, stages.compiled.optimized, stages.floats)
