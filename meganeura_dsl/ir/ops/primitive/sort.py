"""Sorting along an axis: the values in order, and where each of them stood."""

from dataclasses import dataclass
from typing import ClassVar

from meganeura_dsl.ir.graph import Array, Builder, Op, Value
from meganeura_dsl.ir.ops.primitive.gather_scatter import Gather
from meganeura_dsl.ir.ops.primitive.movement import Transpose
from meganeura_dsl.ir.ops.type_rules import NUMBERS, require_axes, require_dtype
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.symbolic.assumptions import Facts

__all__ = ["Sort"]


@dataclass(frozen=True)
class Sort(Op):
    """The elements along one axis in order, and the position of each before, an i32.

    Of equal elements the one that stood first comes first. NaN is larger than every number.
    """

    operands = Operands(("x",))
    traits = frozenset({Trait.REDUCTION})
    element_cost = ElementCost.LOAD
    multiple_results: ClassVar[bool] = True
    axis: int
    descending: bool = False

    def infer(self, facts: Facts, x: TensorType) -> tuple[TensorType, TensorType]:
        require_dtype(self, x, NUMBERS)
        require_axes(self, (self.axis,), x.rank)
        return x, x.with_dtype(DType.I32)

    def evaluate(self, x: Array) -> tuple[Array, Array]:
        if self.descending:
            # Sorted from its end, and turned round again, equal elements keep their order.
            last = x.shape[self.axis] - 1
            flipped = np.argsort(np.flip(x, self.axis), self.axis, kind="stable")
            order = last - np.flip(flipped, self.axis)
        else:
            order = np.argsort(x, self.axis, kind="stable")
        return np.take_along_axis(x, order, self.axis), order.astype(np.int32)

    def pullback(
        self, build: Builder, out: tuple[Value, ...], cotangent: tuple[Value | None, ...]
    ) -> tuple[Value | None, ...]:
        (_, positions), (dy, _) = out, cotangent
        if dy is None:
            return (None,)
        _, ranks = build.add_all(Sort(self.axis), positions)
        last = dy.type.rank - 1
        around = (*(at for at in range(last + 1) if at != self.axis), self.axis)
        moved = build.add(Transpose(around), dy), build.add(Transpose(around), ranks)
        found = build.add(Gather(last, last), *moved)
        inverse = tuple(sorted(range(last + 1), key=around.__getitem__))
        return (build.add(Transpose(inverse), found),)

    def branch_index(self, build: Builder, out: Value) -> Value:
        return build.results_of(out)[1]


OPS: tuple[type[Op], ...] = (Sort,)
