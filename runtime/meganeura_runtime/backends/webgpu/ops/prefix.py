"""Iterations of a prefix scan and of a merge sort; only lowered graphs contain them."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from meganeura_dsl.ir.graph import Array, Op
from meganeura_dsl.ir.ops.primitive.cumulative import Accumulation, Cumulative, LinearRecurrence
from meganeura_dsl.ir.ops.primitive.sort import Sort
from meganeura_dsl.ir.ops.type_rules import require_same_type
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Facts

UFUNCS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


@dataclass(frozen=True)
class PrefixStep(Op):
    """Each element combined with those `distance`, 2 `distance`, ... before it, `terms` in all.

    W. Hillis and G. Steele, "Data parallel algorithms", CACM 29, 1986, with more than two terms.
    """

    operands = Operands(("x",))
    traits = frozenset({Trait.REDUCTION})
    element_cost = ElementCost.LOAD
    kind: Accumulation
    axis: int
    backward: bool
    distance: int
    terms: int

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        """Returns the type of the scan's result."""
        return Cumulative(self.kind, self.axis).infer(facts, x)

    def evaluate(self, x: Array) -> Array:
        """Combine what is far away first, as the kernel does last: the order is not defined."""
        along = _in_order(x, self.axis, backward=self.backward)
        total = along.copy()
        for number in range(1, self.terms):
            by = number * self.distance
            total[by:] = UFUNCS[self.kind](total[by:], along[: len(along) - by])
        return _out_of_order(total, self.axis, backward=self.backward)


@dataclass(frozen=True)
class RecurrenceStep(Op):
    """Steps h -> a h + b composed: each with those `distance`, 2 `distance`, ... before it."""

    operands = Operands(("a", "b"))
    traits = frozenset({Trait.REDUCTION})
    element_cost = ElementCost.LOAD
    multiple_results: ClassVar[bool] = True
    axis: int
    backward: bool
    distance: int
    terms: int

    def infer(self, facts: Facts, a: TensorType, b: TensorType) -> tuple[TensorType, TensorType]:
        """A factor and a term for each step."""
        return a, LinearRecurrence(self.axis).infer(facts, a, b)

    def evaluate(self, a: Array, b: Array) -> tuple[Array, Array]:
        """The composition of the earliest step, the next one after it, and so on."""
        factors, terms = (_in_order(each, self.axis, backward=self.backward) for each in (a, b))
        product, total = factors.copy(), terms.copy()
        for number in range(1, self.terms):
            by = min(number * self.distance, len(terms))
            earlier = len(terms) - by
            total[by:] += product[by:] * terms[:earlier]
            product[by:] *= factors[:earlier]
        return (
            _out_of_order(product, self.axis, backward=self.backward),
            _out_of_order(total, self.axis, backward=self.backward),
        )


@dataclass(frozen=True)
class MergeStep(Op):
    """Each two neighbouring sorted runs along an axis merged to one, and what goes with them."""

    operands = Operands(("values", "positions"))
    traits = frozenset({Trait.REDUCTION})
    element_cost = ElementCost.LOAD
    multiple_results: ClassVar[bool] = True
    axis: int
    descending: bool
    run: int

    def infer(
        self, facts: Facts, values: TensorType, positions: TensorType
    ) -> tuple[TensorType, TensorType]:
        """Returns the types of the sort's results."""
        require_same_type(self, facts, values.with_dtype(DType.I32), positions)
        return Sort(self.axis).infer(facts, values)

    def evaluate(self, values: Array, positions: Array) -> tuple[Array, Array]:
        """Sort each two runs, which is what merging them gives."""
        size = values.shape[self.axis]
        found = values.copy(), positions.copy()
        for start in range(0, size, 2 * self.run):
            runs = (*(slice(None) for _ in range(self.axis)), slice(start, start + 2 * self.run))
            some = values[runs]
            order = Sort(self.axis, self.descending).evaluate(some)[1]
            for each, whole in zip(found, (some, positions[runs]), strict=True):
                each[runs] = np.take_along_axis(whole, order, self.axis)
        return found


def _in_order(x: Array, axis: int, *, backward: bool) -> Array:
    """The array with the axis first, from its end if it is walked backward."""
    moved = np.moveaxis(x, axis, 0)
    return moved[::-1] if backward else moved


def _out_of_order(x: Array, axis: int, *, backward: bool) -> Array:
    return np.moveaxis(x[::-1] if backward else x, 0, axis)
