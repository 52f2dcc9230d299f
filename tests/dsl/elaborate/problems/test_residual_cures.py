"""A shortcut whose shape is another than that of the layers beside it is told the usual one."""

import pytest

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.report import Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check

LAYERS = """\
block Net(c)(x: {0}) -> {1}{2}:
  y = x |> {3}
  return {4} + y
"""
EVEN = "\n    where h % 2 == 0, w % 2 == 0"
CONV = "a: conv2d(c, 3, pad=1) |> bn: batch_norm |> relu |> b: conv2d(c, 3, pad=1)"
POOLED = f"{CONV} |> max_pool(2)"


def first_help(text: str) -> Help:
    found = check(Source("net.mgn", text), lambda _: None).reports
    cure = next(each.help for each in found if each.severity is Severity.ERROR)
    assert cure is not None
    return cure


@pytest.mark.parametrize(
    ("before", "after", "facts", "layers", "code"),
    [
        ("[n, c_in, h, w]", "[n, c, h, w]", "", CONV, "x |> shortcut: conv2d(c, 1)"),
        ("[n, 3, 16, 16]", "[n, c, 16, 16]", "", CONV, "x |> shortcut: conv2d(c, 1)"),
        (
            "[n, k, t]", "[n, c, t]", "", "a: conv1d(c, 3, pad=1) |> relu",
            "x |> shortcut: conv1d(c, 1)",
        ),
        ("[n, k]", "[n, c]", "", "a: linear(c) |> relu", "x |> shortcut: linear(c)"),
        ("[n, s, k]", "[n, s, c]", "", "a: linear(c) |> relu", "x |> shortcut: linear(c)"),
        ("[n, c, h, w]", "[n, c, h//2, w//2]", EVEN, POOLED, "x |> max_pool(2)"),
        (
            "[n, k, h, w]", "[n, c, h//2, w//2]", EVEN, POOLED,
            "x |> max_pool(2) |> shortcut: conv2d(c, 1)",
        ),
        (
            "[n, c, h, w]", "[n, c, h//2, w//2]", EVEN, "a: conv2d(c, 3, 2, pad=1)",
            "x |> shortcut: conv2d(c, 1, stride=2)",
        ),
    ],
)  # fmt: skip
def test_the_shortcut_is_brought_to_the_result(
    before: str, after: str, facts: str, layers: str, code: str
) -> None:
    assert first_help(LAYERS.format(before, after, facts, layers, "x")).code == code
    cured = LAYERS.format(before, after, facts, layers, f"({code})")
    assert check(Source("net.mgn", cured), lambda _: None).fine


def test_a_pool_has_a_convolution_beside_it() -> None:
    cure = first_help(LAYERS.format("[n, c, h, w]", "[n, c, h//2, w//2]", EVEN, POOLED, "x"))
    assert "shortcut: conv2d(c, 1, stride=2)" in cure.text


@pytest.mark.parametrize("operator", ["+", "*"])
def test_layers_are_brought_back_to_a_result_of_the_old_size(operator: str) -> None:
    text = LAYERS.format("[n, s, d]", "[n, s, d]", "", "up: linear(c) |> gelu", "x")
    cure = first_help(text.replace("x + y", f"x {operator} y"))
    assert cure.code == "y |> out: linear(d)"
    assert ("residual" in cure.text) == (operator == "+")
    cured = text.replace("x + y", f"x {operator} ({cure.code})")
    assert check(Source("net.mgn", cured), lambda _: None).fine
