"""`weights(label)`: what it is a value of, what is computed of it, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.models import Inputs, elaborate_block
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array, Graph, Leaf
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.pipeline import check, loader_beside
from tests.folded import each_of

X = np.array([0.5, -1.5, 2.0])
GAIN = np.array([2.0, -1.0, 0.25])
BLOCKS = """\
block Gain()(x: [3]) -> [3]:
  param gain: [3] = ones
  return gain * x

block Kept()(x: [3]) -> [3]:
  frozen param bias: [3] = ones
  state count: [] = zeros
  param gain: [3] = ones
  update count = count + 1
  return gain * x + bias + count

block Trained()(x: [3]) -> [3]:
  state count: [] = zeros
  param gain: [3] = ones
  if training:
    update count = count + 1
  return gain * x + count

block Bare()(x: [3]) -> [3]:
  frozen param bias: [3] = ones
  return x + bias

block Wide()(x: [3]) -> [3]:
  param gain: [4] = ones
  return x * sum(gain)

block Line()(x: [3]) -> [3], [3]:
  param gain: [3] = ones
  param bias: [3] = ones
  return gain * x, x + bias

block Outer()(x: [3]) -> [3]:
  y = x |> inner: Gain()
  return y |> inner(weights=2 * weights(inner))

block Several()(x: [3]) -> [3]:
  for i in 0..2:
    x = x |> steps[i]: Line2()
  return x

block Line2()(x: [3]) -> [3]:
  y, z = x |> line: Line()
  return y + z

model outer = Outer()
model named = own: Outer()

def norm(w) = sqrt(sum(w ** 2))

"""


def graph_of(body: str, config: str = "") -> Graph:
    """The graph of a block of these statements."""
    lines = "".join(f"  {line}\n" for line in body.split("\n"))
    text = f"{BLOCKS}\nblock P({config})(x: [3]) -> [3]:\n{lines}"
    sink = Sink()
    module = Linker(loader_beside(Path("p.mgn")), sink).link(Source("p.mgn", text))
    assert not sink.has_errors, sink.reports
    types = Inputs((TensorType(DType.F32, (3,)),))
    return elaborate_block(module, module.blocks["P"], config={}, inputs=types, training=True).graph


def value_of(body: str) -> Array:
    """Returns the result of a block's statements for `X`, where each gain is `GAIN`."""
    return run(graph_of(body))["output"]


def run(graph: Graph) -> dict[str, Array]:
    known = {"x": X, "gain": GAIN, "bias": np.ones(3), "count": np.zeros(())}
    leaves = [value.op.name for value in graph.values if isinstance(value.op, Leaf)]
    given = {name: known[name.rpartition(".")[2]] for name in leaves}
    results = evaluate(graph, given, Precision.DOUBLE)
    return {**results.outputs, **results.updates}


ONES = np.ones(3)
VALUES = {
    "the layer with twice its weights": (
        "y = x |> g: Gain()\nreturn (x |> g(weights=2 * weights(g))) - y",
        GAIN * X,
    ),
    "the gradient by them": (
        "y = x |> g: Gain()\nby = grad(sum(y ** 2), weights(g))\nreturn x |> g(weights=by)",
        2 * GAIN * X**3,
    ),
    "in a loop, as in a scan, what was computed before is constant": (
        (
            "y = x |> g: Gain()\nw = weights(g)\nfor _i in 0..1:\n"
            "  w = grad(sum(y * (x |> g(weights=w))), w)\nreturn x |> g(weights=w)"
        ),
        GAIN * X * X * X,
    ),
    "what is computed of them is a value of its own": (
        (
            "y = x |> g: Gain()\nw = 3 * weights(g)\nz = sum((x |> g(weights=w)) * y)\n"
            "return x |> g(weights=grad(z, w))"
        ),
        X * X * GAIN * X,
    ),
    "all operators": (
        "y = x |> g: Gain()\nw = weights(g)\nreturn y |> g(weights=(2 - w) / (w ** 2 + 1) - w)",
        GAIN * X * ((2 - GAIN) / (GAIN**2 + 1) - GAIN),
    ),
    "scalars": (
        "y = x |> g: Gain()\nw = weights(g)\nreturn x |> g(weights=sum(y) * w - max(y))",
        X * ((GAIN * X).sum() * GAIN - (GAIN * X).max()),
    ),
    "functions": (
        "y = x |> g: Gain()\nw = minimum(abs(weights(g)), 1)\nreturn y |> g(weights=sign(w) * w)",
        GAIN * X * np.minimum(np.abs(GAIN), 1),
    ),
    "the opposite": ("y = x |> g: Gain()\nreturn y |> g(weights=-weights(g))", -(GAIN**2) * X),
    "a product and a norm": (
        "y = x |> g: Gain()\nw = weights(g)\nreturn y * sum(w * w) * norm(w)",
        GAIN * X * (GAIN**2).sum() ** 1.5,
    ),
    "a sum over tensors": (
        "y, z = x |> g: Line()\nreturn (y - z) * sum(2 * weights(g))",
        (GAIN * X - X - 1) * 2 * (GAIN.sum() + 3),
    ),
    "the gradient by what is not read": (
        (
            "y, _z = x |> g: Line()\nw = weights(g) - grad(sum(y ** 2), weights(g))\n"
            "a, b = x |> g(weights=w)\nreturn a + b"
        ),
        (GAIN - 2 * GAIN * X**2) * X + X + 1,
    ),
    "a layer inside of a layer": (
        "y = x |> o: Outer()\nreturn y * sum(weights(o.inner))",
        2 * GAIN**2 * X * GAIN.sum(),
    ),
    "the gradient by a layer inside of a layer": (
        ("y = x |> s: Several()\nw = grad(sum(y), weights(s.steps[1].line))\nreturn x * sum(w)"),
        X * ((GAIN * X + X + 1).sum() + 3),
    ),
    "a layer inside of a layer that a loop labels": (
        (
            "for i in 0..2:\n  x = x |> s[i]: Several()\n"
            "  x = 0 * x + sum(weights(s[i].steps[0]))\nreturn x"
        ),
        np.full(3, GAIN.sum() + 3),
    ),
    "a layer inside of a model": (
        "y = x |> outer\nreturn y * sum(weights(outer.inner))",
        2 * GAIN**2 * X * GAIN.sum(),
    ),
    "a layer inside of a model that has a label": (
        "y = x |> named\nreturn y * sum(weights(named.inner))",
        2 * GAIN**2 * X * GAIN.sum(),
    ),
    "a frozen application": (
        "y = x |> g: Gain()\nreturn y |> g(weights=2 * weights(g), frozen=true)",
        2 * GAIN**2 * X,
    ),
    "a constant": (
        (
            "y = x |> g: Gain()\nw = stop_gradient(weights(g))\n"
            "z = sum((x |> g(weights=w)) * y)\nreturn x |> g(weights=grad(z, weights(g)))"
        ),
        X * X * GAIN * X,
    ),
    "in a loop": (
        (
            "y = x |> g: Gain()\nw = weights(g)\nfor _i in 0..3:\n  w = 0.5 * w\n"
            "return (x |> g(weights=w)) + 0 * y"
        ),
        GAIN * X / 8,
    ),
    "in a scan": (
        (
            "y = x |> g: Gain()\nw = weights(g)\nscan _i in 0..3:\n  w = 0.5 * w\n"
            "return (x |> g(weights=w)) + 0 * y"
        ),
        GAIN * X / 8,
    ),
    "in a scan that ends": (
        (
            "y = x |> g: Gain()\nw = weights(g)\nscan _i in 0..9 while sum(w ** 2) > 1:\n"
            "  w = 0.5 * w\nreturn (x |> g(weights=w)) + 0 * y"
        ),
        GAIN * X / 4,
    ),
    "in a scan that reads them only": (
        (
            "y = x |> g: Gain()\nw = 2 * weights(g)\nscan t in 0..3:\n"
            "  z[t] = sum(x |> g(weights=w))\nreturn z + 0 * y"
        ),
        ONES * 2 * (GAIN * X).sum(),
    ),
    "a label with a number": (
        "for i in 0..2:\n  x = x |> g[i]: Gain()\nreturn x |> g[1](weights=2 * weights(g[0]))",
        2 * GAIN**3 * X,
    ),
    "those of another layer": (
        "y = x |> g: Gain()\nz = x |> h: Gain()\nreturn y |> h(weights=2 * weights(g)) |> g",
        2 * GAIN**3 * X,
    ),
    "a layer in a layer": (
        "y = x |> o: Outer()\nreturn (x |> o(weights=3 * weights(o))) - y",
        (18 - 2) * GAIN**2 * X,
    ),
    "a frozen parameter and a state stay": (
        "y = x |> k: Kept()\nz = x |> k(weights=2 * weights(k))\nreturn z - y",
        GAIN * X + 1,
    ),
}


@each_of("name", VALUES)
def test_values(name: str) -> None:
    body, expected = VALUES[name]
    np.testing.assert_allclose(value_of(body), expected, rtol=1e-12)


def test_states_follow_the_weights_that_the_layer_has() -> None:
    body = "y = x |> k: Kept()\nz = x |> k(weights=2 * weights(k))\nreturn (z |> k) + y"
    assert run(graph_of(body))["k.count"] == 2
    alone = "y = x |> k: Kept()\nz = x |> k(weights=2 * weights(k))\nreturn z + y"
    assert run(graph_of(alone))["k.count"] == 1
    kept = "y = x |> k: Trained(training=false)\nreturn y |> k(weights=2 * weights(k))"
    assert "k.count" not in run(graph_of(kept))


REFUSED = {
    "no such label": ("y = x |> gain: Gain()\nreturn y * sum(weights(gian))", "E0201", "`gain`"),
    "applied below": (
        "layer g: Gain()\ns = sum(weights(g))\nreturn s * (x |> g)",
        "E0593",
        "above",
    ),
    "a layer inside of one that is applied below": (
        "layer o: Outer()\ns = sum(weights(o.inner))\nreturn s * (x |> o)",
        "E0593",
        "above",
    ),
    "no such layer inside": (
        "y = x |> o: Outer()\nreturn y * sum(weights(o.iner))",
        "E0201",
        "`o.inner`",
    ),
    "several inside": (
        "y = x |> s: Several()\nreturn y * sum(weights(s.steps))",
        "E0203",
        "s.steps[0]",
    ),
    "a parameter inside": (
        "y = x |> o: Outer()\nreturn y * sum(weights(o.inner.gain))",
        "E0203",
        "f32[3]",
    ),
    "a part for the whole": (
        "y = x |> s: Several()\nreturn y |> s(weights=weights(s.steps[0]))",
        "E0229",
        "",
    ),
    "several": (
        "for i in 0..2:\n  x = x |> g[i]: Gain()\nreturn x * sum(weights(g))",
        "E0203",
        "g[0]",
    ),
    "no such number": (
        "for i in 0..2:\n  x = x |> g[i]: Gain()\nreturn x * sum(weights(g[2]))",
        "E0228",
        "g.2",
    ),
    "nothing trained": ("y = x |> b: Bare()\nreturn y * sum(weights(b))", "E0593", "frozen param"),
    "a block": ("return x * sum(weights(Gain))", "E0203", "x |> net: Gain"),
    "a tensor": ("return x * sum(weights(x))", "E0203", "weights(fc)"),
    "other shapes": (
        "y = x |> g: Gain()\nz = y |> w: Wide()\nreturn z |> w(weights=weights(g))",
        "E0229",
        "f32[3]",
    ),
    "a tensor added": (
        "y = x |> g: Gain()\nreturn y |> g(weights=weights(g) + x)",
        "E0203",
        "reduce this one",
    ),
    "compared": ("y = x |> g: Gain()\n_w = weights(g) > 0\nreturn y", "E0203", "+ - * / **"),
    "a mean": ("y = x |> g: Gain()\nreturn y * mean(weights(g))", "E0203", "`sum`"),
    "along an axis": ("y = x |> g: Gain()\nreturn y * sum(weights(g), 0)", "E0202", "no axes"),
    "returned": ("_y = x |> g: Gain()\nreturn weights(g)", "E0203", "the weights of `g`"),
    "configuration": (
        "y = x |> g: Gain()\nreturn y |> h: linear(weights(g))",
        "E0203",
        "the weights",
    ),
    "no name": (
        "y = x |> g: Gain()\nreturn y * sum(grad(sum(y), 2 * weights(g)))",
        "E0203",
        "w = 2 * weights(g)",
    ),
    "unread": (
        "y = x |> g: Gain()\nw = 2 * weights(g)\nreturn y * sum(grad(sum(y), w))",
        "E0589",
        "it is not computed from `w`",
    ),
    "by a name of them": (
        "y = x |> g: Gain()\nw = weights(g)\nreturn y * sum(grad(sum(y), w))",
        "E0589",
        "grad(..., weights(g))",
    ),
    "read as constants": (
        "y = x |> g: Gain()\nz = x |> g(frozen=true)\nreturn y * sum(grad(sum(z), weights(g)))",
        "E0589",
        "frozen=true",
    ),
    "by a layer": ("y = x |> g: Gain()\nreturn y * grad(sum(y), g)", "E0203", "weights(g)"),
    "a number for them": (
        "y = x |> g: Gain()\nreturn y |> g(weights=3)",
        "E0203",
        "0.9 * weights(g)",
    ),
    "a new layer": (
        "y = x |> g: Gain()\nreturn y |> h: Gain(weights=weights(g))",
        "E0203",
        "then by its label",
    ),
    "in a def": ("y = x |> g: Gain()\nreturn y * size(g)", "E0216", "not in `def`"),
}


@each_of("name", REFUSED)
def test_refusals_say_what_to_write(name: str) -> None:
    body, code, words = REFUSED[name]
    lines = "".join(f"  {line}\n" for line in body.split("\n"))
    before = "def size(net) = sum(weights(net))\n\n" if name == "in a def" else ""
    text = f"{BLOCKS}{before}block P()(x: [3]) -> [3]:\n{lines}"
    found = check(Source("p.mgn", text), loader_beside(Path("p.mgn"))).problems
    assert [each.code for each in found] == [code], found
    assert words in repr(found[0].report())


PROVED = {
    "for every depth": """\
block Tower(depth)(x: [3]) -> [3], []:
  s = zeros([])
  for i in 0..depth:
    x = x |> layers[i]: Gain()
    s = s + sum(weights(layers[i]) ** 2)
  return x, s

block P(depth)(x: [3]) -> [3]
    where depth >= 1:
  y, _s = x |> tower: Tower(depth)
  w = weights(tower) - 0.1 * grad(sum(y ** 2), weights(tower))
  z, _t = x |> tower(weights=w)
  return z
""",
    "of a layer with its own layer": """\
block Twice()(x: [3]) -> [3]:
  layer step: Gain()
  return x |> step |> step

block P(steps)(x: [3]) -> [3]:
  layer g: Twice()
  y = x |> g
  for _i in 0..steps:
    x = x |> g(weights=0.9 * weights(g)) |> g
  return x + y
""",
    "for every number of steps": """\
block P(steps)(x: [n, 3]) -> [n, 3]:
  y = x |> g: linear(3)
  w = weights(g) - 0.1 * grad(sum(y ** 2), weights(g))
  for i in 0..steps:
    if i > 0:
      w = w - 0.1 * grad(sum((x |> g(weights=w)) ** 2), w)
  return x |> g(weights=w)
""",
}


@each_of("name", PROVED)
def test_proofs(name: str) -> None:
    found = check(Source("p.mgn", BLOCKS + PROVED[name]), loader_beside(Path("p.mgn")))
    assert not found.reports
    assert "P" in found.proved


def test_the_weights_of_a_block_that_is_given_are_those_of_each_model() -> None:
    text = f"""{BLOCKS}
block P(f: block()(x: [3]) -> [3])(x: [3]) -> [3]:
  y = x |> g: f
  return y |> g(weights=0.9 * weights(g))

model with_gain = P(Gain)
model without = P(Bare)
"""
    found = check(Source("p.mgn", text), loader_beside(Path("p.mgn"))).reports
    assert sorted(each.code for each in found) == ["E0593", "N0001"]


@pytest.mark.parametrize("word", ["weights", "sum"])
def test_a_name_of_the_program_s_own_is_kept(word: str) -> None:
    text = f"block {word}()(x: [n]) -> [n] = 2 * x\n\nblock P()(x: [n]) -> [n] = x |> {word}\n"
    assert not check(Source("p.mgn", text), loader_beside(Path("p.mgn"))).reports


def test_a_block_may_have_configuration_of_this_name() -> None:
    text = """\
block Mean(weights: real)(x: [n]) -> [n] = weights * x

block P()(x: [n]) -> [n] = x |> Mean(weights=0.5)
"""
    assert not check(Source("p.mgn", text), loader_beside(Path("p.mgn"))).reports
