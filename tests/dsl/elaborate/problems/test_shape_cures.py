"""The first cure of shapes that do not meet is right: applied, it is proved, and computes that."""

from collections.abc import Callable

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import Report, Severity, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.elaborate.declarations.models import Inputs, elaborate_block
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.pipeline import check


def nothing_to_import(_words: tuple[str, ...]) -> None:
    return None


def refused(text: str) -> Report:
    """The one report of a program, which has no edit that makes sizes equal."""
    (report,) = check(Source("net.mgn", text), nothing_to_import).reports
    assert report.help is not None
    assert not report.help.edits
    assert "where" not in report.help.text
    return report


CODED: list[tuple[str, str, str, str, dict[str, tuple[int, ...]], Callable[..., Array]]] = [
    (  # a gate of channels on pictures
        "x: [n, c, h, w], s: [n, c]", "x * s", "s", "expand(s, [n, c] -> [n, c, h, w])",
        {"x": (4, 4, 4, 4), "s": (4, 4)}, lambda x, s: x * s[:, :, None, None],
    ),
    (  # a mask of tokens on their vectors
        "x: [n, s, d], m: [n, s]", "x * m", "m", "expand(m, [n, s] -> [n, s, d])",
        {"x": (3, 3, 3), "m": (3, 3)}, lambda x, m: x * m[:, :, None],
    ),
    (  # the side of fewer axes stands first, and is a call
        "x: [n, d]", "sum(x, 1) - x", "sum(x, 1)", "expand(sum(x, 1), [n] -> [n, d])",
        {"x": (3, 3)}, lambda x: x.sum(1, keepdims=True) - x,
    ),
    (  # a column on rows
        "x: [n, d], y: [n, 1]", "x / y", "y", "expand(y, [n, 1] -> [n, d])",
        {"x": (3, 3), "y": (3, 1)}, lambda x, y: x / y,
    ),
    (  # a column and a row of one number each are compared one by one
        "x: [n], y: [n, 1]", "x - y", "y", "rearrange(y, [n, 1] -> [n])",
        {"x": (3,), "y": (3, 1)}, lambda x, y: x - y[:, 0],
    ),
    (  # axes in another order
        "x: [n, c], y: [c, n]", "x + y", "y", "rearrange(y, [c, n] -> [n, c])",
        {"x": (3, 3), "y": (3, 3)}, lambda x, y: x + y.T,
    ),
    (  # scores of attention without a transposition
        "q: [n, s, d], k: [n, s, d]", "q @ k", "k", "rearrange(k, [n, s, d] -> [n, d, s])",
        {"q": (2, 3, 3), "k": (2, 3, 3)}, lambda q, k: q @ k.transpose(0, 2, 1),
    ),
    (  # a table of weights as PyTorch stores it
        "x: [n, s, d], w: [e, d]", "x @ w", "w", "rearrange(w, [e, d] -> [d, e])",
        {"x": (2, 3, 3), "w": (3, 3)}, lambda x, w: x @ w.T,
    ),
    (  # one matrix on the left of a batch
        "a: [s, s], x: [n, s, d]", "a @ x", "a", "expand(a, [s, s] -> [n, s, s])",
        {"a": (3, 3), "x": (3, 3, 3)}, lambda a, x: a @ x,
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("inputs", "formula", "operand", "code", "shapes", "meant"), CODED, ids=[x[1] for x in CODED]
)
def test_a_cure_is_proved_and_right(
    inputs: str,
    formula: str,
    operand: str,
    code: str,
    shapes: dict[str, tuple[int, ...]],
    meant: Callable[..., Array],
) -> None:
    report = refused(f"block A()({inputs}) = {formula}\n")
    assert report.help is not None
    is_product = " @ " in formula
    cured = formula.replace(operand, code) if not is_product else (report.help.code or "")
    assert report.help.code == (cured if is_product else code)
    assert f"`{operand}`" in report.help.text
    source = Source("net.mgn", f"block A()({inputs}) = {cured}\n")
    assert check(source, nothing_to_import).fine
    random = np.random.default_rng(0)
    given = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    module = Linker(nothing_to_import, Sink()).link(source)
    types = tuple(TensorType(DType.F32, shape) for shape in shapes.values())
    block = module.blocks["A"]
    graph = elaborate_block(module, block, config={}, inputs=Inputs(types), training=False).graph
    (found,) = evaluate(graph, given).outputs.values()
    np.testing.assert_allclose(found, meant(**given), rtol=1e-5)


ATTENTION = """\
block Attention(heads)(x: [n, s, d]) -> [n, s, d]
    where d % heads == 0:
  q = x |> q: linear(d) |> rearrange([n, s, heads * e] -> [n, s, heads, e])
  k = x |> k: linear(d) |> rearrange([n, s, heads * e] -> [n, s, heads, e])
  v = x |> v: linear(d) |> rearrange([n, s, heads * e] -> [n, s, heads, e])
  return attention(q, k, v) |> rearrange([n, heads, s, e] -> [n, s, heads * e]) |> out: linear(d)
"""

SAID = [
    (  # heads that are not moved before attention
        ATTENTION,
        "E0304",
        ["[n, s, heads, d//heads]", "another order than [n, heads, s, e]", "move them where"],
    ),
    (  # the size of a batch in the network
        "block Net(batch=64)(x: [n, d]) = x |> rearrange([batch, k] -> [k, batch])\n",
        "E0304",
        ["`batch` is something else here, and this axis is `n`", "[n, k] -> [k, n]"],
    ),
    (
        "block A()(x: [n, d], y: [n, e]) = x + y\n",
        "E0301",
        ["axis 1 of x is d, axis 1 of y is e", "nothing makes d and e equal"],
    ),
    (  # a shortcut that is projected on one path only
        (
            "block A(c)(x: [n, k]) -> [n, c]:\n  y = x |> fc: linear(c)\n  if c == 3:\n"
            "    x = x |> shortcut: linear(c)\n  return x + y\n"
        ),
        "E0301",
        ["axis 1 of x is k, axis 1 of y is c", "on this path", "let the branch be taken"],
    ),
    (
        "block A()(a: [n, d], w: [e, k]) = a @ w\n",
        "E0320",
        ["the two sides of `@` do not meet", "axis 1 of a is d, axis 0 of w is e", "w: f32[e, k]"],
    ),
    (
        "block A()(x: [n, s, d], y: [d]) = x @ y\n",
        "E0320",
        ["one matrix on its right", "sum(x * y, 2)"],
    ),
    (
        "block A()(x: [n, s]) = expand(x, [n, s] -> [n, t, s])\n",
        "E0201",
        ["nothing here is called `t`", "an axis that `expand` adds", "1 adds an axis of size 1"],
    ),
    (
        "block B()(x: [n, d], y: [n, d]) = x + y\n\nblock A()(x: [n, d], y: [n, e]) = B(x, y)\n",
        "E0308",
        ["axis 1 is e here, and the other arguments of `B` make it d"],
    ),
    (
        (
            "block B()(x: [n, d], y: [n, e]) where d == e = x + y\n\n"
            "block A()(x: [n, k], y: [n, m]) = B(x, y)\n"
        ),
        "E0311",
        ["nothing makes k and m equal"],
    ),
    (  # a regression of one number; the cure is of the side that has an axis more
        "train fit(x: [batch, 4], y: [batch]):\n  z = x |> fc: linear(1)\n  minimize mse(z, y)\n",
        "E0503",
        [
            "the target [batch] cannot meet the prediction [batch, 1]",
            "drop the axis of size 1 of `z`",
            "rearrange(z, [batch, 1] -> [batch])",
        ],
    ),
    (
        (
            "train fit(x: [batch, 4], y: [batch, 1]):\n  z = x |> fc: linear(3)\n"
            "  minimize mse(z, y)\n"
        ),
        "E0503",
        ["`fc: linear(3)` makes 3 of them: make 1"],
    ),
]


@pytest.mark.parametrize(("text", "code", "words"), SAID)
def test_what_disagrees_is_said(text: str, code: str, words: list[str]) -> None:
    (report,) = (
        each
        for each in check(Source("net.mgn", text), nothing_to_import).reports
        if each.severity is Severity.ERROR
    )
    assert report.code == code
    assert report.help is None or not report.help.edits
    shown = render(report)
    for each in words:
        assert each in shown, shown
    for internal in ("MatMul", "Broadcast", "Concat", "Slice", "Reshape"):
        assert internal not in shown


@pytest.mark.parametrize("name", ["loss", "functions", "nn", "attention"])
def test_what_a_file_is_called_changes_no_message(name: str) -> None:
    """A block of the user's own in a file that is called as one of the library's."""
    library = "block Gate(k)(x: [n, d], gate: [n, d]) -> [n, d]:\n  return x * gate * k\n"
    said: list[str] = []
    for file in (name, "gates"):
        text = (
            f"from {file} import Gate\n\n"
            "block Top(k)(x: [n, 8], mask: [n, 4]) -> [n, 8]:\n  return Gate(k)(x, mask)\n"
        )
        own = Source(f"{file}.mgn", library)
        (report,) = check(Source("net.mgn", text), lambda _words, own=own: own).reports
        said.append(render(report).replace(f"{file}.mgn", "FILE.mgn"))
    assert said[0] == said[1]
    assert "E0308" in said[0]


@pytest.mark.parametrize(
    ("result", "right"),
    [
        ("n, t", "(x @ insert_axis(q, 2, 1))[:, :, 0]"),
        ("n, t, n", "x @ rearrange(q, [n, d] -> [d, n])"),
    ],
)
def test_a_vector_for_each_of_a_batch_is_a_column(result: str, right: str) -> None:
    text = f"block A()(x: [n, t, d], q: [n, d]) -> [{result}] = CODE\n"
    report = refused(text.replace("CODE", "x @ q"))
    assert report.help is not None
    assert report.help.code == right
    assert not check(Source("net.mgn", text.replace("CODE", right)), nothing_to_import).reports
