"""The values of a step that may be stored in half of float32, by one table for all devices.

In `bf16` on `xla` and in `f16` on `dawn` these values of float32 are stored in the narrow type, and
every other one is computed from them in float32 where it is read:

- results of contractions that another contraction depends on: activations and their gradients,
  but not the gradients of weights;
- operands of contractions, but not parameters and values that depend on parameters alone;
- sums that several ops read, of which a part is computed from the former without a reduction:
  residuals and their gradients;
- selections of the former, as by the gradient of a relu, and gradients of max pooling.

So norms, softmax, losses, reductions and updates read and return float32. The new value of a
parameter or state, and of a carry of a loop, is not rounded even if products read it: a mean over
many steps would stop where one of them changes it by less than a rounding. Moving elements changes
no type.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterator

from meganeura_dsl.ir.graph import Graph, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Concat,
    Constant,
    DynamicSlice,
    DynamicUpdate,
    Gather,
    Input,
    MaxPool,
    MaxPoolGradient,
    MaxPoolSelect,
    Pad,
    Parameter,
    RandomBits,
    Reshape,
    Reverse,
    Slice,
    StopGradient,
    Transpose,
    Where,
)
from meganeura_dsl.ir.traits import PRODUCTS, Trait
from meganeura_dsl.ir.types import DType

MOVES = frozenset(
    (
        Broadcast,
        Reshape,
        Transpose,
        Slice,
        Pad,
        Concat,
        Reverse,
        StopGradient,
        Gather,
        DynamicSlice,
        DynamicUpdate,
        MaxPool,
        MaxPoolSelect,
    )
)
"""Ops whose results are elements of their operands, so that they have the type of these."""


def narrow_values(graph: Graph, carried: Collection[Value] = ()) -> frozenset[int]:
    """Returns the ids of the float32 values that are stored in the narrow type.

    `carried` are those that the body of a loop carries on.
    """
    needed = upstream(graph)
    varying = _varying(graph)
    readers = _readers(graph)
    kept = _kept(graph, carried)
    wanted = {*_between(graph, needed), *_read(graph, varying)}
    rounded: set[int] = set()
    derived: set[int] = set()
    """Values that are rounded, and values computed from them element by element."""
    for value in graph.values:
        if value.type.dtype is not DType.F32:
            continue
        floats = [each for each in value.operands if each.type.dtype.is_float]
        parts = [each for each in floats if each.id in derived]
        if value.id not in kept and (
            value.id in wanted
            or _selects(value, rounded)
            or (isinstance(value.op, MaxPoolGradient) and value.id in needed)
            or (type(value.op) in MOVES and floats and all(each.id in rounded for each in floats))
            or (
                isinstance(value.op, Add)
                and parts
                and value.id in needed
                and readers[value.id] > 1
                and all(each.id in varying and not _is_spread(each) for each in floats)
            )
        ):
            rounded.add(value.id)
        if value.id in rounded or (parts and value.op.traits & {Trait.ELEMENTWISE, Trait.VIEW}):
            derived.add(value.id)
    return frozenset(rounded)


def _kept(graph: Graph, carried: Collection[Value]) -> frozenset[int]:
    """Returns the ids of carried values and of updates, and of values these move or select.

    Updates of caches are left out: caches hold activations.
    """
    leaves = [value.op for value in graph.values if isinstance(value.op, Parameter)]
    caches = {leaf.name for leaf in leaves if leaf.kind == "cache"}
    found: set[int] = set()
    left = [*carried, *(value for name, value in graph.updates.items() if name not in caches)]
    while left:
        value = left.pop()
        if value.id not in found:
            found.add(value.id)
            if type(value.op) in MOVES or isinstance(value.op, Where):
                left += value.operands
    return frozenset(found)


def upstream(graph: Graph) -> frozenset[int]:
    """Returns the ids of the values that some contraction depends on."""
    found: set[int] = set()
    for value in reversed(graph.values):
        if value.id in found or value.op.traits & PRODUCTS:
            found.update(operand.id for operand in value.operands)
    return frozenset(found)


def _varying(graph: Graph) -> frozenset[int]:
    """Returns the ids of the values that depend on inputs or random numbers."""
    found: set[int] = set()
    for value in graph.values:
        is_source = isinstance(value.op, Input | RandomBits)
        if is_source or any(operand.id in found for operand in value.operands):
            found.add(value.id)
    return frozenset(found)


def _between(graph: Graph, needed: frozenset[int]) -> Iterator[int]:
    """Yields the ids of the contractions that other contractions depend on."""
    for value in graph.values:
        if value.op.traits & PRODUCTS and value.id in needed:
            yield value.id


def _read(graph: Graph, varying: frozenset[int]) -> Iterator[int]:
    """Yields the ids of the computed operands of contractions, looking through views."""
    for value in graph.values:
        for operand in value.operands if value.op.traits & PRODUCTS else ():
            source = operand
            while Trait.VIEW in source.op.traits:
                (source,) = source.operands
            if source.id in varying and not isinstance(source.op, Input | Parameter):
                yield source.id


def _readers(graph: Graph) -> Counter[int]:
    """Returns the number of readers by id; readers of a selection read its operands too."""
    readers = Counter(operand.id for value in graph.values for operand in {*value.operands})
    for value in reversed(graph.values):
        for operand in {*value.operands} if isinstance(value.op, Where) else ():
            readers[operand.id] += max(readers[value.id] - 1, 0)
    return readers


def _selects(value: Value, rounded: Container[int]) -> bool:
    """True if each element is one of a value stored in the narrow type, or zero."""
    if not isinstance(value.op, Where):
        return False
    _, *parts = value.operands
    stored = [each.id in rounded for each in parts]
    return any(stored) and all(map(_or_zero, stored, parts))


def _or_zero(is_stored: bool, value: Value) -> bool:  # noqa: FBT001
    while isinstance(value.op, Broadcast):
        (value,) = value.operands
    return is_stored or (isinstance(value.op, Constant) and value.op.value == 0)


def _is_spread(value: Value) -> bool:
    """True if a value is a broadcast, as statistics and biases are."""
    while Trait.VIEW in value.op.traits:
        if isinstance(value.op, Broadcast):
            return True
        (value,) = value.operands
    return False
