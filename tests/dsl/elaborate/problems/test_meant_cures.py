"""The first cure of a wrong program is the one that is meant, and ends the error."""

from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check, loader_beside
from meganeura_dsl.resources import standard_models

LOAD = loader_beside(Path(str(standard_models())) / "x.mgn")


def refused(text: str) -> Report:
    return next(
        each for each in check(Source("net.mgn", text), LOAD).reports if each.code != "E0207"
    )


PICTURE = "block Net()(x: [n, 3, 32, 32]) -> [n, 10]:\n"
WINDOW = PICTURE + "  y = x |> c1: conv2d(8, 5) |> max_pool(2)\n"
CHANNELS = PICTURE + "  return x |> c1: {} |> mean(2, 3) |> fc: linear(10)\n"
MEAN = """\
block Net()(x: [n, 3, h, w]) -> [n, 10]:
  y = x |> c1: conv2d(16, 3, pad=1) |> relu
  return mean(y, 1, 2) |> fc: linear(10)
model net = Net()
"""
ELMAN = """\
block Elman(hidden)(x: [n, s, d]) -> [n, s, hidden]:
  h = zeros([n, d])
  scan t in 0..s:
    h = tanh((x[:, t] |> ih: linear(hidden)) + (h |> hh: linear(hidden)))
    y[:, t] = h
  return y
"""
FLAT = WINDOW + "  return {} |> fc: linear(10)\n"


@pytest.mark.parametrize(
    ("text", "code", "cure", "old", "new"),
    [
        (
            CHANNELS.format("conv2d(3, 16, 3, stride=2)"), "E0202",
            "conv2d(16, 3, stride=2)", "conv2d(3, 16", "conv2d(16",
        ),
        (CHANNELS.format("conv2d(3, 16, k=3)"), "E0202", "conv2d(16, k=3)", "(3, 16", "(16"),
        (MEAN, "E0206", "mean(y, 2, 3)", "1, 2)", "2, 3)"),
        (ELMAN, "E0309", "h = zeros([n, hidden])", "zeros([n, d])", "zeros([n, hidden])"),
        (
            FLAT.format("y |> rearrange([n, 8, 5, 5] -> [n, 8 * 5 * 5])"), "E0304",
            "[n, 8, h, w] -> [n, 8 * h * w]", "5, 5] -> [n, 8 * 5 * 5", "h, w] -> [n, 8 * h * w",
        ),
        (
            FLAT.format("y |> rearrange([n, c, 5, 5] -> [n, c * 25])"), "E0304",
            "[n, c, h, w] -> [n, c * h * w]", "5, 5] -> [n, c * 25", "h, w] -> [n, c * h * w",
        ),
        (
            FLAT.format("rearrange(y, [n, 800] -> [n, 800])"), "E0304",
            "[n, c, h, w] -> [n, c * h * w]",
            "[n, 800] -> [n, 800]", "[n, c, h, w] -> [n, c * h * w]",
        ),
        (
            FLAT.format("y.view(-1, 1568)"), "E0138",
            "rearrange(y, [n, c, h, w] -> [n, c * h * w])",
            "y.view(-1, 1568)", "rearrange(y, [n, c, h, w] -> [n, c * h * w])",
        ),
        (
            FLAT.format("flatten(y)"), "E0201",
            "rearrange(y, [n, c, h, w] -> [n, c * h * w])",
            "flatten(y)", "rearrange(y, [n, c, h, w] -> [n, c * h * w])",
        ),
        (
            FLAT.format("y |> flatten(1)"), "E0201",
            "rearrange([n, c, h, w] -> [n, c * h * w])",
            "flatten(1)", "rearrange([n, c, h, w] -> [n, c * h * w])",
        ),
        (
            PICTURE + "  return x.permute(0, 2, 3, 1) |> fc: linear(10) |> mean(1, 2)\n", "E0138",
            "rearrange(x, [n, c, h, w] -> [n, h, w, c])",
            "x.permute(0, 2, 3, 1)", "rearrange(x, [n, c, h, w] -> [n, h, w, c])",
        ),
    ],
)  # fmt: skip
def test_the_cure_is_code_that_ends_the_error(
    text: str, code: str, cure: str, old: str, new: str
) -> None:
    report = refused(text)
    assert report.code == code
    assert report.help is not None
    assert (report.help.code, report.help.edits) == (cure, ())
    assert old in text
    assert check(Source("net.mgn", text.replace(old, new)), LOAD).fine


HEADS = """\
block Net(d, heads)(x: [n, s, 40]) -> [n, s, d]
    where d % heads == 0:
  return x |> proj: linear(d) |> rearrange([n, s, heads * e] -> [n, s, heads * e])
model net = Net(d=100, heads=8)
"""
POSITIONS = """\
block Net()(ids: i32[n, 128]) -> [128, 16]:
  return {} |> table: embedding({}, 16)
"""


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (HEADS, "E0311", "for heads=8 take d=96 or 104, or for d=100 take heads=10"),
        (CHANNELS.format("conv2d(3, 64, 3)"), "E0311", "`conv2d(64, 3)`"),
        (CHANNELS.format("conv2d(16, 64, 3)"), "E0311", "`conv2d(64, 3)`"),
        (
            POSITIONS.format("(iota(128) + 1)", 128), "E0323",
            "`iota(128) + 1` goes up to 128 and begins at 1:\nleave the `+ 1` out",
        ),
        (POSITIONS.format("iota(128)", 64), "E0323", "pick from more than 127"),
    ],
)  # fmt: skip
def test_the_cure_names_what_is_meant(text: str, code: str, said: str) -> None:
    report = refused(text)
    assert report.help is not None
    assert report.code == code
    assert said in report.help.text


def test_a_value_of_which_no_axes_are_known_is_flattened_by_its_rest() -> None:
    text = (
        "block Stage(c)(x: [n, k, h, w]) -> [n, c, h, w]:\n  return x |> a: conv2d(c, 3, pad=1)\n"
        f"{PICTURE}  y = x |> s1: Stage(8)\n  return y.view(n, -1) |> fc: linear(10)\n"
    )
    report = refused(text)
    assert report.help is not None
    assert report.help.code == "rearrange(y, [n, ...rest] -> [n, product(rest)])"
    cured = text.replace("y.view(n, -1)", report.help.code)
    assert check(Source("net.mgn", cured), LOAD).fine
