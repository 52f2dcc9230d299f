"""Scans against their rounds written out: results, gradients and training steps."""

from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.gradcheck.probe import fitting
from meganeura_dsl.gradcheck.random_inputs import InputDistribution, RandomInputs
from meganeura_dsl.ir.graph import Array, Builder, Graph, Leaf, Value, continued
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops import (
    Add,
    Input,
    MatMul,
    Mul,
    Parameter,
    Reverse,
    Scan,
    Sin,
    Sum,
    Tanh,
    Transpose,
)
from meganeura_dsl.ir.ops.primitive.loop_region import Carry, Collected, Region
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.types import DType
from meganeura_dsl.ir.verify import verify
from meganeura_dsl.pipeline import Program, elaborate_model, elaborate_train, loader_beside
from meganeura_dsl.testing import assert_gradients
from meganeura_dsl.transforms.autodiff import differentiate
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

RECURRENT = """
from recurrent import gru, lstm

block Net()(x: [n, s, 3]) -> [n, s, 8]:
  return concat(x |> a: lstm(4), x |> b: gru(4, backwards=true), axis=2)

model net = Net()

train fit(x: [batch, 5, 3], y: [batch, 5, 8]):
  minimize mse(x |> dropout(0.3) |> net, y)
  run:
    data = "x.npz"
    batch = 2
    epochs = 1
    optimizer = adam(lr=1e-3)
"""

NESTED = """
block Net()(x: [n, s, 3]) -> [n, s, 3], [n, 3], [n, s - 1, 3]
    where s >= 3:
  h = ones([n, 3])
  g = zeros([n, 3])
  k = 0 * h
  scan t in 1..s - 1:
    w = h * f32(t) + where(t > 2, x[:, t - 1], x[:, t + 1] * x[:, s - t])
    v = h
    h = tanh(w) + g
    g = sin(v)
    scan u in 0..3:
      g = sin(g + x[:, u] * x[:, t] * (x[:, t] |> lin: linear(3)))
      inner[u] = g
    z[t - 1] = h + random_uniform([n, 3]) + (sum(inner, 0) |> lin)
    for i in 0..2:
      g = g * x[:, 2 * i] if i < 1 else g
    k = cos(k + sum(x[:, t - 1:t + 1], 1)) + inner[0]
  scan t in 0..s:
    y[:, s - 1 - t] = h * x[:, t]
    r[t] = sum(x[:, t])
  scan t in 0..s - 1:
    q[:, t] = x[:, t] * r[t] + h * sum(z)
  return y, k, q

model net = Net()
"""


def program(text: str) -> Program:
    sink = Sink()
    module = Linker(loader_beside(Path("net.mgn")), sink).link(Source("net.mgn", text))
    assert not sink.has_errors, sink.reports
    return Program(module)


def forward(text: str, **sizes: int) -> Graph:
    return elaborate_model(program(text), sizes=sizes or {"n": 2, "s": 5}).graph


def numbers(graph: Graph) -> dict[str, Array]:
    return RandomInputs(0, InputDistribution.SMOOTH).feeds(graph)


def outputs(graph: Graph, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
    return evaluate(graph, fitting(graph, feeds), Precision.DOUBLE).outputs


def assert_same(found: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        scale = max(1.0, float(np.abs(array).max()))
        np.testing.assert_allclose(found[name] / scale, array / scale, atol=1e-12, err_msg=name)


def with_gradients(graph: Graph) -> Graph:
    """The outputs, the gradients of the sum of their squares, and those of their squares."""
    build, kept = continued(graph)
    leaves = {
        value.op.name: value
        for value in kept.values
        if isinstance(value.op, Input | Parameter) and value.type.dtype.is_float
    }
    first = differentiate(build, _squares(build, kept.outputs.values()), tuple(leaves.values()))
    second = differentiate(build, _squares(build, first), tuple(leaves.values()))
    named = {f"first.{name}": each for name, each in zip(leaves, first, strict=True)}
    named |= {f"second.{name}": each for name, each in zip(leaves, second, strict=True)}
    return build.graph({**kept.outputs, **named})


def _squares(build: Builder, values: Iterable[Value]) -> Value:
    squares = (build.add(Mul(), value, value) for value in values)
    sums = [build.add(Sum(tuple(range(each.type.rank))), each) for each in squares]
    return reduce(lambda total, each: build.add(Add(), total, each), sums)


@pytest.mark.parametrize("text", [RECURRENT, NESTED], ids=["recurrent", "nested"])
def test_a_scan_is_its_rounds_and_so_are_its_gradients(text: str) -> None:
    graph = forward(text)
    verify(graph)
    made, unrolled = with_gradients(graph), with_gradients(unroll_loops(graph))
    verify(made)
    assert not any(value.op.bodies for value in unrolled.values)
    feeds = numbers(made)
    expected = outputs(unrolled, feeds)
    assert_same(outputs(made, feeds), expected)
    assert_same(outputs(simplify_loops(made), feeds), expected)


@pytest.mark.parametrize("optimized", [False, True], ids=["plain", "optimized"])
def test_a_training_step_through_scans_is_that_of_the_rounds(*, optimized: bool) -> None:
    graph = elaborate_train(program(RECURRENT), sizes={"batch": 2}, training=True).graph
    settings = TrainingSettings(Adam(lr=1e-2), clip_norm=1.0)
    step = training_step(graph, settings)
    if optimized:
        step = optimized_training_step(graph, settings, RewriteOptions()).graph
    verify(step)
    expected = training_step(unroll_loops(graph), settings)
    feeds = {name: np.abs(array) for name, array in numbers(expected).items()}
    found, wanted = (
        evaluate(each, fitting(each, feeds), Precision.DOUBLE) for each in (step, expected)
    )
    assert_same(found.outputs, wanted.outputs)
    assert_same(found.updates, wanted.updates)


def test_a_scan_is_optimized_inside_and_means_the_same() -> None:
    graph = forward(RECURRENT)
    optimized = optimize(graph, mode="infer").graph
    feeds = numbers(graph)
    bodies = [body for value in optimized.values for body in value.op.bodies]
    assert "Activation" in {type(value.op).__name__ for value in bodies[0].graph.values}
    loaded = optimize(graph, mode="train").graph
    assert_same(outputs(loaded, feeds), outputs(graph, feeds))


def test_the_gradient_of_a_scan_is_the_slope() -> None:
    assert_gradients(forward(NESTED))
    assert_gradients(forward(RECURRENT))


def test_a_gradient_takes_two_scans_and_one_product_of_all_rounds() -> None:
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
def test_a_graph_does_not_grow_with_the_number_of_rounds(*, optimized: bool) -> None:
    def lines(rounds: int) -> list[str]:
        text = RECURRENT.replace("[batch, 5,", f"[batch, {rounds},")
        graph = elaborate_train(program(text), sizes={"batch": 2}, training=True).graph
        settings = TrainingSettings(Adam(lr=1e-2))
        if optimized:
            return format_graph(
                optimized_training_step(graph, settings, RewriteOptions()).graph
            ).splitlines()
        return format_graph(training_step(graph, settings)).splitlines()

    few, many = lines(16), lines(1024)
    assert len(few) == len(many)


def test_what_depends_on_no_round_is_computed_once_before() -> None:
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


def test_rounds_draw_different_numbers_and_nested_ones_too() -> None:
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


def _step(kind: int, build: Builder, one: Value, other: Value, weights: list[Value]) -> Value:
    match kind:
        case 0:
            return build.add(Tanh(), one)
        case 1:
            return build.add(Sin(), one)
        case 2:
            return build.add(Mul(), one, other)
        case 3:
            return build.add(Add(), one, other)
        case 4:
            return build.add(MatMul(), one, weights[1])
        case _:
            return build.add(MatMul(transpose_right=True), one, weights[0])


@st.composite
def loops(draw: st.DrawFn) -> Graph:
    """Graphs around a scan of random carries, slices and collected values."""
    build = Builder()
    n, d, rounds = (draw(st.integers(1, 3)) for _ in range(3))
    xs = build.add(Input("x", DType.F32, (n, rounds, d)))
    weights = [build.add(Parameter(f"w{i}", DType.F32, (d, d), "param")) for i in range(2)]
    region = Region(build, rounds)
    starts = [build.add(Input(f"h{i}", DType.F32, (n, d))) for i in range(draw(st.integers(1, 3)))]
    leaves = [region.leaf(start.type) for start in starts]
    values = [*leaves, region.slice(xs, 1, backward=draw(st.booleans()))]
    for _ in range(draw(st.integers(1, 6))):
        one, other = (draw(st.sampled_from(values)) for _ in range(2))
        values.append(_step(draw(st.integers(0, 5)), build, one, other, weights))
    carries = [
        Carry(leaf, start, build.add(Tanh(), draw(st.sampled_from(values))))
        for leaf, start in zip(leaves, starts, strict=True)
    ]
    collected = [
        Collected(draw(st.sampled_from(values)), draw(st.integers(0, 2)))
        for _ in range(draw(st.integers(0, 2)))
    ]
    attributes, operands = region.close(carries, collected, backward=draw(st.booleans()))
    results = build.add_all(Scan(*attributes), *operands)
    used = draw(st.lists(st.sampled_from(results), min_size=1, unique=True))
    return build.graph({f"y{index}": value for index, value in enumerate(used)})


@given(graph=loops())
def test_random_bodies_are_their_rounds(graph: Graph) -> None:
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
