"""A part of a tensor that begins where whole numbers of the graph say, read or replaced."""

from collections.abc import Sequence
from dataclasses import dataclass

from meganeura_dsl.ir.graph import Array, Builder, Op, TypeRuleError, Value
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.ops.primitive.gather_scatter import OutsideError
from meganeura_dsl.ir.ops.type_rules import (
    concrete_shape,
    require_at_least,
    require_length,
    require_same_dtype,
    title,
)
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import DType, Shape, TensorType, size_in_bytes
from meganeura_dsl.symbolic.assumptions import Compare, Facts
from meganeura_dsl.symbolic.size import Size

__all__ = ["DynamicSlice", "DynamicUpdate"]

START = TensorType(DType.I32, ())


@dataclass(frozen=True)
class DynamicSlice(Op):
    """The part of x of these sizes that begins at the starts, one i32[] for each axis.

    The part lies within x: starts are proved or checked, never clamped.
    """

    operands = Operands(("x",), variadic="starts")
    traits = frozenset({Trait.GATHER})
    element_cost = ElementCost.SIMPLE
    sizes: Shape

    def infer(self, facts: Facts, x: TensorType, *starts: TensorType) -> TensorType:
        _require_starts(self, x, starts)
        require_length(self, "sizes", self.sizes, x.rank)
        require_at_least(self, facts, "sizes", self.sizes, 1)
        _require_room(self, facts, self.sizes, x)
        return x.with_shape(self.sizes)

    def evaluate(self, x: Array, *starts: Array) -> Array:
        return x[part_of(x, starts, concrete_shape(self.sizes))]

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        x, *starts = out.operands
        spread = build.add(DynamicUpdate(), full(build, x.type, 0), cotangent, *starts)
        return spread, *(None for _ in starts)

    def bytes_read(self, operand: TensorType, result: TensorType) -> int:
        return min(size_in_bytes(operand), size_in_bytes(result))

    def index_operands(self, x: TensorType, *starts: TensorType) -> tuple[tuple[int, Size], ...]:
        return _starts_of(1, x, self.sizes)


@dataclass(frozen=True)
class DynamicUpdate(Op):
    """x with the part that begins at the starts, one i32[] for each axis, replaced by `part`."""

    operands = Operands(("x", "part"), variadic="starts")
    traits = frozenset({Trait.GATHER})
    element_cost = ElementCost.SIMPLE

    def infer(
        self, facts: Facts, x: TensorType, part: TensorType, *starts: TensorType
    ) -> TensorType:
        _require_starts(self, x, starts)
        require_same_dtype(self, x, part)
        require_length(self, "part", part.shape, x.rank)
        _require_room(self, facts, part.shape, x)
        return x

    def evaluate(self, x: Array, part: Array, *starts: Array) -> Array:
        replaced = x.copy()
        replaced[part_of(x, starts, part.shape)] = part
        return replaced

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        _, part, *starts = out.operands
        none = full(build, part.type, 0)
        return (
            build.add(DynamicUpdate(), cotangent, none, *starts),
            build.add(DynamicSlice(part.type.shape), cotangent, *starts),
            *(None for _ in starts),
        )

    def index_operands(
        self, x: TensorType, part: TensorType, *starts: TensorType
    ) -> tuple[tuple[int, Size], ...]:
        return _starts_of(2, x, part.shape)


OPS: tuple[type[Op], ...] = (DynamicSlice, DynamicUpdate)


def _require_starts(op: Op, x: TensorType, starts: Sequence[TensorType]) -> None:
    if len(starts) != x.rank or any(start != START for start in starts):
        shown = ", ".join(map(str, starts)) or "none"
        raise TypeRuleError(f"{title(op)} takes a start {START} for each axis of {x}, not {shown}")


def _require_room(op: Op, facts: Facts, sizes: Shape, x: TensorType) -> None:
    for size, whole in zip(sizes, x.shape, strict=True):
        facts.require(Compare("<=", size, whole), f"the part of {title(op)} fits into each axis")


def _starts_of(first: int, x: TensorType, sizes: Shape) -> tuple[tuple[int, Size], ...]:
    """Returns for each start its number among the operands, and the number of possible values."""
    axes = zip(x.shape, sizes, strict=True)
    return tuple((first + at, whole - size + 1) for at, (whole, size) in enumerate(axes))


def part_of(x: Array, starts: Sequence[Array], sizes: tuple[int, ...]) -> tuple[slice, ...]:
    """The part of an array; raises `OutsideError` where it does not lie within."""
    found: list[slice] = []
    for start, size, whole in zip(map(int, starts), sizes, x.shape, strict=True):
        if not 0 <= start <= whole - size:
            raise OutsideError(start, whole - size + 1)
        found.append(slice(start, start + size))
    return tuple(found)
