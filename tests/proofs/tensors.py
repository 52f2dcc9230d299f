"""Tensors of all sizes: an element type, a shape, and the element at each index."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from meganeura_dsl.symbolic.size import Size
from tests.proofs.reals import Element, Index, Real, Whole
from tests.proofs.worlds import World

Shape = tuple[Size, ...]
Field = Any
"""A field of an op: a size, a shape, axes, a number, a word or a truth value."""


class IllTypedError(Exception):
    """Operands that a type rule refuses for their ranks, axes or element types."""


@dataclass(frozen=True)
class Tensor:
    """A tensor; `at` gives the element at an index that is within the shape."""

    dtype: str
    shape: Shape
    at: Callable[[Index], Real]

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def with_elements(self, at: Callable[[Index], Real], dtype: str = "") -> "Tensor":
        """A tensor of the same shape."""
        return Tensor(dtype or self.dtype, self.shape, at)


def unknown(name: str, dtype: str, shape: Shape) -> Tensor:
    """A tensor of which nothing is known."""
    return Tensor(dtype, shape, lambda index: Element(name, index))


def constant(value: Real, dtype: str, shape: Shape) -> Tensor:
    """A tensor with one number everywhere."""
    return Tensor(dtype, shape, lambda index: value)


class Scope:
    """The world of sizes in which ops are applied. A type rule's conditions are asked, or assumed.

    A pattern that is matched is well typed: its conditions are hypotheses. Those of what a rule
    makes of it are to be shown.
    """

    def __init__(self, world: World, mode: Literal["assume", "show"] = "assume") -> None:
        self.world = world
        self.mode = mode

    def same(self, left: Size, right: Size) -> None:
        """Two sizes are equal; raises `IllTypedError`, or `NotShownError`."""
        if left == right:
            return
        if self.mode == "show":
            self.world.require_equal(left, right)
        else:
            self._be(self.world.where_equal(left, right), f"{left} == {right}")

    def at_least(self, left: Size, right: Size) -> None:
        """A size is at least another; raises `IllTypedError`, or `NotShownError`."""
        if self.mode == "show":
            self.world.require_at_least(left, right)
        else:
            self._be(self.world.where_at_least(left, right), f"{left} >= {right}")

    def same_shape(self, left: Sequence[Size], right: Sequence[Size]) -> None:
        """Two shapes are equal."""
        require(len(left) == len(right), "tensors of two ranks")
        for one, other in zip(left, right, strict=True):
            self.same(one, other)

    def same_type(self, left: Tensor, right: Tensor) -> None:
        """Two tensors have one element type and one shape."""
        require(left.dtype == right.dtype, f"{left.dtype} and {right.dtype}")
        self.same_shape(left.shape, right.shape)

    def _be(self, world: World | None, condition: str) -> None:
        require(world is not None, condition)
        assert world is not None
        self.world = world


def require(holds: bool, reason: str) -> None:
    """Raise `IllTypedError` unless a condition on ranks, axes or element types holds."""
    if not holds:
        raise IllTypedError(reason)


def others(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The axes below `rank` that are not among `axes`."""
    return tuple(axis for axis in range(rank) if axis not in axes)


def with_axes(index: Index, axes: Sequence[int], inserted: Index) -> Index:
    """An index of all axes, from that of the others and that along `axes`, which are in order."""
    rest, along = iter(index), iter(inserted)
    rank = len(index) + len(inserted)
    return tuple(next(along) if axis in axes else next(rest) for axis in range(rank))


def as_index(x: Real) -> Size:
    """The integer that an expression is; raises `IllTypedError` for another one."""
    require(isinstance(x, Whole), "an index that is no polynomial")
    assert isinstance(x, Whole)
    return x.size
