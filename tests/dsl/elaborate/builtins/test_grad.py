"""`grad`: which binding a name is, what is refused, and that a proof knows no more than a graph."""

from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.models import Inputs, elaborate_block
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.pipeline import check, loader_beside
from tests.folded import each_of

X = np.array([0.5, -1.5, 2.0])


def value_of(body: str, *, before: str = "", config: str = "") -> Array:
    """Returns the result of a block's statements for `X`, in double precision."""
    lines = "".join(f"  {line}\n" for line in body.split("\n"))
    text = f"{before}\nblock P({config})(x: [3]) -> [3]:\n{lines}"
    sink = Sink()
    module = Linker(loader_beside(Path("p.mgn")), sink).link(Source("p.mgn", text))
    assert not sink.has_errors, sink.reports
    types = Inputs((TensorType(DType.F32, (3,)),))
    graph = elaborate_block(
        module, module.blocks["P"], config={}, inputs=types, training=False
    ).graph
    return evaluate(graph, {"x": X}, Precision.DOUBLE).outputs["output"]


VALUES = {
    "the derivative": ("return grad(sum(x ** 3), x)", 3 * X**2),
    "by a pipe": ("return sum(x ** 3) |> grad(x)", 3 * X**2),
    "again": ("g = grad(sum(x ** 3), x)\nreturn grad(sum(g ** 2), x)", 36 * X**3),
    "what was before is constant": ("y = 2 * x\nreturn grad(sum(y * x), y)", X),
    "equal values have names": ("a = 2 * x\nb = 2 * x\nreturn grad(sum(a * b), a)", 2 * X),
    "the same behind a space": ("a = 2 * x\nb = 2 * x\nreturn grad (sum(a * b), a)", 2 * X),
    "another name of it": ("a = x\nreturn grad(sum(a * x), a)", X),
    "the last binding": (
        "for _i in 0..2:\n  x = x - 0.1 * grad(sum(x ** 2), x)\nreturn x",
        0.64 * X,
    ),
    "both results of one op": (
        "a, _b = sort(x ** 2)\nreturn grad(sum(a ** 2), a)",
        2 * np.sort(X**2),
    ),
    "in a scan, what is carried": (
        "scan _t in 0..2:\n  x = x - 0.1 * grad(sum(x ** 2), x)\nreturn x",
        0.64 * X,
    ),
    "in a scan, of its slice": (
        "scan t in 0..3:\n  now = x[t]\n  y[t] = grad(now ** 3, now)\nreturn y",
        3 * X**2,
    ),
    "in a scan, from outside": (
        "scan t in 0..3:\n  y[t] = sum(grad(sum(x ** 2) * f32(t), x))\nreturn y",
        2 * X.sum() * np.arange(3),
    ),
    "of two scans that are equal": (
        (
            "a = x\nb = x\nscan _t in 0..2:\n  a = 2 * a\nscan _t in 0..2:\n  b = 2 * b\n"
            "return grad(sum(a * b), a)"
        ),
        4 * X,
    ),
}


@each_of("name", VALUES)
def test_values(name: str) -> None:
    body, expected = VALUES[name]
    np.testing.assert_allclose(value_of(body), expected, rtol=1e-12)


def test_inputs_of_a_block_that_are_given_one_tensor_are_two() -> None:
    inner = "block Q()(a: [n], b: [n]) -> [n]:\n  return grad(sum(a * b), a)\n"
    np.testing.assert_allclose(value_of("return x |> Q()(x)", before=inner), X, rtol=1e-12)


HEADER = """\
block F(k)(x: [n, 3], ids: i32[n]) -> [n, 3]
    where 0 <= ids, ids < 10:
  x = k * x + f32(insert_axis(ids, 1, 3))
"""
MISTAKES = {
    "has axes": ("return grad(x ** 2, x)", "E0588", "add up its elements"),
    "turned round": ("y = sum(x)\n  return grad(x, y)", "E0588", "the scalar comes first"),
    "of whole numbers": ("return grad(sum(ids), x)", "E0588", "compute with floats"),
    "by whole numbers": ("return grad(sum(x), ids)", "E0203", "take that of a float"),
    "by a number": ("return grad(sum(x), k)", "E0203", "only a tensor"),
    "by an expression": ("return grad(sum(x ** 2), x[:, 0])", "E0203", "y = x[:, 0]"),
    "by several": ("return grad(sum(x ** 2), [x, x])", "E0203", "one call for each"),
    "by a layer": ("y = x |> fc: linear(3)\n  return grad(sum(y), fc)", "E0203", "fc.weight"),
    "without a name": ("return grad(sum(x ** 2))", "E0202", "grad(scalar, x)"),
    "as PyTorch has it": (
        "return grad(sum(x ** 2), x, create_graph=true)",
        "E0202",
        "leave it out",
    ),
    "as JAX has it": ("return grad(sum(x ** 2), argnums=0)", "E0202", "by what comes second"),
    "of a function, as JAX has it": ("return grad(F)(x)", "E0203", "apply it first"),
    "of a function of a module": ("return jax.grad(F)(x)", "E0138", "of a scalar by a name"),
    "of a lambda": ("return grad(lambda a: sum(a))(x)", "E0121", "there is no `lambda`"),
    "as an attribute": ("return x + x.grad", "E0201", "grad(scalar, x)"),
    "of a weight as an attribute": (
        "return x * fc.weight.grad",
        "E0201",
        "grad(scalar, fc.weight)",
    ),
    "by a line": ("y = sum(x)\n  y.backward()\n  return x", "E0138", "of a scalar by a name"),
    "asked for before": ("x.requires_grad_()\n  return x", "E0138", "of a scalar by a name"),
    "set to zero": ("optimizer.zero_grad()\n  return x", "E0138", "a setting of `run:`"),
    "followed": ("optimizer.step()\n  return x", "E0138", "a setting of `run:`"),
    "in place": ("x.relu_()\n  return x", "E0138", "x = relu(x)"),
    "of what does not read it": (
        "y = sum(f32(ids))\n  return grad(y, x)",
        "E0589",
        "was bound here",
    ),
    "by a later binding": (
        "y = sum(x ** 2)\n  x = 2 * x\n  return x + grad(y, x)",
        "E0589",
        "was bound here",
    ),
    "by a binding of an iteration": (
        "y = sum(x ** 2)\n  for _j in 0..k:\n    x = x + grad(y, x)\n  return x",
        "E0589",
        "does not read",
    ),
    "through nothing": ("return grad(sum(sign(x)), x)", "E0589", "no gradient flows"),
    "through the iterations before": (
        (
            "h = 0 * x\n  scan _t in 0..2:\n    h = h + x\n    g = grad(sum(h), x)\n    y = h + g\n"
            "    h = y\n  return h"
        ),
        "E0591",
        "bound outside",
    ),
    "of a slice of it": (
        "scan t in 0..3:\n    y[t] = sum(grad(sum(x[:, t] ** 2), x))\n  return x * sum(y)",
        "E0591",
        "reads slices",
    ),
}


@each_of("name", MISTAKES)
def test_mistakes(name: str) -> None:
    body, code, words = MISTAKES[name]
    result = check(Source("f.mgn", f"{HEADER}  {body}\n"), loader_beside(Path("f.mgn")))
    found = [each for each in result.problems if each.code == code]
    assert [each.code for each in result.problems] == [code], result.problems
    report = found[0].report()
    said = repr(report)
    assert words in said


def test_a_function_takes_none() -> None:
    text = "def slope(y, x) = grad(y, x)\nblock F()(x: [n]) -> [n] = slope(sum(x ** 2), x)\n"
    result = check(Source("f.mgn", text), loader_beside(Path("f.mgn")))
    assert [each.code for each in result.problems] == ["E0216"]


@pytest.mark.parametrize("steps", ["0..k", "0..3"])
def test_a_proof_holds_where_layers_are_known_by_their_headers(steps: str) -> None:
    """A block whose layers were proved before it: what they compute is not in the proof's graph."""
    text = f"""\
block Net(hidden)(x: [n, d]) -> [n] where d >= 2:
  layer norm: layer_norm
  return (x |> norm |> a: linear(hidden) |> gelu |> b: linear(1))[:, 0]

block Steps(hidden, k)(x: [n, d]) -> [n, d] where d >= 2:
  layer net: Net(hidden)
  for _i in {steps}:
    x = x + grad(sum(x |> net), x)
  g = grad(sum(x |> net), x)
  return x + grad(sum(g ** 2), x){" * 1" if "k" in steps else ""}
""".replace("hidden, k", "hidden, k" if "k" in steps else "hidden")
    result = check(Source("f.mgn", text), loader_beside(Path("f.mgn")))
    assert not result.problems
