"""Variances in one pass: graphs that nearly have the form keep their meaning."""

import pytest

from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Div,
    Exp,
    Input,
    Maximum,
    Mul,
    Sub,
    Sum,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.xla.passes.one_pass_variance import in_one_pass
from tests.runtime.backends.xla.rewriting import same_results

SIDE = 5


def deviations(exchanged: str, *, axis: int = 0) -> Graph:
    """The sum of (x - total / 5)^2 along an axis of a square, so that all axes fit all others."""
    build = Builder()
    x, other = (build.add(Input(name, DType.F32, (SIDE, SIDE))) for name in ("x", "other"))
    across = 1 - axis
    summed = other if exchanged == "another total" else x
    total = build.add(Sum((across if exchanged == "total of rows" else axis,)), summed)
    count = SIDE + 1 if exchanged == "another count" else SIDE
    counts = full(build, total.type, float(count))
    if exchanged == "count that differs":
        counts = build.add(Input("counts", DType.F32, (SIDE,)))
    mean = build.add(Div(), total, counts)
    if exchanged == "no quotient":
        mean = build.add(Mul(), total, full(build, total.type, 1 / SIDE))
    kept = axis if exchanged == "spread along it" else across
    spread = build.add(Broadcast((SIDE, SIDE), (kept,)), mean)
    if exchanged == "no spread":
        spread = build.add(Exp(), spread)
    difference = build.add(Sub(), x, spread)
    if exchanged == "no difference":
        difference = build.add(Add(), x, spread)
    factor = build.add(Sub(), other, spread) if exchanged == "no square" else difference
    square = build.add(Mul(), factor, difference)
    return build.graph({"y": build.add(Sum((axis,)), square)})


@pytest.mark.parametrize(
    "exchanged",
    [
        "another total", "total of rows", "another count", "count that differs", "no quotient",
        "spread along it", "no spread", "no difference", "no square",
    ],
)  # fmt: skip
def test_what_is_nearly_a_deviation_is_read_as_it_was(exchanged: str) -> None:
    graph = deviations(exchanged)
    found = in_one_pass(graph, range(len(graph.values)))
    assert found is graph
    assert same_results(graph, found)


@pytest.mark.parametrize(("axis", "trains"), [(0, False), (0, True), (1, False), (1, True)])
def test_deviations_of_batches_and_in_training_are_read_once(axis: int, *, trains: bool) -> None:
    graph = deviations("", axis=axis)
    if trains:
        graph = Graph(graph.values, graph.outputs, {"kept": graph.outputs["y"]})
    found = in_one_pass(graph, range(len(graph.values)))
    assert any(isinstance(each.op, Maximum) for each in found.values) == (trains or axis == 0)
    assert same_results(graph, found)
    assert in_one_pass(graph, frozenset()) is graph
