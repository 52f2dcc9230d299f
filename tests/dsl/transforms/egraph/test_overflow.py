"""No rewrite makes NaN or infinity of a number of single precision, but those listed for it."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meganeura_dsl.ir.graph import Array, Graph, Leaf, Op
from meganeura_dsl.ir.interpreter import evaluate, storage_type
from meganeura_dsl.ir.ops import Div, MatMul, Mul, Sum
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.transforms.egraph.encoding.egraph_snapshot import EGraphSnapshot, Node
from meganeura_dsl.transforms.egraph.extract.extraction_problem import (
    ExtractionProblem,
    cheapest_trees,
)
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_dsl.transforms.egraph.rules.rule_sets import MAY_OVERFLOW, Mode, rules_by_name
from meganeura_dsl.transforms.egraph.saturate.saturate_graph import saturate_graph
from tests.dsl.transforms.egraph.algebra_cases import Draw, Make, identities, reductions
from tests.dsl.transforms.egraph.fusion_cases import (
    activations,
    attention,
    epilogues,
    inference,
    norms,
    projections,
    rotations,
    softmax,
)
from tests.dsl.transforms.egraph.net import Net
from tests.effort import effort

EXTREME = (0.0, 1.0, -1.0, 1e-38, 1e-30, -1e-20, 1e10, 1e19, -1e19, 1e30, 3e38, -3e38)
PAGE = Path(__file__).resolve().parents[4] / "docs" / "optimizer.md"

Feeds = dict[str, Array]


def drawn(draw: Draw, graph: Graph) -> Feeds:
    """Numbers for every leaf: ordinary ones, some of which are very large or very small."""
    random = np.random.default_rng(draw(st.integers(0, 9999)))
    extreme = sorted(draw(st.sets(st.sampled_from(EXTREME), min_size=1, max_size=4)))
    feeds: Feeds = {}
    for value in graph.values:
        if not isinstance(leaf := value.op, Leaf):
            continue
        shape = concrete_shape(leaf.shape)
        if leaf.dtype.is_float:
            often, ordinary = random.random(), random.normal(size=shape)
            mixed = np.where(random.random(shape) < often, random.choice(extreme, shape), ordinary)
            mixed = np.abs(mixed) if "var" in leaf.name else mixed
            feeds[leaf.name] = np.asarray(mixed).astype(np.float32)
        else:
            feeds[leaf.name] = random.integers(0, 3, shape).astype(storage_type(leaf.dtype))
    return feeds


def assert_numbers_stay(graph: Graph, mode: Mode, feeds: Feeds) -> None:
    """Whatever computes a value of the graph gives a number where the graph does, and that one."""
    found = saturate_graph(graph, mode, disabled=MAY_OVERFLOW).found
    everything = {str(value.id): value for value in graph.values}
    original = evaluate(Graph(graph.values, everything, {}), feeds).outputs
    values: dict[int, Array] = {}
    for value, owner in zip(graph.values, found.values, strict=True):
        values.setdefault(owner, original[str(value.id)])
    floats = [each for each in values.values() if each.dtype == np.float32]
    most = max(float(np.max(np.abs(each[np.isfinite(each)]), initial=0)) for each in floats)
    of_graph = set(values)
    _complete(found, values, feeds)
    for node in found.nodes:
        if node.owner in of_graph and all(each in values for each in node.operands):
            wanted, actual = values[node.owner], _result(found, node, values, feeds)
            finite = np.isfinite(wanted)
            np.testing.assert_allclose(
                actual[finite].astype(np.float64),
                wanted[finite].astype(np.float64),
                1e-4,
                1e-5 * most,
                err_msg=f"{node} by {found.why.get(node.owner)}",
            )


def _complete(found: EGraphSnapshot, values: dict[int, Array], feeds: Feeds) -> None:
    """A value for each class that the graph does not compute, by its smallest tree."""
    needs = [tuple(dict.fromkeys(node.operands)) for node in found.nodes]
    problem = ExtractionProblem(found.classes, needs, [1.0] * len(needs), ())
    trees = cheapest_trees(problem)
    roots = tuple(number for number, node in enumerate(trees) if node >= 0)
    for number in ExtractionProblem(found.classes, needs, [1.0] * len(needs), roots).reached(trees):
        if number not in values:
            values[number] = _result(found, found.nodes[trees[number]], values, feeds)


def _result(found: EGraphSnapshot, node: Node, values: dict[int, Array], feeds: Feeds) -> Array:
    if isinstance(node.op, Leaf):
        return feeds[node.op.name]
    with np.errstate(all="ignore"):
        results = node.op.evaluate_all(*(values[each] for each in node.operands))
        return np.asarray(results[node.index], storage_type(found.types[node.owner].dtype))


GROUPS: tuple[tuple[Mode, Iterator[tuple[str, Make]]], ...] = (
    ("train", identities()),
    ("forward", reductions()),
    ("forward", activations()),
    ("forward", norms()),
    ("forward", softmax()),
    ("forward", rotations()),
    ("forward", attention()),
    ("train", epilogues()),
    ("infer", projections()),
    ("infer", inference()),
)
"""All that does arithmetic; moves of elements do none."""
CASES = [(name, mode, make) for mode, cases in GROUPS for name, make in cases]


@pytest.mark.parametrize(("name", "mode", "make"), CASES, ids=[name for name, _, _ in CASES])
def test_numbers_stay_numbers(name: str, mode: Mode, make: Make) -> None:
    @st.composite
    def examples(draw: Draw) -> tuple[Graph, Feeds]:
        net = Net()
        graph = net.graph(make(net, draw))
        return graph, drawn(draw, graph)

    tried: list[tuple[Graph, Feeds]] = []

    @settings(max_examples=2)
    @given(examples())
    def holds(example: tuple[Graph, Feeds]) -> None:
        tried.append(example)
        if effort(usual=False, nightly=True):
            assert_numbers_stay(example[0], mode, example[1])

    assert name in rules_by_name()
    holds()
    graph, feeds = tried[-1]  # by day the only one; the first of two is the smallest
    assert_numbers_stay(graph, mode, feeds)


@pytest.mark.parametrize(("op", "number"), [(Mul(), 0.0), (Mul(), 0.25), (Div(), 4.0)])
def test_a_sum_of_smaller_terms_does_not_overflow(op: Op, number: float) -> None:
    net = Net()
    x = net.x(3)
    graph = net.graph(net.do(Sum((0,)), net.do(op, x, net.full(number, x))))
    feeds = {"x1": np.full(3, 3e38, np.float32)}
    wanted = evaluate(graph, feeds).outputs["y0"]
    assert np.isfinite(wanted)
    for mode in ("forward", "train", "infer"):
        assert_numbers_stay(graph, mode, feeds)
        optimized = optimize(graph, mode=mode).graph
        np.testing.assert_allclose(evaluate(optimized, feeds).outputs["y0"], wanted)


def test_what_may_overflow_is_listed_and_can_be_left_out() -> None:
    net = Net()
    x, w = net.x(1, 2), net.w(2, 1)
    graph = net.graph(net.do(MatMul(), net.do(Mul(), x, net.full(1e30, x)), w))
    data = {"x1": np.array([[1e-30, 0]], np.float32)}
    weights = {"w2": np.full((2, 1), 1e20, np.float32)}
    wanted = evaluate(graph, {**data, **weights}).outputs["y0"]
    np.testing.assert_allclose(wanted, [[1e20]], 1e-6)
    assert_numbers_stay(graph, "infer", {**data, **weights})
    # The weight times 1e30 is infinite, and 0 times that is no number.
    optimized = optimize(graph, mode="infer")
    load = evaluate(optimized.load, weights).outputs
    assert np.isnan(evaluate(optimized.graph, {**data, **load}).outputs["y0"]).all()
    assert rules_by_name().keys() >= MAY_OVERFLOW
    page = PAGE.read_text()
    table = page.partition("| what may overflow |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z0-9-]+)`", table)) == MAY_OVERFLOW
