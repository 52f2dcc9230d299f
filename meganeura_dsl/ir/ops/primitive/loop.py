"""Loops whose body is a graph: their parts, their types, and one iteration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

from meganeura_dsl.ir.graph import Body, Builder, Graph, Op, TypeRuleError, Value
from meganeura_dsl.ir.ops.primitive.leaf import Input
from meganeura_dsl.ir.ops.type_rules import (
    concrete,
    require_at_least,
    require_axes,
    require_same_type,
    title,
)
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.symbolic.size import Size

ITERATION = "iteration"
"""The leaf of a body that is the place of the iteration's slices along their axes, an i32."""
CARRY, SLICE, CAPTURED, COLLECTED = "carry.", "slice.", "captured.", "collected."
"""Prefixes of the names of a body's other leaves, and of its outputs."""


@dataclass(frozen=True)
class Loop(Op, abstract=True):
    """The iterations of a body. Operands: first carries, sliced tensors, captured ones.

    The results are the carries behind the last iteration, then what was collected. The axes
    `sliced` and `collected` have one entry for each iteration. The body's leaves are `Input`s:
    `iteration`, an i32 index of the iteration's slices, `carry.0`, `slice.0`, `captured.0` and so
    on; its outputs are `carry.0`, `collected.0` and so on. `backward` begins with the last
    slices.

    Where a loop `stops`, its last carry is a bool that says whether the iteration before was one
    that counts. From the first iteration that leaves it false on, every iteration leaves all
    carries as they are and collects zeros, so that these iterations need not be run.
    """

    operands = Operands(variadic="values")
    traits = frozenset({Trait.LOOP})
    element_cost = ElementCost.LOAD
    multiple_results: ClassVar[bool] = True
    body: Body
    iterations: Size
    carried: int
    sliced: tuple[int, ...]
    collected: tuple[int, ...]
    backward: bool
    stops: bool = False

    # --- the parts of a body ---------------------------------------------------------------------

    @property
    def bodies(self) -> tuple[Body, ...]:
        return (self.body,)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The leaf of the body that each operand is read as."""
        carries = [f"{CARRY}{number}" for number in range(self.carried)]
        slices = [f"{SLICE}{number}" for number in range(len(self.sliced))]
        rest = len(self.body.inputs) - 1 - len(carries) - len(slices)
        return (*carries, *slices, *(f"{CAPTURED}{number}" for number in range(rest)))

    @cached_property
    def next(self) -> tuple[Value, ...]:
        """The outputs of the body that are carried on."""
        outputs = self.body.graph.outputs
        return tuple([outputs[f"{CARRY}{number}"] for number in range(self.carried)])

    @cached_property
    def given(self) -> tuple[Value, ...]:
        """The outputs of the body that are collected."""
        outputs = self.body.graph.outputs
        return tuple([outputs[f"{COLLECTED}{number}"] for number in range(len(self.collected))])

    def parts(
        self, operands: Sequence[Value]
    ) -> tuple[Sequence[Value], Sequence[Value], Sequence[Value]]:
        """The operands that are carried, those that are sliced, those that are captured."""
        first, second = self.carried, self.carried + len(self.sliced)
        return operands[:first], operands[first:second], operands[second:]

    # --- facets ----------------------------------------------------------------------------------

    def infer(self, facts: Facts, *operands: TensorType) -> tuple[TensorType, ...]:
        require_at_least(self, facts, "iterations", (self.iterations,), 1)
        self._require_fitting()
        if len(operands) != len(self.names):
            raise TypeRuleError(f"{title(self)} takes {len(self.names)} operands of this body")
        axes = (*[None] * self.carried, *self.sliced, *[None] * len(operands))
        for name, operand, axis in zip(self.names, operands, axes, strict=False):
            within = operand if axis is None else self._slice(facts, operand, axis)
            require_same_type(self, facts, self.body.inputs[name].type, within)
        for start, after in zip(operands, self.next, strict=False):
            require_same_type(self, facts, after.type, start)
        stacks = (
            stack(value.type, axis, self.iterations)
            for value, axis in zip(self.given, self.collected, strict=True)
        )
        return (*operands[: self.carried], *stacks)

    def _require_fitting(self) -> None:
        """The body has the leaves and outputs of these carries and slices, and no others."""
        outputs = [f"{CARRY}{number}" for number in range(self.carried)]
        outputs += [f"{COLLECTED}{number}" for number in range(len(self.collected))]
        graph = self.body.graph
        if {ITERATION, *self.names} != set(self.body.inputs) or set(outputs) != set(graph.outputs):
            raise TypeRuleError(f"{title(self)} has a body of other leaves or outputs")
        for value, axis in zip(self.given, self.collected, strict=True):
            require_axes(self, (axis,), value.type.rank + 1)
        if self.stops and (not self.next or self.next[-1].type != TensorType(DType.BOOL, ())):
            raise TypeRuleError(f"{title(self)} stops by a last carry that is a bool[]")

    def _slice(self, facts: Facts, operand: TensorType, axis: int) -> TensorType:
        require_axes(self, (axis,), operand.rank)
        size = operand.shape[axis]
        facts.require_equal(size, self.iterations, f"{title(self)} has an iteration for each slice")
        return operand.with_shape(operand.shape[:axis] + operand.shape[axis + 1 :])

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        once = sum(
            value.op.flops([each.type for each in value.operands], value.type)
            for value in self.body.graph.values
            if value.operands and not value.index
        )
        return concrete(self.iterations) * once

    def extended(self, extra: Sequence[Value]) -> Self:
        """The same loop that also collects some values of its body, along the first axis."""
        first = len(self.collected)
        more = {f"{COLLECTED}{first + number}": value for number, value in enumerate(extra)}
        graph = self.body.graph
        body = Body(Graph(graph.values, {**graph.outputs, **more}))
        return replace(self, body=body, collected=(*self.collected, *[0] * len(extra)))

    def instantiate(
        self, build: Builder, leaves: Mapping[str, Value]
    ) -> tuple[dict[int, Value], tuple[Value, ...], tuple[Value, ...]]:
        """One iteration in a builder: each value by its id in the body; what is next, and given."""
        rebuilt: dict[int, Value] = {}
        for value in self.body.graph.values:
            op = value.op
            if isinstance(op, Input):
                rebuilt[value.id] = leaves[op.name]
                continue
            with build.at(value.origin):
                rebuilt[value.id] = build.reapply(
                    value, *(rebuilt[each.id] for each in value.operands)
                )
        following = tuple([rebuilt[value.id] for value in self.next])
        return rebuilt, following, tuple([rebuilt[value.id] for value in self.given])


def stack(of: TensorType, axis: int, iterations: Size) -> TensorType:
    """The type of the values of all iterations along a new axis."""
    return of.with_shape((*of.shape[:axis], iterations, *of.shape[axis:]))
