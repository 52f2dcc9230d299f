"""Whether every e-class holds one type and one value, whichever of its nodes computes it."""

import numpy as np

from meganeura_dsl.evaluate import Precision, storage_type
from meganeura_dsl.graph.core import Array, Graph, Leaf
from meganeura_dsl.graph.verify import verify
from meganeura_dsl.optimize.cost import DEFAULT_DEVICE, DeviceModel
from meganeura_dsl.optimize.explore import Explored, explore
from meganeura_dsl.optimize.forms import tile_facts
from meganeura_dsl.optimize.optimizer import Optimized, select
from meganeura_dsl.optimize.problem import Problem, cheapest_trees
from meganeura_dsl.optimize.rules.all import Mode
from meganeura_dsl.optimize.snapshot import Node, Snapshot
from meganeura_dsl.shapes.solve import Facts
from tests.dsl.optimize.compare import assert_equal_results, feeds, numbers, run, run_optimized


def examine(
    graph: Graph, mode: Mode, device: DeviceModel = DEFAULT_DEVICE
) -> tuple[Explored, Optimized]:
    """Explore a graph, check every class, and check the graph that is chosen."""
    explored = explore(graph, mode, tiles=tile_facts(device.winograd, device))
    assert_one_type(explored.found)
    assert_one_value(explored.found)
    optimized = select(graph, explored, mode, device)
    verify(optimized.graph)
    verify(optimized.load)
    fed = feeds(graph)
    assert_equal_results(run_optimized(optimized, fed), run(graph, fed))
    return explored, optimized


def assert_one_type(found: Snapshot) -> None:
    """Every node gives its class's type."""
    facts = Facts()
    for node in found.nodes:
        operands = (found.types[operand] for operand in node.operands)
        assert node.op.infer(facts, *operands) == found.types[node.owner], node


def assert_one_value(found: Snapshot) -> None:
    """Every node whose operands can be computed gives its class's value."""
    values = class_values(found)
    for node in found.nodes:
        if all(operand in values for operand in node.operands):
            actual, wanted = _result(found, node, values), values[node.owner]
            np.testing.assert_allclose(
                actual, wanted, 1e-9, 1e-9, err_msg=f"{node} by {found.why.get(node.owner)}"
            )


def class_values(found: Snapshot) -> dict[int, Array]:
    """A value for each class, computed by its smallest tree."""
    needs = [tuple(dict.fromkeys(node.operands)) for node in found.nodes]
    problem = Problem(found.classes, needs, [1.0] * len(needs), ())
    trees = cheapest_trees(problem)
    everything = tuple(number for number, node in enumerate(trees) if node >= 0)
    reached = Problem(found.classes, needs, [1.0] * len(needs), everything).reached(trees)
    values: dict[int, Array] = {}
    for number in reached:
        values[number] = _result(found, found.nodes[trees[number]], values)
    return values


def _result(found: Snapshot, node: Node, values: dict[int, Array]) -> Array:
    dtype = storage_type(found.types[node.owner].dtype, Precision.DOUBLE)
    with np.errstate(all="ignore"):
        if isinstance(node.op, Leaf):
            return numbers(node.op).astype(dtype)
        return np.asarray(node.op.evaluate(*(values[each] for each in node.operands)), dtype)
