"""Problems of layers that are declared, and of blocks that are given as arguments."""

from dataclasses import dataclass
from typing import ClassVar

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report
from meganeura_dsl.elaborate.problems.location import Location, PlacedProblem
from meganeura_dsl.elaborate.problems.shape_problems import Example, example_remarks


@dataclass(frozen=True)
class BlockDoesNotFit(PlacedProblem):
    """A block is given as an argument, and does not do what the block that takes it relies on.

    That block was proved once, for all blocks that fit the header of the default, or the header
    that its parameter states. One that fits takes the inputs of the header, of any sizes, with the
    configuration that it is given there, and its results have the shapes of the header.

        block Mlp(hidden, act=gelu)(x: [n, d]) -> [n, d]:
          return x |> fc1: linear(hidden) |> act |> fc2: linear(d)

        model mlp = Mlp(64, act=max_pool)      # E0221: `max_pool` needs `k`, and gelu does not

    A parameter of the kind `block`, without a header, takes any block; then each model is checked.
    """

    code: ClassVar[str] = "E0221"
    topic: ClassVar[str] = "block argument"
    given: str
    parameter: str
    reason: str
    contract: Location
    header: str
    example: Example | None = None

    def report(self) -> Report:
        written = self.contract.span.text
        contract = f"{written}   that is  {self.header}" if self.header else written
        return self.words(
            f"`{self.given}` cannot stand for `{self.parameter}`",
            self.reason,
            remarks=(
                Remark("the contract", contract, self.contract.span),
                *example_remarks(self.example),
            ),
        )


@dataclass(frozen=True)
class UnappliedLayer(PlacedProblem):
    """A layer is declared and nothing applies it, so its weights have no shapes.

    layer tower: linear(8)         # E0222 if no `x |> tower` follows
    """

    code: ClassVar[str] = "E0222"
    topic: ClassVar[str] = "unused"
    layer: str

    def report(self) -> Report:
        cure = Help("apply it, or delete the line", f"x |> {self.layer}")
        return self.words(f"nothing applies the layer `{self.layer}`", cure=cure)


@dataclass(frozen=True)
class HasWeights(PlacedProblem):
    """A label that has weights already is given a block again.

    layer tower: linear(8)
    a = left |> tower              # the layer, applied
    b = right |> tower: linear(8)  # E0223: this would be a second layer of the same name
    """

    code: ClassVar[str] = "E0223"
    topic: ClassVar[str] = "naming"
    layer: str
    first: Location

    def report(self) -> Report:
        first = self.first.span.text.split("\n")[0]
        return self.words(
            f"`{self.layer}` has its weights already",
            "declared as a layer" if first.startswith("layer") else "declared again",
            remarks=(Remark("declared here", first, self.first.span),),
            cure=Help("apply it as it is", f"x |> {self.layer}"),
        )


PROBLEMS: tuple[type[Problem], ...] = (BlockDoesNotFit, UnappliedLayer, HasWeights)
"""Every problem of this module."""
