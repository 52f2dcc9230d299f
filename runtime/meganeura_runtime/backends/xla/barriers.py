"""What XLA may not fuse or put in another order, as it would lose by it on a GPU.

XLA decides by a model of one kernel and its readers. It does not see that

- a product which gives the gradient of a weight does not have to add the momentum too: that reads
  and writes the momentum once more, in a kernel of its own before;
- a weight which is updated before the last product that reads it has to be copied first, as the
  new value takes its memory. So the two products of a cotangent dy, dw = x^T dy and dx = dy w^T,
  are computed before either is read;
- updates of small parameters take no time but that of their launches. Kernels of one shape that
  read an array which is not a scalar become one kernel: so scalars that all of them read are spread
  to such arrays first.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import field

from meganeura_dsl.ir.graph import Graph, Leaf, Value
from meganeura_dsl.ir.ops import Broadcast, Constant
from meganeura_dsl.ir.traits import PRODUCTS, Trait
from meganeura_dsl.ir.types import TensorType, size_in_bytes
from meganeura_dsl.startup.deferred_dataclass import dataclass
from meganeura_runtime.backends.xla.lowering.contraction import is_cut
from meganeura_runtime.backends.xla.numerics import BFLOAT16, Numerics

SMALL = 1 << 15
"""Bytes of a parameter up to which its update takes no longer than its launch."""
FEW = 3
"""So many updates become one kernel."""


@dataclass(frozen=True)
class Barriers:
    """The barriers of a step."""

    together: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    """Of a product, by its id, those that are computed before any of them is read, itself too."""
    shared: Mapping[int, int] = field(default_factory=dict[int, int])
    """Of a scalar that is spread the first that is the same, which is stored before it is read."""

    @staticmethod
    def of(graph: Graph, numerics: Numerics) -> "Barriers":
        """Those of a training step on one GPU."""
        together = {each: group for group in _of_one_cotangent(graph, numerics) for each in group}
        return Barriers(together, dict(_shared(graph)))


def _of_one_cotangent(graph: Graph, numerics: Numerics) -> Iterator[tuple[int, ...]]:
    """The products of each cotangent: gradients of weights, and of what these multiplied."""
    positions = {value.id: position for position, value in enumerate(graph.values)}
    products = [value for value in graph.values if value.op.traits & PRODUCTS]
    found: defaultdict[int, list[int]] = defaultdict(list)
    for value in products:
        if numerics.stored[value.id] != BFLOAT16 and not is_cut(value.type):
            # Of x and dy the latter is computed from the former.
            cotangent = max(map(_source, value.operands), key=lambda each: positions[each.id])
            found[cotangent.id].append(value.id)
    for value in products:
        if numerics.stored[value.id] == BFLOAT16 and _reads_updated(value, graph):
            for source in map(_source, value.operands):
                if source.id in found:
                    found[source.id].append(value.id)
                    break  # a product is computed with those of one cotangent
    return map(tuple, found.values())


def _source(value: Value) -> Value:
    """What a value shows the elements of."""
    while Trait.VIEW in value.op.traits:
        (value,) = value.operands
    return value


def _reads_updated(value: Value, graph: Graph) -> bool:
    """Whether a value reads what the step updates."""
    leaves = [source.op for source in map(_source, value.operands)]
    return any(isinstance(leaf, Leaf) and leaf.name in graph.updates for leaf in leaves)


def _shared(graph: Graph) -> Iterator[tuple[int, int]]:
    """For each shape of small parameters the spread scalars that most of their updates read."""
    reads: defaultdict[tuple[TensorType, Hashable], list[Value]] = defaultdict(list)
    for value in _in_small_updates(graph):
        for each in filter(_is_spread, value.operands):
            reads[each.type, _scalar(each)].append(each)
    most: defaultdict[TensorType, int] = defaultdict(lambda: FEW)
    for (of, _), some in reads.items():
        most[of] = max(most[of], len(some))
    positions = {value.id: position for position, value in enumerate(graph.values)}
    for (of, _), some in reads.items():
        if len(some) == most[of]:
            first = min(some, key=lambda each: positions[each.id])
            yield from ((each.id, first.id) for each in some)


def _in_small_updates(graph: Graph) -> Iterator[Value]:
    """What new values of small parameters are computed from element by element, and they too."""
    found: set[int] = set()
    left = [
        value
        for value in graph.updates.values()
        if value.type.rank > 0 and size_in_bytes(value.type) <= SMALL
    ]
    while left:
        value = left.pop()
        if value.id not in found and Trait.ELEMENTWISE in value.op.traits:
            found.add(value.id)
            left += value.operands
            yield value


def _is_spread(value: Value) -> bool:
    return isinstance(value.op, Broadcast) and value.operands[0].type.rank == 0


def _scalar(value: Value) -> Hashable:
    """The number that is spread in a value, or which value it is."""
    (source,) = value.operands
    return source.op if isinstance(source.op, Constant) else source.id
