"""Shapes that do not meet are told with the layer, the declaration or the index that made them."""

import pytest

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check
from tests.dsl.elaborate.problems.cures import LOAD

NET = """\
block Net()(x: [n, 8]) -> [n, 4] = x |> a: linear(16) |> relu |> b: linear(4)
model net = Net()
train fit(x: [batch, 8], y: {}):
  minimize {}(x |> net, y)
"""
MAPS = """\
block Net()(x: [n, 3, 8, 8]) -> [n, 4, 8, 8] = x |> a: conv2d(4, 3, pad=1)
model net = Net()
train fit(x: [batch, 3, 8, 8], y: [batch, 1, 8, 8]):
  minimize mse(x |> net, y)
"""
PRODUCT = """\
block Net({})(x: [n, {}]) -> [n, 1024]:
  param w: {} = normal(1)
  return {}
"""
LAYER = """\
from recurrent import lstm, gru
block Net()(x: {}) = {}
"""


RESULT = """\
block Net()(x: [n, {}]) -> [n, {}]:
  return {}
"""


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        (RESULT.format("5, 8", "2", "x[-1] |> a: linear(2)"), "x[:, -1] |> a: linear(2)"),
        (
            RESULT.format("3, 8, 8", "2", "x |> a: conv2d(4, 3) |> b: batch_norm"),
            "|> rearrange([n, c, h, w] -> [n, c * h * w]) |> fc: linear(2)",
        ),
        (
            RESULT.format("3, 8, 8", "4, 16, 16", "x |> a: conv2d(2, 3, pad=1) |> b: conv2d(2, 1)"),
            "b: conv2d(4, 1)",
        ),
        ("block Net()(x: [n, s]) = zeros([n, x])\n", "its sizes are [n, s]"),
        ("block Net()(x: [24]) -> [2, 3, 4] = x\n", "rearrange(x, [2 * 3 * 4] -> [2, 3, 4])"),
        (NET.format("[batch, 1]", "mse"), "b: linear(1)"),
        (NET.format("[batch, 3]", "cross_entropy"), "b: linear(3)"),
        (NET.format("[batch, 3]", "bce"), "b: linear(3)"),
        (NET.format("i32[batch, 4]", "cross_entropy"), "argmax(..., 1)"),
        (MAPS, "a: conv2d(1, 3, pad=1)"),
        (PRODUCT.format("", 256, "[7 * 7 * 4, 256]", "x @ w"), "param w: [256, 256] = normal(1)"),
        (PRODUCT.format("d", "d", "[16 * 16, 1024]", "x @ w"), "param w: [d, 1024] = normal(1)"),
        (PRODUCT.format("", 256, "[1024, 256]", "x @ w"), "x @ rearrange(w, [1024, 256] -> "),
        (
            PRODUCT.format("d", "d", "[1024, n]", "x @ rearrange(w, [v, e] -> [e, v])"),
            "param w: [1024, d] = normal(1)",
        ),
        ("block Net()(a: [5, 2], b: [2, 2, 3]) = a @ b\n", "rearrange(b, [i, j, k] -> [i, j * k])"),
        ("block Net()(x: []):\n  param w: [20, 1] = normal(1)\n  return x @ w\n", "x: [n, 20]"),
        (LAYER.format("[n, s, 3]", "x[:, -1] |> a: lstm(8)"), "x |> a: lstm(8)"),
        (LAYER.format("[n, s]", "x |> a: gru(8)"), "x: [n, s, d]"),
        (LAYER.format("[n, 100, 7, 3]", "x |> a: lstm(8)"), "x: [n, 7, 3]"),
        (LAYER.format("[n, 3, 9, 9]", "x |> a: conv1d(8, 3)"), "a: conv2d(8, 3)"),
        (
            LAYER.format("[n, 9, 9, 1, 1]", "x |> a: conv2d(8, 3)"),
            "[n, h, w, 1, 1] -> [n, 1, h, w]",
        ),
    ],
)
def test_the_first_cure_names_what_made_the_size(text: str, cure: str) -> None:
    (report, *_) = check(Source("net.mgn", text), LOAD).reports
    assert report.help is not None
    assert cure in f"{report.help.text} {report.help.code or ''}"


def test_a_size_that_no_layer_writes_names_none() -> None:
    text = NET.replace("linear(4)", "linear(size(x, 1) // 2)").format("[batch, 1]", "mse")
    (report, *_) = check(Source("net.mgn", text), LOAD).reports
    assert report.help is not None
    assert "linear(" not in f"{report.help.text} {report.help.code or ''}"


@pytest.mark.parametrize(
    ("shape", "joined", "place"),
    [("[1]", "full([1], 2.0), axis=0", "y[t]"), ("[n, 1]", "zeros([n, 1]), axis=1", "y[:, t]")],
)
def test_what_grows_is_collected_along_its_axis(shape: str, joined: str, place: str) -> None:
    text = f"block Net()(x: {shape}):\n  scan t in 0..9:\n    x = concat(x, {joined})\n  return x\n"
    (report, *_) = check(Source("net.mgn", text), LOAD).reports
    assert report.help is not None
    assert (report.code, report.help.code) == ("E0309", f"{place} = ...")
