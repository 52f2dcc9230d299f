"""Verifies that an e-class holds one type and one value, whichever node computes it."""

import numpy as np

from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE, DeviceModel
from meganeura_dsl.ir.graph import Array, Graph, Leaf
from meganeura_dsl.ir.interpreter import Precision, storage_type
from meganeura_dsl.ir.verify import verify
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.transforms.egraph.cost.winograd_candidates import tile_facts
from meganeura_dsl.transforms.egraph.encoding.egraph_snapshot import EGraphSnapshot, Node
from meganeura_dsl.transforms.egraph.extract.extraction_problem import (
    ExtractionProblem,
    cheapest_trees,
)
from meganeura_dsl.transforms.egraph.optimize import Optimized, select
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode
from meganeura_dsl.transforms.egraph.saturate.saturate_graph import SaturatedGraph, saturate_graph
from tests.dsl.transforms.egraph.compare import (
    assert_equal_results,
    feeds,
    numbers,
    run,
    run_optimized,
)


def examine(
    graph: Graph, mode: Mode, device: DeviceModel = DEFAULT_DEVICE
) -> tuple[SaturatedGraph, Optimized]:
    """Explore a graph, check every class, and check the graph that is chosen."""
    explored = saturate_graph(graph, mode, tiles=tile_facts(device.winograd, device))
    assert_one_type(explored.found)
    assert_one_value(explored.found)
    optimized = select(graph, explored, mode, device)
    verify(optimized.graph)
    verify(optimized.load)
    fed = feeds(graph)
    assert_equal_results(run_optimized(optimized, fed), run(graph, fed))
    return explored, optimized


def assert_one_type(found: EGraphSnapshot) -> None:
    """Every node gives its class's type."""
    facts = Facts()
    for node in found.nodes:
        operands = (found.types[operand] for operand in node.operands)
        types = node.op.result_types(facts, *operands)
        assert types[node.index] == found.types[node.owner], node


def assert_one_value(found: EGraphSnapshot) -> None:
    """Every node whose operands can be computed gives its class's value."""
    values = class_values(found)
    for node in found.nodes:
        if all(operand in values for operand in node.operands):
            actual, wanted = _result(found, node, values), values[node.owner]
            if np.array_equal(actual, wanted):
                continue  # most are, and a comparison with its message takes 0.1 ms
            np.testing.assert_allclose(
                actual, wanted, 1e-9, 1e-9, err_msg=f"{node} by {found.why.get(node.owner)}"
            )


def class_values(found: EGraphSnapshot) -> dict[int, Array]:
    """A value for each class, computed by its smallest tree."""
    needs = [tuple(dict.fromkeys(node.operands)) for node in found.nodes]
    problem = ExtractionProblem(found.classes, needs, [1.0] * len(needs), ())
    trees = cheapest_trees(problem)
    everything = tuple(number for number, node in enumerate(trees) if node >= 0)
    reached = ExtractionProblem(found.classes, needs, [1.0] * len(needs), everything).reached(trees)
    values: dict[int, Array] = {}
    for number in reached:
        values[number] = _result(found, found.nodes[trees[number]], values)
    return values


def _result(found: EGraphSnapshot, node: Node, values: dict[int, Array]) -> Array:
    dtype = storage_type(found.types[node.owner].dtype, Precision.DOUBLE)
    with np.errstate(all="ignore"):
        if isinstance(node.op, Leaf):
            return numbers(node.op).astype(dtype)
        results = node.op.evaluate_all(*(values[each] for each in node.operands))
        return np.asarray(results[node.index], dtype)
