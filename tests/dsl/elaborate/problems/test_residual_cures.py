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


STRIDED = """\
block Basic(c, stride)(x: [n, {0}, h, w])
    -> [n, c, (h - 1) // stride + 1, (w - 1) // stride + 1]:
  y = x |> a: conv2d(c, 3, stride, pad=1) |> relu |> b: conv2d(c, 3, pad=1)
{1}  return relu(x + y)
block Net()(image: [n, 16, 32, 32]) -> [n, 32, 16, 16]:
  return image |> a: Basic(16, 1) |> b: Basic(32, 2)
model net = Net()
"""


@pytest.mark.parametrize(
    ("channels", "condition"),
    [("k", "stride != 1 or k != c"), ("c", "stride != 1"), ("16", "stride != 1 or 16 != c")],
)
def test_a_stride_with_a_name_has_its_shortcut_only_where_it_is_needed(
    channels: str, condition: str
) -> None:
    blocks = STRIDED.partition("block Net")[0]
    cure = first_help(blocks.format(channels, ""))
    layer = "x = x |> shortcut: conv2d(c, 1, stride=stride)"
    expected = f"if {condition}:\n  {layer}"
    assert cure.code == expected
    lines = "".join(f"  {line}\n" for line in expected.splitlines())
    assert check(Source("net.mgn", blocks.format(channels, lines)), lambda _: None).fine
    if channels == "k":
        whole = STRIDED.format(channels, lines)
        assert check(Source("net.mgn", whole), lambda _: None).fine


def test_a_shortcut_beside_layers_of_its_own_line_stays_in_the_line() -> None:
    text = STRIDED.format("k", "").replace("  y = x |> a", "  return relu(x + (x |> a")
    text = text.replace("pad=1)\n  return relu(x + y)", "pad=1)))").partition("block Net")[0]
    cure = first_help(text)
    assert cure.code == "x |> shortcut: conv2d(c, 1, stride=stride)"
    cured = text.replace("relu(x +", f"relu(({cure.code}) +")
    assert check(Source("net.mgn", cured), lambda _: None).fine
