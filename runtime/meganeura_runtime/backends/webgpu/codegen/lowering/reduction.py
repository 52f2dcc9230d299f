"""Lowering of reductions: how many terms each element has, and how to read one."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import inf, prod
from typing import TypeAlias

from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Axis,
    BoundsCheck,
    Expression,
    Index,
    unravel,
    variable,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import ElementReader


class Kind(Enum):
    """The way terms are combined."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    ARG_MAX = "arg_max"
    ONLY = "only"
    """No combination: there is one term, and it is the result."""


def neutral(kind: Kind, dtype: DType) -> float:
    """Returns the result of combining no terms."""
    if kind in (Kind.SUM, Kind.ONLY):
        return 0
    if kind is Kind.MIN:
        return {DType.I32: (1 << 31) - 1, DType.U32: (1 << 32) - 1}.get(dtype, inf)
    return {DType.I32: -(1 << 31), DType.U32: 0}.get(dtype, -inf)


@dataclass(frozen=True, slots=True)
class Term:
    """One term; where `counts` does not hold, it is left out without being read."""

    element: Expression
    counts: BoundsCheck | None = None


ReadTerm: TypeAlias = Callable[[ElementReader, Index, Index], Term]
"""The term at an index of the result and an index among the terms."""


@dataclass(frozen=True, slots=True)
class Links:
    """The start of the only loop for an element of the result, and its next term.

    It ends at the first number that is no term.
    """

    first: Callable[[ElementReader, Index], Expression]
    following: Callable[[ElementReader, Index], Expression]


@dataclass(frozen=True, slots=True)
class Reduction:
    """The terms of an element: axes that are joined run in one loop.

    With `links` the terms of an element are not all there are, but those of a list.
    """

    kind: Kind
    loops: tuple[tuple[int, ...], ...]
    term: ReadTerm
    links: Links | None = None

    @property
    def count(self) -> int:
        """Terms of one element."""
        return prod(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of iterations of each loop."""
        return tuple(prod(axes) for axes in self.loops)

    @property
    def shape(self) -> tuple[int, ...]:
        """The axes of the terms."""
        return tuple(size for axes in self.loops for size in axes)

    def axes(self) -> tuple[Axis, ...]:
        """A variable for each loop."""
        return tuple(Axis(f"k{position}", size) for position, size in enumerate(self.sizes))

    def index(self, axes: tuple[Axis, ...]) -> Index:
        """The term that the loops are at."""
        return tuple(
            position
            for axis, sizes in zip(axes, self.loops, strict=True)
            for position in unravel(variable(axis), sizes)
        )
