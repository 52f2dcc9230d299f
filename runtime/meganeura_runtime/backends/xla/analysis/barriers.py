"""Optimization barriers: fusions and reorderings that XLA must not do on a GPU.

XLA decides by a cost model of one kernel and its readers. It does not see that

- a product that computes the gradient of a weight should not add the momentum too: that reads and
  writes the momentum once more, in another kernel before;
- a weight which is updated before the last product that reads it has to be copied first, as the
  new value takes its memory. So the two products of a cotangent dy, dw = x^T dy and dx = dy w^T,
  are computed before either is read;
- updates of small parameters take no time but that of their launches. Kernels of one shape that
  read a common array become one kernel, those that read a common scalar do not: so scalars that all
  of them read are broadcast to arrays first;
- in an inference a residual with other readers than its norm can be stored by the kernel of the
  norm: otherwise each of its readers adds it up again, or a kernel of its own stores it.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from meganeura_dsl.ir.graph import Graph, Leaf, Value
from meganeura_dsl.ir.ops import Add, Broadcast, Constant, Sum
from meganeura_dsl.ir.traits import PRODUCTS, Trait
from meganeura_dsl.ir.types import TensorType, size_in_bytes
from meganeura_runtime.backends.narrow_storage import upstream
from meganeura_runtime.backends.xla.analysis.numerics import BFLOAT16, Numerics
from meganeura_runtime.backends.xla.config.measured_choices import (
    JOINT_PRODUCTS,
    RESIDUAL_WITH_NORM,
    SHARED_SCALARS,
)


@dataclass(frozen=True)
class Barriers:
    """The barriers of a step."""

    computed_jointly: Mapping[int, tuple[int, ...]] = field(
        default_factory=dict[int, tuple[int, ...]]
    )
    """The group of a value, by id: all of a group are computed before any of them is read."""
    shared_scalars: Mapping[int, int] = field(default_factory=dict[int, int])
    """The first equal broadcast scalar, by id, which is stored for all of them."""

    @staticmethod
    def of(graph: Graph, numerics: Numerics) -> "Barriers":
        """Returns the barriers of a step on one GPU."""
        groups: Iterable[tuple[int, ...]] = ()
        if graph.updates and JOINT_PRODUCTS.is_on:
            groups = _products_of_cotangents(graph, numerics)
        elif not graph.updates and RESIDUAL_WITH_NORM.is_on:
            groups = _residuals_with_norms(graph, numerics)
        computed_jointly = {each: group for group in groups for each in group}
        shared_scalars = dict(_shared_scalars(graph)) if SHARED_SCALARS.is_on else {}
        return Barriers(computed_jointly, shared_scalars)


def _products_of_cotangents(graph: Graph, numerics: Numerics) -> Iterator[tuple[int, ...]]:
    """Returns the products of each cotangent: gradients of weights and of their co-operands."""
    positions = {value.id: position for position, value in enumerate(graph.values)}
    products = [value for value in graph.values if value.op.traits & PRODUCTS]
    found: defaultdict[int, list[int]] = defaultdict(list)
    passed_on = upstream(graph)
    for value in products:
        if value.id not in passed_on and not numerics.is_slice_of_padded(value):
            # Of the operands x and dy the latter is computed from the former.
            cotangent = max(map(_source, value.operands), key=lambda each: positions[each.id])
            found[cotangent.id].append(value.id)
    for value in products:
        if value.id in passed_on and _reads_updated(value, graph):
            for source in map(_source, value.operands):
                if source.id in found:
                    found[source.id].append(value.id)
                    break  # a product is computed with those of one cotangent
    return map(tuple, found.values())


def _residuals_with_norms(graph: Graph, numerics: Numerics) -> Iterator[tuple[int, int]]:
    """Yields each residual that has other readers, with the norm of its rows for products."""
    readers: defaultdict[int, list[Value]] = defaultdict(list)
    for value in graph.values:
        for operand in value.operands:
            readers[operand.id].append(value)
    for value in graph.values:
        if not _is_stored(value, numerics) or value.op.traits & PRODUCTS:
            continue
        if not any(each.op.traits & PRODUCTS for each in _reading(value, readers)):
            continue
        sources, between = _computed_from(value, numerics)
        if len(sources) != 1 or not any(map(_is_of_rows, between)):
            continue
        (source,) = sources
        if isinstance(source.op, Add) and {*readers[source.id]} - {*between, value}:
            yield source.id, value.id


def _is_stored(value: Value, numerics: Numerics) -> bool:
    return numerics.stored[value.id] == BFLOAT16


def _reading(value: Value, readers: Mapping[int, list[Value]]) -> Iterator[Value]:
    """Yields the readers of a value and of its views."""
    for each in readers[value.id]:
        if Trait.VIEW in each.op.traits:
            yield from _reading(each, readers)
        else:
            yield each


def _computed_from(value: Value, numerics: Numerics) -> tuple[set[Value], set[Value]]:
    """Returns the bfloat16 values that a value is computed from, and the values between."""
    sources: set[Value] = set()
    between: set[Value] = set()
    left = [*value.operands]
    while left:
        each = left.pop()
        if each in between or isinstance(each.op, Leaf):
            continue
        if _is_stored(each, numerics):
            sources.add(each)
        else:
            between.add(each)
            left += each.operands
    return sources, between


def _is_of_rows(value: Value) -> bool:
    """True for sums along the last axis."""
    return isinstance(value.op, Sum) and value.op.axes == (value.operands[0].type.rank - 1,)


def _source(value: Value) -> Value:
    """Returns the value that views lead to."""
    while Trait.VIEW in value.op.traits:
        (value,) = value.operands
    return value


def _reads_updated(value: Value, graph: Graph) -> bool:
    """True if a value reads a parameter or state that the step updates."""
    leaves = [source.op for source in map(_source, value.operands)]
    return any(isinstance(leaf, Leaf) and leaf.name in graph.updates for leaf in leaves)


def _shared_scalars(graph: Graph) -> Iterator[tuple[int, int]]:
    """Yields, for each shape of small parameters, the scalars that most of their updates read."""
    reads: defaultdict[tuple[TensorType, Hashable], list[Value]] = defaultdict(list)
    for value in _in_small_updates(graph):
        for each in filter(_is_broadcast_scalar, value.operands):
            reads[each.type, _scalar(each)].append(each)
    most: defaultdict[TensorType, int] = defaultdict(lambda: SHARED_SCALARS.value.count)
    for (of, _), some in reads.items():
        most[of] = max(most[of], len(some))
    positions = {value.id: position for position, value in enumerate(graph.values)}
    for (of, _), some in reads.items():
        if len(some) == most[of]:
            first = min(some, key=lambda each: positions[each.id])
            yield from ((each.id, first.id) for each in some)


def _in_small_updates(graph: Graph) -> Iterator[Value]:
    """Yields the elementwise ops that compute the updates of small parameters."""
    found: set[int] = set()
    left = [
        value
        for value in graph.updates.values()
        if value.type.rank > 0 and size_in_bytes(value.type) <= SHARED_SCALARS.value.size
    ]
    while left:
        value = left.pop()
        if value.id not in found and Trait.ELEMENTWISE in value.op.traits:
            found.add(value.id)
            left += value.operands
            yield value


def _is_broadcast_scalar(value: Value) -> bool:
    return isinstance(value.op, Broadcast) and value.operands[0].type.rank == 0


def _scalar(value: Value) -> Hashable:
    """Returns the constant that a value broadcasts, or the id of the broadcast value."""
    (source,) = value.operands
    return source.op if isinstance(source.op, Constant) else source.id
