"""Programs with scans, random loops, and what is asked of both."""

from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.gradcheck.probe import fitting
from meganeura_dsl.gradcheck.random_inputs import InputDistribution, RandomInputs
from meganeura_dsl.ir.graph import Array, Builder, Graph, Value, continued
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops import Add, Input, MatMul, Mul, Parameter, Scan, Sin, Sum, Tanh, Transpose
from meganeura_dsl.ir.ops.primitive.loop_region import Carry, Collected, Region
from meganeura_dsl.ir.types import DType
from meganeura_dsl.pipeline import Program, elaborate_model, loader_beside
from meganeura_dsl.transforms.autodiff import differentiate

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
        case 5:
            return build.add(MatMul(transpose_right=True), one, weights[0])
        case 6:
            turned = build.add(MatMul(transpose_right=True), weights[1], one)
            return build.add(Transpose((1, 0)), turned)
        case _:
            columns = build.add(Transpose((1, 0)), one)
            turned = build.add(MatMul(transpose_left=True), weights[0], columns)
            return build.add(Transpose((1, 0)), turned)


@st.composite
def loops(draw: st.DrawFn, iterations: int = 3) -> Graph:
    """Graphs around a scan of random carries, slices and collected values."""
    build = Builder()
    n, d = (draw(st.integers(1, 3)) for _ in range(2))
    iterations = draw(st.integers(1, iterations))
    xs = build.add(Input("x", DType.F32, (n, iterations, d)))
    weights = [build.add(Parameter(f"w{i}", DType.F32, (d, d), "param")) for i in range(2)]
    region = Region(build, iterations)
    starts = [build.add(Input(f"h{i}", DType.F32, (n, d))) for i in range(draw(st.integers(1, 3)))]
    leaves = [region.leaf(start.type) for start in starts]
    values = [*leaves, region.slice(xs, 1, backward=draw(st.booleans()))]
    for _ in range(draw(st.integers(1, 6))):
        one, other = (draw(st.sampled_from(values)) for _ in range(2))
        values.append(_step(draw(st.integers(0, 7)), build, one, other, weights))
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
