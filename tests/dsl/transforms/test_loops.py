"""Scans against their iterations written out: results, gradients and training steps."""

import numpy as np
import pytest
from hypothesis import given, settings

from meganeura_dsl.gradcheck.probe import fitting
from meganeura_dsl.ir.graph import Array, Graph, Leaf
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops import MatMul, Parameter, Reverse, Scan, Transpose
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.verify import verify
from meganeura_dsl.pipeline import elaborate_model, elaborate_train
from meganeura_dsl.testing import assert_gradients
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Adam
from meganeura_dsl.transforms.simplify_loops import simplify_loops
from meganeura_dsl.transforms.training_step import (
    TrainingSettings,
    optimized_training_step,
    training_step,
)
from meganeura_dsl.transforms.unroll_loops import unroll_loops
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

PRODUCTS = """
block Net()(x: [n, s, 3], m: [n, 3, 3], p: [n], q: [], b: [3]) -> [n, 3]:
  h = zeros([n, 3])
  scan t in 0..s:
    many = sum(insert_axis(h, 1, 1) @ m, 1)
    h = tanh(x[:, t] + (h |> lin: linear(3)) + many + insert_axis(p, 1, 3) + q + b)
  return h

model net = Net()
"""
"""Gradients of a captured tensor over all iterations: one product, sums along each axis, many
products."""


CHAIN = """
block Net()(x: [n, s, 3]) -> [n, 3]:
  a = zeros([n, 3])
  b = zeros([n, 3])
  c = zeros([n, 3])
  d = zeros([n, 3])
  scan t in 0..s:
    d = d + sin(c)
    c = c + sin(b)
    b = b + sin(a)
    a = tanh(a + (x[:, t] |> lin: linear(3)))
  return d

model net = Net()
"""
"""Only the last carry is read after the loop; each becomes what the one before it was."""


@pytest.mark.parametrize(
    "text",
    [RECURRENT, NESTED, PRODUCTS, CHAIN],
    ids=["recurrent", "nested", "products", "chain"],
)
def test_a_scan_is_its_iterations_and_so_are_its_gradients(text: str) -> None:
    graph = forward(text)
    verify(graph)
    made, unrolled = with_gradients(graph), with_gradients(unroll_loops(graph))
    verify(made)
    assert not any(value.op.bodies for value in unrolled.values)
    feeds = numbers(made)
    expected = outputs(unrolled, feeds)
    assert_same(outputs(made, feeds), expected)
    assert_same(outputs(simplify_loops(made), feeds), expected)


BOTH_WAYS = """
block Net()(x: [n, s, 3]) -> [n, s, 3], [n, s, 3]:
  h = zeros([n, 3])
  scan t in 0..s:
    h = tanh(h + x[:, t])
    y[:, t] = h
  g = zeros([n, 3])
  scan t in 0..s:
    g = tanh(g + x[:, s - 1 - t])
    z[:, s - 1 - t] = g
  return y, z

model net = Net()
"""


PARTS = {
    "a carry that nobody reads": ("x[:, 0]", "h = sin(h + x[:, t])\n    r[t] = f32(t)"),
    "two carries, of which one is read": (
        "x[:, 0]",
        "h = sin(h + x[:, t])\n    g = g * f32(t)\n    r[t] = sum(g)",
    ),
    "carries that read each other": (
        "x[:, 0]",
        "h = sin(h + g)\n    g = g * x[:, t]\n    r[t] = sum(h)",
    ),
    "no carry is read": ("x[:, 0]", "h = h * x[:, t]\n    r[t] = sum(x[:, s - 1 - t])"),
    "what is captured": ("x[:, 0]", "h = h * x[:, t]\n    r[t] = sum(x) * f32(t)"),
    "nothing else": ("ones([n, 3])", "h = cos(h)\n    r[t] = f32(t)"),
}


@pytest.mark.parametrize(("start", "iteration"), PARTS.values(), ids=PARTS)
def test_a_loop_of_which_one_result_is_read_gives_it_alone(start: str, iteration: str) -> None:
    graph = forward(
        "block Net()(x: [n, s, 3]) -> [n, 3], [n, 3], [s]:\n"
        f"  h = {start}\n  g = 2 * x[:, 1]\n  scan t in 0..s:\n    {iteration}\n    g = g + 1\n"
        "  return h, g, r\n\nmodel net = Net()\n"
    )
    feeds = numbers(graph)
    expected = outputs(unroll_loops(graph), feeds)
    for name, value in graph.outputs.items():
        part = simplify_loops(Graph(graph.values, {name: value}))
        verify(part)
        assert_same(outputs(part, feeds), {name: expected[name]})
        (op,) = {each.op for each in part.values if isinstance(each.op, Scan)}
        assert isinstance(op, Scan)
        assert len(op.collected) == (name == "output2")


def test_a_loop_and_the_same_one_backwards_stay_two() -> None:
    graph = forward(BOTH_WAYS)
    feeds = numbers(graph)
    first, second = outputs(simplify_loops(graph), feeds).values()
    assert not np.allclose(first, second)
    assert_same(outputs(simplify_loops(graph), feeds), outputs(unroll_loops(graph), feeds))


APART = {
    "what they read": {"read": "y[:, t]"},
    "how they begin": {"begin": "y[:, 1]"},
    "the axis that they go along": {"read": "x[:, :, t]"},
    "how many iterations they have": {"iterations": "2", "read": "first"},
    "what they compute": {"does": "tanh"},
    "what they hand on": {"next": "b"},
    "which way they go": {"read": "x[:, s - 1 - t]", "row": "s - 1 - t"},
}


@pytest.mark.parametrize("other", APART.values(), ids=APART)
def test_loops_that_differ_in_one_thing_stay_two(other: dict[str, str]) -> None:
    """Each iteration computes ops of its own leaves, and all results are read."""
    one = {"iterations": "3", "begin": "first", "read": "x[:, t]", "row": "t"}
    one |= {"does": "sin", "next": "a"}
    one |= {"read": other["read"]} if "iterations" in other else {}
    template = (
        "  h = {begin}\n  scan t in 0..{iterations}:\n    a = {does}(h + {read})\n"
        "    b = cos(h + {read})\n    h = {next}\n    {name}[{row}] = a + b\n"
    )
    loops = [template.format(**each, name=name) for each, name in ((one, "p"), (one | other, "q"))]
    text = (
        "block Net()(x: [n, s, s], y: [n, s, s]) -> [3, n, s], "
        f"[{other.get('iterations', 3)}, n, s]"
        f" where s == 3:\n  first = x[:, 0]\n{''.join(loops)}  return p, q\n\nmodel net = Net()\n"
    )
    graph = forward(text, n=2, s=3)
    feeds = numbers(graph)
    simple = simplify_loops(graph)
    verify(simple)
    assert_same(outputs(simple, feeds), outputs(unroll_loops(graph), feeds))
    assert len({value.application for value in simple.values if value.op.bodies}) == 2


def test_loops_that_read_other_results_of_a_loop_within_stay_two() -> None:
    """Also where they are made, as equal values are one."""
    loops = (
        "  h = x[:, 0]\n  scan t in 0..s:\n    a = h\n    b = h\n"
        "    scan u in 0..2:\n      a = sin(a + x[:, t])\n      b = cos(b + x[:, t])\n"
        f"    h = {result}\n    {name}[t] = h\n"
        for name, result in (("p", "a"), ("q", "b"))
    )
    text = f"block Net()(x: [n, s, 3]) -> [s, n, 3], [s, n, 3]:\n{''.join(loops)}  return p, q\n"
    graph = forward(f"{text}\nmodel net = Net()\n")
    feeds = numbers(graph)
    expected: dict[str, Array] = {}
    for name, curve in (("output0", np.sin), ("output1", np.cos)):
        h, rows = feeds["x"][:, 0], list[Array]()
        for x in np.moveaxis(feeds["x"], 1, 0):
            h = curve(curve(h + x) + x)
            rows.append(h)
        expected[name] = np.stack(rows)
    for each in (graph, simplify_loops(graph), optimize(graph, mode="train").graph):
        assert_same(outputs(each, feeds), expected)


def test_loops_that_differ_in_what_they_give_alone_are_one() -> None:
    """The first gives `a`, the second `b`, the third both the other way round, along other axes."""
    given = ("p[t] = a", "q[t] = b", "r[:, t] = b\n    u[t] = a")
    iterations = (
        "  h = x[:, 0]\n  scan t in 0..s:\n    a = sin(h + x[:, t])\n    b = cos(h + x[:, t])\n"
        f"    h = a + b\n    {each}\n"
        for each in given
    )
    text = (
        "block Net()(x: [n, s, 3]) -> [s, n, 3], [s, n, 3], [n, s, 3], [s, n, 3], [n, 3]:\n"
        f"{''.join(iterations)}  return p, q, r, u, h\n\nmodel net = Net()\n"
    )
    graph = forward(text)
    feeds = numbers(graph)
    simple = simplify_loops(graph)
    verify(simple)
    assert_same(outputs(simple, feeds), outputs(unroll_loops(graph), feeds))


@pytest.mark.parametrize("optimized", [False, True], ids=["plain", "optimized"])
def test_a_training_step_through_scans_is_that_of_the_iterations(*, optimized: bool) -> None:
    graph = elaborate_train(program(RECURRENT), sizes={"batch": 2}, training=True).graph
    chosen = TrainingSettings(Adam(lr=1e-2), clip_norm=1.0)
    step = training_step(graph, chosen)
    if optimized:
        step = optimized_training_step(graph, chosen, RewriteOptions()).graph
    verify(step)
    expected = training_step(unroll_loops(graph), chosen)
    feeds = {name: np.abs(array) for name, array in numbers(expected).items()}
    found, wanted = (
        evaluate(each, fitting(each, feeds), Precision.DOUBLE) for each in (step, expected)
    )
    assert_same(found.outputs, wanted.outputs)
    assert_same(found.updates, wanted.updates)


ACTIVATED = """
block Net()(x: [n, s, 3]) -> [n, 3]:
  h = zeros([n, 3])
  scan t in 0..s:
    h = silu(h + x[:, t])
  return h

model net = Net()
"""


def test_a_scan_is_optimized_inside_and_means_the_same() -> None:
    graph = forward(ACTIVATED)
    optimized = optimize(graph, mode="infer").graph
    feeds = numbers(graph)
    bodies = [body for value in optimized.values for body in value.op.bodies]
    assert "Activation" in {type(value.op).__name__ for value in bodies[0].graph.values}
    loaded = optimize(graph, mode="train").graph
    assert_same(outputs(loaded, feeds), outputs(graph, feeds))


def test_the_gradient_of_a_scan_is_the_slope() -> None:
    assert_gradients(forward(NESTED, n=1, s=3))


def test_a_gradient_takes_two_scans_and_one_product_of_all_iterations() -> None:
    graph = elaborate_train(
        program(
            RECURRENT.replace(
                "concat(x |> a: lstm(4), x |> b: gru(4, backwards=true), axis=2)", "x |> a: lstm(8)"
            )
        ),
        sizes={"batch": 2},
        training=True,
    ).graph
    step = training_step(graph, TrainingSettings(Adam(lr=1e-2)))
    scans = {value.application: value for value in step.values if isinstance(value.op, Scan)}
    assert len(scans) == 2
    forth, back = (value.op for value in scans.values())
    assert isinstance(forth, Scan)
    assert isinstance(back, Scan)
    assert (forth.carried, back.carried, back.backward) == (2, 2, True)
    products = [value for value in back.body.graph.values if isinstance(value.op, MatMul)]
    assert len(products) == 1  # that of the carried cotangent; the weight's is behind the loop
    assert any(
        isinstance(value.op, MatMul) and value.operands[0].type.shape == (10, 8)
        for value in step.values
    )


@pytest.mark.parametrize("optimized", [False, True])
def test_a_graph_does_not_grow_with_the_number_of_iterations(*, optimized: bool) -> None:
    def lines(iterations: int) -> list[str]:
        text = RECURRENT.replace("[batch, 5,", f"[batch, {iterations},")
        graph = elaborate_train(program(text), sizes={"batch": 2}, training=True).graph
        chosen = TrainingSettings(Adam(lr=1e-2))
        if optimized:
            return format_graph(
                optimized_training_step(graph, chosen, RewriteOptions()).graph
            ).splitlines()
        return format_graph(training_step(graph, chosen)).splitlines()

    few, many = lines(16), lines(1024)
    assert len(few) == len(many)


def test_what_depends_on_no_iteration_is_computed_once_before() -> None:
    graph = forward(RECURRENT)
    for value in graph.values:
        for body in value.op.bodies:
            kinds = {type(each.op) for each in body.graph.values}
            assert not kinds & {Transpose, Parameter}


def test_slices_the_other_way_are_reversed_before() -> None:
    text = """
block Net()(x: [n, s, 3]) -> [n, s, 3], [n, s, 3]:
  scan t in 0..s:
    y[:, t] = x[:, t] * x[:, s - 1 - t]
    z[:, s - 1 - t] = sin(x[:, t])
  return y, z

model net = Net()
"""
    graph = forward(text)
    assert any(isinstance(value.op, Reverse) for value in graph.values)
    x = np.random.default_rng(0).normal(size=(2, 5, 3))
    found = outputs(graph, {"x": x})
    np.testing.assert_allclose(found["output0"], x * x[:, ::-1])
    np.testing.assert_allclose(found["output1"], np.sin(x)[:, ::-1])


def test_iterations_draw_different_numbers_and_nested_ones_too() -> None:
    text = """
block Net()() -> [3, 4, 5]:
  scan t in 0..3:
    scan u in 0..4:
      row[u] = random_uniform([5])
    y[t] = row
  return y

model net = Net()
"""
    graph = forward(text)
    counter = np.array([1, 2], np.uint32)
    found = outputs(graph, {"counter": counter})["output"]
    assert len(np.unique(found)) == 60
    assert_same({"output": found}, outputs(unroll_loops(graph), {"counter": counter}))


@given(graph=loops())
@settings(max_examples=25)
def test_random_bodies_are_their_iterations(graph: Graph) -> None:
    verify(graph)
    made, unrolled = with_gradients(graph), with_gradients(unroll_loops(graph))
    feeds = numbers(made)
    expected = outputs(unrolled, feeds)
    assert_same(outputs(made, feeds), expected)
    simple = simplify_loops(made)
    verify(simple)
    assert_same(outputs(simple, feeds), expected)
    assert {value.op.name for value in simple.values if isinstance(value.op, Leaf)} == {
        value.op.name for value in made.values if isinstance(value.op, Leaf)
    }


def test_a_state_is_carried_by_iterations_that_update_it_and_by_no_others() -> None:
    text = """
block Net()(x: [n, s, 3]) -> [n, s, 3]
    where n >= 2:
  state seen: [] = zeros
  scan t in 0..s:
    update seen = seen + 1
    y[:, t] = (x[:, t] |> bn: batch_norm(momentum=0.5)) * seen
    scan u in 0..2:
      update seen = seen + 0.5
  return y + seen

model net = Net()
"""
    graph = elaborate_model(program(text), sizes={"n": 2, "s": 4}, training=True).graph
    verify(graph)
    feeds = {name: np.abs(each) for name, each in numbers(graph).items()} | {
        "seen": np.asarray(1.5),
        "bn.num_batches_tracked": np.asarray(7, np.int32),
    }
    found = evaluate(graph, feeds, Precision.DOUBLE)
    unrolled = evaluate(unroll_loops(graph), feeds, Precision.DOUBLE)
    assert_same(found.updates, unrolled.updates)
    assert_same(found.outputs, unrolled.outputs)
    assert found.updates["seen"] == 1.5 + 4 * 2
    assert found.updates["bn.num_batches_tracked"] == 11
    fixed = elaborate_model(program(text), sizes={"n": 2, "s": 4}).graph
    assert set(fixed.updates) == {"seen"}
    (outer,) = {
        v.op.carried for v in fixed.values if isinstance(v.op, Scan) and v.op.iterations == 4
    }
    assert outer == 1


def test_what_only_an_inner_scan_reads_is_carried_by_the_outer_one() -> None:
    text = """
block Net()(x: [n, s, 3]) -> [n, 3]:
  h = zeros([n, 3])
  scan t in 0..2:
    scan u in 0..s:
      h = cos(h + x[:, u])
  return h

model net = Net()
"""
    graph = forward(text)
    x = np.random.default_rng(0).normal(size=(2, 5, 3))
    h = np.zeros((2, 3))
    for at in (*range(5), *range(5)):
        h = np.cos(h + x[:, at])
    np.testing.assert_allclose(outputs(graph, {"x": x})["output"], h, atol=1e-12)
