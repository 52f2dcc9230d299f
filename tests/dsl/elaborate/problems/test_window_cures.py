"""Sizes that do not meet name the call whose padding is wrong, and the padding that it needs."""

import pytest

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.report import Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check
from tests.dsl.elaborate.problems.cures import errors, follow

STAGE = """\
block Stage(c)(x: [n, d, h, w]){}
    where h >= 3, w >= 3:
  return x |> conv: conv2d(c, 3) |> relu
block Net(c)(x: [n, 3, 16, 16]) -> [n, c, {}]:
  return {}
model net = Net(3)
"""
RESULT = " -> [n, c, h - 2, w - 2]"
USES = [
    ("16, 16", "x |> s: Stage(c)"),
    ("16, 16", "x + (x |> s: Stage(3))"),
    ("16, 16", "concat(x, x |> s: Stage(c), axis=1)"),
    ("256", "x |> s: Stage(c) |> rearrange([n, c, 16, 16] -> [n, c, 16 * 16])"),
]
CONVOLVED = """\
block Net(c)(x: {0}) -> {0}:
  return x + {1}
"""


def first_help(text: str) -> Help | None:
    found = check(Source("net.mgn", text), lambda _: None).reports
    return next(each.help for each in found if each.severity is Severity.ERROR)


def is_fine(text: str) -> bool:
    return check(Source("net.mgn", text), lambda _: None).fine


@pytest.mark.parametrize(("shape", "use"), USES)
def test_a_block_that_declares_its_results_keeps_its_windows(shape: str, use: str) -> None:
    cure = first_help(STAGE.format(RESULT, shape, use))
    assert cure is None or "pad=" not in f"{cure.text} {cure.code}"


@pytest.mark.parametrize(("shape", "use"), USES)
def test_a_block_that_declares_none_is_told_its_padding(shape: str, use: str) -> None:
    cure = first_help(STAGE.format("", shape, use))
    assert cure is not None
    assert cure.code == "conv: conv2d(c, 3, pad=1)"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("(x |> conv: conv1d(c, 3, pad=2))", "`pad=1` keeps the size and looks ahead"),
        ("(x |> conv: conv1d(c, 3, pad=4, dilation=2))", "`pad=2` keeps the size and looks ahead"),
    ],
)
def test_a_causal_convolution_keeps_the_first_steps(code: str, said: str) -> None:
    cure = first_help(CONVOLVED.format("[n, c, t]", code))
    assert cure is not None
    assert said in cure.text
    assert cure.code == "y = y[:, :, :t]"
    assert is_fine(CONVOLVED.format("[n, c, t]", f"{code}[:, :, :t]"))


@pytest.mark.parametrize(
    ("shape", "wrong", "rest", "code"),
    [
        ("[n, c, h, w]", "conv: conv2d(c, 3, pad=2)", "", "conv: conv2d(c, 3, pad=1)"),
        ("[n, c, t]", "conv: conv1d(c, 5, pad=3)", "", "conv: conv1d(c, 5, pad=2)"),
        (
            "[n, c, 16]", "conv: conv1d(c, 3, 2, 2)", " |> up: conv_transpose1d(c, 2, 2)",
            "conv: conv1d(c, 3, 2, 1)",
        ),
    ],
)  # fmt: skip
def test_a_padding_that_makes_axes_longer_is_told_the_one_that_keeps_them(
    shape: str, wrong: str, rest: str, code: str
) -> None:
    cure = first_help(CONVOLVED.format(shape, f"(x |> {wrong}{rest})"))
    assert cure is not None
    assert "makes the axes longer" in cure.text
    assert cure.code == code
    assert is_fine(CONVOLVED.format(shape, f"(x |> {code}{rest})"))


def test_a_flattening_of_another_size_has_the_pattern_that_fits_beside_the_padding() -> None:
    text = """\
block Lenet()(x: [n, 1, 28, 28]) -> [n, 10]:
  x = x |> c1: conv2d(8, 3) |> relu |> max_pool(2) |> c2: conv2d(8, 3) |> max_pool(2)
  return x |> rearrange({}) |> fc: linear(10)
"""
    cure = first_help(text.format("[n, 8, 7, 7] -> [n, 8 * 7 * 7]"))
    assert cure is not None
    assert cure.code == "c1: conv2d(8, 3, pad=1)\nc2: conv2d(8, 3, pad=1)"
    pattern = "[n, 8, h, w] -> [n, 8 * h * w]"
    assert f"without it `{pattern}` takes what is there" in cure.text
    assert is_fine(text.format(pattern))


DILATED = """\
block Wave(c)(x: [n, c, t]) -> [n, c, t]
    where t >= 3:
  y = x |> filter: conv1d(c, 3, pad=1, dilation=2) |> tanh
  g = x |> gate: conv1d(c, 3, pad=1, dilation=2) |> sigmoid
  return x + (y * g |> mix: conv1d(c, 1))
"""
UP = """\
block Up(c)(x: [n, c_in, h, w]) -> [n, c, 2 * h, 2 * w]:
  return x |> up: conv_transpose2d({}) |> bn: batch_norm |> relu
"""
DIGITS = """\
block Cnn()(x: [n, 1, 28, 28]) -> [n, 10]:
  y = x |> a: conv2d(8, 3) |> relu |> max_pool(2) |> b: conv2d(8, 3) |> relu |> max_pool(2)
  return y |> rearrange([n, 8, 7, 7] -> [n, 8 * 7 * 7]) |> fc: linear(10)
"""
BOTTLENECK = """\
block Bottleneck(c)(x: [n, 4 * c, h, w]) -> [n, 4 * c, h, w]
    where h >= 3, w >= 3:
  y = x |> c1: conv2d(c, 1) |> b1: batch_norm |> relu |> c2: conv2d(c, 3) |> b2: batch_norm |> relu
  return relu(x + (y |> c3: conv2d(4 * c, 1) |> b3: batch_norm))
"""
INCEPTION = """\
block Inception(c)(x: [n, d, h, w]) -> [n, 3 * c, h, w]
    where h >= 5, w >= 5:
  a = x |> a: conv2d(c, 1) |> relu
  b = x |> b: conv2d(c, 3, pad=1) |> relu
  e = x |> e: conv2d(c, 5, pad=1) |> relu
  return concat(a, b, e, axis=1)
"""
STEM = """\
block Stem()(x: [n, 3, 224, 224]) -> [n, 8, 56, 56]:
  return x |> c1: conv2d(8, 7, 2) |> relu |> max_pool(3, 2)
"""
SKIP = """\
block UNet(c)(x: [n, 1, 64, 64]) -> [n, c, 60, 60]:
  a = x |> e0: conv2d(c, 3) |> relu |> e1: conv2d(c, 3) |> relu
  up = a |> max_pool(2) |> m: conv2d(2 * c, 3, pad=1) |> relu |> u: conv_transpose2d(c, 3, 2)
  return concat(up, a, axis=1) |> d0: conv2d(c, 3, pad=1) |> relu
"""


@pytest.mark.parametrize(
    ("text", "code", "cure", "edits"),
    [
        (
            DILATED, "E0301",
            "filter: conv1d(c, 3, pad=2, dilation=2)\ngate: conv1d(c, 3, pad=2, dilation=2)",
            {"pad=1": "pad=2"},
        ),
        (
            UP.format("c, 3, 2, pad=1, bias=false"), "E0303",
            "up: conv_transpose2d(c, 3, 2, pad=1, output_pad=1, bias=false)",
            {"pad=1": "pad=1, output_pad=1"},
        ),
        (
            UP.format("c, 3, stride=2"), "E0303",
            "up: conv_transpose2d(c, 3, stride=2, pad=1, output_pad=1)",
            {"stride=2": "stride=2, pad=1, output_pad=1"},
        ),
        (
            UP.format("c, 4, 2"), "E0303", "up: conv_transpose2d(c, 4, 2, pad=1)",
            {"c, 4, 2": "c, 4, 2, pad=1"},
        ),
        (
            DIGITS, "E0304", "a: conv2d(8, 3, pad=1)\nb: conv2d(8, 3, pad=1)",
            {"conv2d(8, 3)": "conv2d(8, 3, pad=1)"},
        ),
        (BOTTLENECK, "E0301", "c2: conv2d(c, 3, pad=1)", {"(c, 3)": "(c, 3, pad=1)"}),
        (INCEPTION, "E0320", "e: conv2d(c, 5, pad=2)", {"5, pad=1": "5, pad=2"}),
        (
            STEM, "E0303", "c1: conv2d(8, 7, 2, pad=3)\nmax_pool(3, 2, pad=1)",
            {"7, 2": "7, 2, pad=3", "(3, 2)": "(3, 2, pad=1)"},
        ),
        (
            SKIP, "E0320", "u: conv_transpose2d(c, 3, 2, pad=1, output_pad=1)",
            {"(c, 3, 2)": "(c, 3, 2, pad=1, output_pad=1)"},
        ),
    ],
)  # fmt: skip
def test_the_cure_is_what_was_meant(
    text: str, code: str, cure: str | None, edits: dict[str, str]
) -> None:
    follow(text, code, cure, edits)


# Two windows could lose less, and nothing says which of them is meant.
EITHER = """\
block A(c)(x: [n, c, 32, 32]) -> [n, c, 30, 30]:
  return x |> a: conv2d(c, 3) |> b: conv2d(c, 3, pad=0, dilation=3) |> d: conv2d(c, 3)
"""
# An even window has no padding on both sides that keeps the size.
EVEN = """\
block A(c)(x: [n, c, t]) -> [n, c, t]
    where t >= 4:
  return x + (x |> a: conv1d(c, 4))
"""


@pytest.mark.parametrize("text", [EITHER, EVEN])
def test_no_argument_is_offered_where_none_is_the_one(text: str) -> None:
    (first, *_) = errors(text)
    assert first.help is None or "pad=" not in (first.help.code or "")
