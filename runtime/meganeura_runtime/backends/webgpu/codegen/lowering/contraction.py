"""Lowering of sums of products: four groups of axes, and how to read both factors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import BoundsCheck, Expression, Index
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import ElementReader

Factor: TypeAlias = Callable[[ElementReader, Index, Index, Index], Expression]
"""A factor, at an index of the batch, of its rows or columns, and of the terms."""


@dataclass(frozen=True, slots=True)
class OutputCoordinate:
    """The position of an element of the result, and the guards of an index that may not exist."""

    index: Index
    guards: tuple[BoundsCheck, ...] = ()


@dataclass(frozen=True, slots=True)
class Contraction:
    """result[b, row, column] = sum over terms of left[b, row, term] * right[b, column, term].

    Columns lie next to each other in memory wherever that can be arranged.
    """

    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    terms: tuple[int, ...]
    left: Factor
    right: Factor
    coordinate: Callable[[Index, Index, Index], OutputCoordinate]
    together: tuple[int, ...] | None = None
    """The axes of the terms that it is cheapest to step along; all, where None."""
    reached: Callable[[Index, Index], Sequence[BoundsCheck]] | None = None
    """The guards of terms for an index of the batch, by their axes that are not `together`."""
    name: str = ""
    """The op and the types of its operands, by which a tuner knows it again."""

    @property
    def count(self) -> int:
        """Terms of one element."""
        return prod(self.terms)
