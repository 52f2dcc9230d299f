"""The body of a loop under construction: one iteration's values, in the outer builder.

What depends on no iteration stays outside, where it is computed once, and is captured. So the
values of an iteration are those that depend on the leaves that a region hands out, and `close`
finds them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from meganeura_dsl.ir.graph import Body, Bound, Builder, Value
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast
from meganeura_dsl.ir.ops.primitive.elementwise import Sub
from meganeura_dsl.ir.ops.primitive.leaf import Constant, Input, Iota
from meganeura_dsl.ir.ops.primitive.loop import CAPTURED, CARRY, COLLECTED, ITERATION, SLICE
from meganeura_dsl.ir.ops.primitive.movement import Reverse
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import Size


@dataclass(frozen=True)
class Carry:
    """A leaf of an iteration, what it is in the first iteration, and what it is in the next one."""

    leaf: Value
    start: Value
    next: Value


@dataclass(frozen=True)
class Sliced:
    """A tensor with a slice for each iteration along an axis; `backward` is the last first."""

    source: Value
    axis: int
    backward: bool


@dataclass(frozen=True)
class Collected:
    """A value of each iteration that becomes a slice of a result, along a new axis."""

    value: Value
    axis: int


Attributes = tuple[Body, Size, int, tuple[int, ...], tuple[int, ...], bool]
"""The attributes of a loop, in order."""


class Region:
    """The leaves of one iteration, and what is known of them."""

    def __init__(self, build: Builder, iterations: Size) -> None:
        self.build = build
        self.iterations = iterations
        self.slices: dict[int, Sliced] = {}
        """The values that are read from memory, by id."""
        self._by_source: dict[tuple[int, int, bool], Value] = {}
        self._leaves: set[int] = set()
        self._time: Value | None = None
        self._iteration_index: Value | None = None
        self._depends: dict[int, bool] = {}

    # --- leaves ----------------------------------------------------------------------------------

    def leaf(self, of: TensorType) -> Value:
        """A value that differs from iteration to iteration."""
        leaf_value = self.build.add(Bound(f"#{self.build.count}", of.dtype, of.shape))
        self._leaves.add(leaf_value.id)
        return leaf_value

    @property
    def time(self) -> Value:
        """The number of iterations before this one, an i32."""
        if self._time is None:
            self._time = self.leaf(TensorType(DType.I32, ()))
        return self._time

    @property
    def iteration_index(self) -> Value:
        """The index of the slices along their axes, an i32; reversed if the last slice is first."""
        if self._iteration_index is None:
            self._iteration_index = self.leaf(TensorType(DType.I32, ()))
        return self._iteration_index

    def slice(self, source: Value, axis: int, *, backward: bool) -> Value:
        """The slice of each iteration of a tensor whose axis has a size of one entry for each."""
        key = (source.id, axis, backward)
        known = self._by_source.get(key)
        if known is None:
            shape = source.type.shape[:axis] + source.type.shape[axis + 1 :]
            known = self._by_source[key] = self.leaf(source.type.with_shape(shape))
            self.slices[known.id] = Sliced(source, axis, backward)
        return known

    def cut(self, number: int) -> None:
        """Take the value of an id as given, whatever it was computed from."""
        self._leaves.add(number)

    def depends(self, value: Value) -> bool:
        """True if a value differs from iteration to iteration."""
        stack = [value]
        while stack:
            last = stack[-1]
            if last.id in self._leaves:
                self._depends[last.id] = True
            if last.id in self._depends:
                stack.pop()
                continue
            unknown = [each for each in last.operands if each.id not in self._depends]
            if unknown:
                stack += unknown
            else:
                self._depends[last.id] = any(self._depends[each.id] for each in last.operands)
        return self._depends[value.id]

    def reached(self, roots: Iterable[Value]) -> list[Value]:
        """The values of an iteration that roots depend on, the leaves included, in order."""
        seen: dict[int, Value] = {}
        stack = [root for root in roots if self.depends(root)]
        while stack:
            value = stack.pop()
            if value.id not in seen:
                seen[value.id] = value
                if value.id not in self._leaves:
                    stack += [each for each in value.operands if self.depends(each)]
        return [seen[number] for number in sorted(seen)]

    # --- closing ---------------------------------------------------------------------------------

    def close(
        self, carries: Sequence[Carry], collected: Sequence[Collected], *, backward: bool
    ) -> tuple[Attributes, tuple[Value, ...]]:
        """The attributes and operands of the loop of these, the last slices first if `backward`.

        What is sliced the other way is reversed before; what is collected the other way, the
        caller has to reverse behind.
        """
        inside = self.reached([*(each.next for each in carries), *(one.value for one in collected)])
        sliced = [value for value in inside if value.id in self.slices]
        slices = [self.slices[value.id] for value in sliced]
        making = _Making(Builder(self.build.facts))
        iteration_number = making.declare(ITERATION, TensorType(DType.I32, ()))
        for number, carry in enumerate(carries):
            making.of[carry.leaf.id] = making.declare(f"{CARRY}{number}", carry.start.type)
        for number, value in enumerate(sliced):
            making.of[value.id] = making.declare(f"{SLICE}{number}", value.type)
        if self._iteration_index is not None:
            making.of[self._iteration_index.id] = iteration_number
        if self._time is not None:
            making.of[self._time.id] = self._counted(
                making.build, iteration_number, backward=backward
            )
        roots = [*(each.next for each in carries), *(one.value for one in collected)]
        making.capture(inside, [root for root in roots if not self.depends(root)])
        if not (carries or slices or making.captured):
            # A value without operands is a leaf, so that a loop has at least one.
            making.captured.append(self.build.add(Constant(0, DType.I32)))
            making.declare(f"{CAPTURED}0", making.captured[0].type)
        for value in inside:
            making.make(value)
        names = [f"{CARRY}{number}" for number in range(len(carries))]
        names += [f"{COLLECTED}{number}" for number in range(len(collected))]
        outputs = {name: making.make(root) for name, root in zip(names, roots, strict=True)}
        sources = [
            each.source
            if each.backward is backward
            else self.build.add(Reverse((each.axis,)), each.source)
            for each in slices
        ]
        axes = tuple([each.axis for each in slices]), tuple([each.axis for each in collected])
        body = Body(making.build.graph(outputs))
        attributes = (body, self.iterations, len(carries), *axes, backward)
        return attributes, (*(each.start for each in carries), *sources, *making.captured)

    def _counted(self, build: Builder, iteration_number: Value, *, backward: bool) -> Value:
        if not backward:
            return iteration_number
        return build.add(
            Sub(), build.add(Constant(self.iterations - 1, DType.I32)), iteration_number
        )


@dataclass
class _Making:
    """The graph of a body: for each value around it, by its id, the value that stands for it."""

    build: Builder
    of: dict[int, Value] = field(default_factory=dict[int, Value])
    captured: list[Value] = field(default_factory=list[Value])

    def declare(self, name: str, of: TensorType) -> Value:
        """A leaf of the body."""
        return self.build.add(Input(name, of.dtype, of.shape))

    def capture(self, inside: Sequence[Value], outside: Sequence[Value]) -> None:
        """Declare what values of the body read from outside, and what it gives as it is.

        Numbers, and what merely repeats a smaller tensor, are made in the body.
        """
        computed = {value.id for value in inside if value.operands}
        wanted: list[Value] = []
        for value in inside:
            wanted += () if value.id in self.of else (*value.operands, value)
        for value in (*wanted, *outside):
            source = _repeated(value)
            known = source.id in self.of or source.id in computed
            if known or isinstance(source.op, Constant | Iota):
                continue
            name = f"{CAPTURED}{len(self.captured)}"
            self.of[source.id] = self.declare(name, source.type)
            self.captured.append(source)

    def make(self, value: Value) -> Value:
        """The value of the body that stands for one."""
        known = self.of.get(value.id)
        if known is None:
            operands = [self.make(each) for each in value.operands]
            with self.build.at(value.origin):
                known = self.build.reapply(value, *operands)
            self.of[value.id] = known
        return known


def _repeated(value: Value) -> Value:
    """Returns the value that is repeated along axes, or the value itself."""
    while isinstance(value.op, Broadcast):
        (value,) = value.operands
    return value
