"""The cost of a whole graph in a plan, in which reductions of the same rows share a kernel."""

from collections.abc import Iterator, Sequence

from meganeura_dsl.ir.cost_model import Cost
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.types import TensorType, size_in_bytes
from meganeura_dsl.transforms.egraph.cost.kernel_cost_model import FusionModel
from meganeura_dsl.transforms.egraph.encoding.egraph_snapshot import Node, applications

MOST = 16
"""Tensors that are read for one before that is said to be in memory."""


def graph_cost(graph: Graph) -> Cost:
    """The cost of one run of a graph."""
    numbers = {value.id: number for number, value in enumerate(graph.values)}
    nodes = [
        Node(value.op, tuple([numbers[each.id] for each in value.operands]), number, value.index)
        for number, value in enumerate(graph.values)
    ]
    types = [value.type for value in graph.values]
    kernels = FusionModel(nodes, types, (numbers[value.id] for value in graph.roots))
    costs = kernels.costs()
    applied = [kernels.application_cost(first) for first, *_ in applications(nodes)]
    saved = [
        min(saved, costs[number].bytes - size_in_bytes(types[number]))
        for number, saved in _shared(nodes, types, kernels)
    ]
    return Cost(
        sum(each.bytes for each in (*costs, *applied)) - sum(saved),
        sum(each.flops for each in (*costs, *applied)),
        sum(each.launches for each in (*costs, *applied)) - len(saved),
    )


def _shared(
    nodes: Sequence[Node], types: Sequence[TensorType], kernels: FusionModel
) -> Iterator[tuple[int, int]]:
    """Each reduction that joins the kernel of another, and the bytes it need not read again."""
    known: set[tuple[tuple[int, ...], int]] = set()
    through: list[frozenset[int]] = []
    for node in nodes:
        read = frozenset[int]().union(*(through[operand] for operand in node.operands))
        here = node.owner in kernels.stored or len(read) > MOST
        through.append(frozenset((node.owner,)) if here else read)
        axes = (
            node.op.fusible_reduction_axes(types[node.operands[0]].rank) if node.operands else None
        )
        if axes is not None:
            rows = {(axes, each) for each in read if types[each].rank > len(axes)}
            if rows & known:
                yield node.owner, sum(size_in_bytes(types[number]) for _, number in rows & known)
            known |= rows
