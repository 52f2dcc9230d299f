"""Sizes that do not meet name the call whose padding is wrong, and the padding that it needs."""

import pytest

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.report import Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check

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
