"""Summaries: types and names of an application, without a graph, for others like it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from meganeura_dsl.ir.graph import Builder, Op, Value
from meganeura_dsl.ir.traits import Operands
from meganeura_dsl.symbolic.assumptions import Condition, Facts

if TYPE_CHECKING:
    from collections.abc import Hashable

    from meganeura_dsl.elaborate.scope.binding import Binding
    from meganeura_dsl.elaborate.scope.deferred import DeferredNumber
    from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
    from meganeura_dsl.ir.types import Shape, TensorType
    from meganeura_dsl.syntax import ast


@dataclass(frozen=True)
class Summarized(Op, abstract=True):
    """A result of a summarized layer; its operands are the values that its gradient reaches.

    It stands in the graph of a check, of which nothing but types is asked.
    """

    operands = Operands(variadic="reached")
    traits = frozenset()
    number: int
    """No two of a graph have the same."""
    of: TensorType
    """Its type."""
    normalised_by: str = ""
    """The name of the function that gave it, if that makes probabilities of logits."""

    def infer(self, _facts: Facts, *_operands: TensorType) -> TensorType:
        """The type it was given."""
        return self.of

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        """Values of which as much is known: each depends on all operands, and on the cotangent."""
        return tuple(
            build.add(Summarized(build.count, each.type), *out.operands, cotangent)
            if each.type.dtype.is_float
            else None
            for each in out.operands
        )


@dataclass
class Applied:
    """The blocks, models and functions that were applied."""

    depths: dict[ast.Node, int] = field(default_factory=dict["ast.Node", int])
    """The most declarations around each of them, where it was applied."""
    blocks: set[ast.Block] = field(default_factory=set["ast.Block"])
    """The blocks whose bodies were run."""

    def enter(self, declaration: ast.Node, depth: int) -> None:
        """One more application."""
        if depth > self.depths.get(declaration, -1):
            self.depths[declaration] = depth

    def add(self, other: Applied, deeper: int = 0) -> None:
        """Adds the applications of another place, `deeper` levels down."""
        depths = self.depths
        for declaration, depth in other.depths.items():
            if depth + deeper > depths.get(declaration, -1):
                depths[declaration] = depth + deeper
        self.blocks |= other.blocks

    def moved(self, by: int) -> Applied:
        """The same applications with their depths increased by a number."""
        return Applied({each: depth + by for each, depth in self.depths.items()}, self.blocks)


class SummarizedValue(NamedTuple):
    """A result or an update: its type, and what its gradient reaches."""

    type: TensorType
    inputs: tuple[int, ...]
    """The numbers of the inputs that it reaches."""
    parameters: tuple[str, ...]
    """The names, inside of the layer, of the parameters that it reaches."""
    normalised_by: str = ""
    """The name of the function that gave it, if that makes probabilities of logits."""


@dataclass(frozen=True)
class Summary:
    """All that one application did to the elaboration, names and paths being those inside of it."""

    results: tuple[SummarizedValue, ...]
    updates: tuple[tuple[str, SummarizedValue], ...]
    parameters: tuple[tuple[str, ParameterInfo], ...]
    reserved: tuple[tuple[str, int], ...]
    """The paths of declared layers, and how many parameters of it were declared before each."""
    bindings: tuple[Binding, ...]
    """The bindings, with paths of the summarized application; the first at each place."""
    applied: Applied
    """The applications inside, and their depth."""
    values: int
    iterations: int
    deferred: tuple[DeferredNumber[Any], ...] = ()
    """The numbers that are left to those who know what symbols stand for."""
    needs: tuple[Condition, ...] = ()
    """Conditions on the sizes that symbols stand for."""
    shapes: frozenset[Shape] = frozenset()
    """The shapes of all values that were made with symbols."""


@dataclass
class Summaries:
    """The summaries of one check, which all its elaborations share, and the facts they start from.

    Facts compare by identity, so that what is known of one elaboration says something about another
    only if they start from the same.
    """

    facts: Facts = field(default_factory=Facts)
    known: dict[Hashable, Summary] = field(default_factory=dict["Hashable", Summary])
    symbolic: dict[Hashable, Summary | None] = field(
        default_factory=dict["Hashable", "Summary | None"]
    )
    """Summaries in symbols, for what was applied twice; None where there is none."""
    seen: set[Hashable] = field(default_factory=set["Hashable"])
    """Keys of applications that were met once."""
    attempts: dict[ast.Block, int] = field(default_factory=dict["ast.Block", int])
    """The number of failed attempts to elaborate each block in symbols."""
