"""Gradient checkpointing of scans: the same numbers from fewer stored iterations."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from meganeura_dsl.gradcheck.probe import fitting
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops import Scan, Slice
from meganeura_dsl.ir.types import size_in_bytes
from meganeura_dsl.ir.verify import verify
from meganeura_dsl.pipeline import elaborate_train
from meganeura_dsl.transforms.checkpoint_loops import (
    checkpoint_loops,
    segment_length,
    stored_by_loops,
)
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Adam
from meganeura_dsl.transforms.simplify_loops import simplify_loops
from meganeura_dsl.transforms.training_step import (
    TrainingSettings,
    optimized_training_step,
    training_step,
)
from meganeura_runtime.backends.memory_estimate import estimate_memory
from tests.effort import effort
from tests.scans import (
    NESTED,
    RECURRENT,
    assert_same,
    forward,
    loops,
    numbers,
    outputs,
    program,
    with_gradients,
)

SUMMED = """
block Net()(x: [n, s, 3]) -> [n, 8]:
  h = zeros([n, 8])
  scan t in 0..s:
    h = tanh((x[:, t] |> ih: linear(8)) + (h |> hh: linear(8)))
  return h

model net = Net()

train fit(x: [batch, s, 3], y: [batch, 8]):
  minimize mse(x |> net, y)
  run:
    data = "x.npz"
    batch = 4
    s = 64
    optimizer = adam(lr=1e-3)
"""

STOPPING = """
block Net()(x: [n, s, 3]) -> [n, s, 3], [n, 3]:
  h = x[:, 0]
  scan t in 0..s while sum(abs(h)) < 40:
    h = h * 1.3 + sin(x[:, s - 1 - t]) * f32(t)
    y[:, s - 1 - t] = h
  return y, h

model net = Net()
"""


COUNTING = """
block Net()(x: [n, s, 3]) -> [n, 3], i32[s]:
  h = x[:, 0]
  scan t in 0..s:
    h = sin(h + x[:, t])
    iterations[t] = t
  return h, iterations

model net = Net()
"""
"""An iteration gives its number out, and computes nothing else with it."""


LAST = """
block Net()(x: [n, s, 3]) -> [n, 3], i32[]:
  h = x[:, 0]
  last = i32(sum(x))
  scan t in 0..s:
    h = sin(h + x[:, t]) * f32(1 + last)
    last = i32(t)
  return h, last

model net = Net()
"""
"""An iteration hands its number on, and reads that of the iteration before."""


def everywhere(graph: Graph, above: int = 0) -> Graph:
    return checkpoint_loops(graph, above, {value.id for value in graph.values})


@pytest.mark.parametrize(
    "text",
    [RECURRENT, NESTED, STOPPING, COUNTING, LAST],
    ids=["layers", "nested", "stops", "counts", "last"],
)
@pytest.mark.parametrize("iterations", [4, 7, 9])
def test_segments_are_the_iterations_and_so_are_their_gradients(text: str, iterations: int) -> None:
    """The gradients, and their gradients, of all three texts at night: they take half a minute."""
    graph = forward(text, n=2, s=iterations)
    segmented = everywhere(graph)
    verify(segmented)
    assert segmented is not graph
    feeds = numbers(graph)
    expected = outputs(graph, feeds)
    for name, array in outputs(segmented, feeds).items():
        np.testing.assert_array_equal(array, expected[name])  # to the bit
    if iterations == 7 and text in effort((STOPPING,), (RECURRENT, NESTED, STOPPING)):
        plain, recomputing = with_gradients(graph), simplify_loops(with_gradients(segmented))
        verify(recomputing)
        feeds = numbers(plain)
        assert_same(outputs(recomputing, feeds), outputs(plain, feeds))


@given(graph=loops(iterations=8))
@settings(max_examples=effort(6, 200))
def test_random_loops_in_segments(graph: Graph) -> None:
    segmented = everywhere(graph)
    verify(segmented)
    plain, recomputing = with_gradients(graph), simplify_loops(with_gradients(segmented))
    feeds = numbers(plain)
    assert_same(outputs(recomputing, feeds), outputs(plain, feeds))


@pytest.mark.parametrize("optimized", [False, True], ids=["plain", "optimized"])
def test_a_step_that_recomputes_is_the_same_step(*, optimized: bool) -> None:
    graph = elaborate_train(program(SUMMED), sizes={"batch": 2, "s": 11}, training=True).graph
    plain = TrainingSettings(Adam(lr=1e-2), gradients=True)
    recomputing = replace(plain, recompute_above=0)
    step = training_step(graph, recomputing)
    if optimized:
        step = optimized_training_step(graph, recomputing, RewriteOptions()).graph
    expected = training_step(graph, plain)
    verify(step)
    assert sum(len(each.op.bodies) for each in step.values) > 0
    feeds = {name: np.abs(array) for name, array in numbers(expected).items()}
    found, wanted = (
        evaluate(each, fitting(each, feeds), Precision.DOUBLE) for each in (step, expected)
    )
    assert_same(found.outputs, wanted.outputs)
    assert_same(found.updates, wanted.updates)
    if not optimized:
        assert found.outputs["loss"] == wanted.outputs["loss"]  # to the bit


def test_a_segment_stores_the_least_and_leaves_no_rest_where_that_costs_little() -> None:
    def length(iterations: int) -> int:
        (scan,) = {
            value.op
            for value in forward(SUMMED, n=4, s=iterations).values
            if isinstance(value.op, Scan)
        }
        return segment_length(scan)

    # An iteration carries [4, 8] and stores three of them: k = sqrt(n / 3), and two at least.
    assert [length(iterations) for iterations in (4, 5, 8, 9, 30, 31)] == [2, 2, 2, 3, 3, 3]
    assert length(49) == 7  # 7 + 21 slices, and no rest; of 4 iterations 12 + 12
    assert length(46) == 4  # 11 + 12; the least without a rest is 23 + 6
    assert length(48) == 4
    assert length(300) == 10
    assert length(10_000) == 50
    assert length(307) in range(9, 12)  # a prime: some iterations are left over


def scans(graph: Graph) -> list[Scan]:
    found = {value.application: value.op for value in graph.values if isinstance(value.op, Scan)}
    return [
        each
        for op in found.values()
        if isinstance(op, Scan)
        for each in (op, *scans(op.body.graph))
    ]


@pytest.mark.parametrize(
    ("text", "more"), [(SUMMED, 0), (STOPPING, 1), (COUNTING, 1), (LAST, 1)],
    ids=["neither", "reads", "counts", "last"],
)  # fmt: skip
def test_iterations_that_need_their_number_alone_are_told_where_a_segment_begins(
    text: str, more: int
) -> None:
    outer, inner = scans(everywhere(forward(text, n=2, s=9)))
    assert len(inner.names) == len(outer.names) + more
    assert all(value.origin.span for value in outer.body.graph.values)  # those of the loop


@pytest.mark.parametrize(
    ("iterations", "expected"), [(3, [3]), (4, [2, 2]), (5, [2, 2, 1]), (9, [3, 3])]
)
def test_a_loop_of_four_iterations_is_the_shortest_with_segments(
    iterations: int, expected: list[int]
) -> None:
    segmented = everywhere(forward(SUMMED, n=4, s=iterations))
    assert [scan.iterations for scan in scans(segmented)] == expected
    parts = [value for value in segmented.values if isinstance(value.op, Slice)]
    assert len(parts) == (2 if iterations == 5 else 0)  # of what is read, where some are left over


def test_a_loop_within_one_that_is_too_short_has_segments_of_its_own() -> None:
    text = """
block Net()(x: [n, s, 3]) -> [n, 3]:
  h = zeros([n, 3])
  scan t in 0..2:
    scan u in 0..s:
      h = cos(h + x[:, u])
  return h

model net = Net()
"""
    graph = forward(text, n=2, s=6)
    stored = 6 * 2 * 3 * 4
    assert stored_by_loops(graph) == [stored]
    assert everywhere(graph, stored) is graph
    assert [scan.iterations for scan in scans(everywhere(graph, stored - 1))] == [2, 3, 2]


def test_what_is_stored_grows_with_the_square_root_of_the_iterations() -> None:
    def collected(iterations: int, above: int | None) -> int:
        """The largest stack of a step, in slices [4, 8]."""
        sizes = {"batch": 4, "s": iterations}
        graph = elaborate_train(program(SUMMED), sizes=sizes, training=True).graph
        step = training_step(graph, TrainingSettings(Adam(), recompute_above=above))
        stacks = [
            size_in_bytes(value.type) * scan.iterations
            for scan in scans(step)
            for value in scan.given
            if isinstance(scan.iterations, int)
        ]
        return max(stacks) // (4 * 8 * 4)

    assert [collected(iterations, None) for iterations in (48, 300, 1200)] == [48, 300, 1200]
    assert [collected(iterations, 0) for iterations in (48, 300, 1200)] == [12, 30, 60]


def test_a_step_takes_so_much_less_memory() -> None:
    def temporaries(iterations: int, above: int | None) -> int:
        """Returns the memory of a step without parameters and inputs, in slices [4, 8]."""
        sizes = {"batch": 4, "s": iterations}
        graph = elaborate_train(program(SUMMED), sizes=sizes, training=True).graph
        step = training_step(graph, TrainingSettings(Adam(), recompute_above=above))
        given = sum(size_in_bytes(value.type) for value in step.values if not value.operands)
        return (estimate_memory(step).bytes - given) // (4 * 8 * 4)

    assert [temporaries(iterations, None) for iterations in (48, 300, 1200)] == [196, 1204, 4804]
    assert [temporaries(iterations, 0) for iterations in (48, 300, 1200)] == [36, 78, 148]


def test_only_scans_that_gradients_go_through_recompute() -> None:
    text = SUMMED.replace(
        "  minimize",
        "  z = zeros([batch, 3])\n  scan t in 0..s:\n    z = sin(z + x[:, t])\n"
        "  found = x |> net\n  w = z\n"
        "  scan t in 0..s:\n    w = cos(w + sum(found))\n"
        "  metric more = sum(w)\n  minimize",
    ).replace("mse(x |> net, y)", "mse(found, y) + sum(z)")
    sizes = {"batch": 4, "s": 64}
    graph = elaborate_train(program(text), sizes=sizes, training=True).graph
    small, large = 64 * 4 * 3 * 4, 64 * 4 * 8 * 3 * 4
    assert stored_by_loops(graph) == [small, large, small]
    for above, whole in ((small - 1, 0), (small, 2), (large - 1, 2), (large, 3)):
        segmented = [scan.iterations for scan in scans(everywhere(graph, above))]
        assert segmented.count(64) == whole
    assert everywhere(graph, large) is graph
    step = training_step(graph, TrainingSettings(Adam(), recompute_above=0))
    iterations = sorted(scan.iterations for scan in scans(step) if isinstance(scan.iterations, int))
    assert iterations.count(64) == 2  # that of the inputs alone, and that of the metric
    enough = training_step(graph, TrainingSettings(Adam(), recompute_above=1 << 20))
    assert {scan.iterations for scan in scans(enough)} == {64}
