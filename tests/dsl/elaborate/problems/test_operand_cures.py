"""Cures of operands of another kind: whoever follows them has a program that is fine."""

import pytest

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check

UNUSED = "E0207"
"""The code of inputs that nothing reads."""
PROGRAM = """\
block Net({parameters})(x: [n, d], y: [n, d], i: i32[n, d], p: bool[n, d]):
  return {value}
"""


def first(program: str) -> tuple[str, str, str | None]:
    """The code, the headline and the code of the help of the first problem; empty of none."""
    problems = check(Source("net.mgn", program), lambda _: None).problems
    reports = [each.report() for each in problems if each.code != UNUSED]
    if not reports:
        return "", "", None
    report = reports[0]
    return report.code, report.headline, report.help.code if report.help else None


def of_value(value: str) -> tuple[str, str, str | None]:
    return first(PROGRAM.format(parameters="", value=value))


@pytest.mark.parametrize(
    ("value", "right"),
    [
        ("max(x, y)", "maximum(x, y)"),
        ("min(x + y, x)", "minimum(x + y, x)"),
        ("max(x, 0.0)", "maximum(x, 0.0)"),
        ("where(i, x, y)", "where(i != 0, x, y)"),
        ("where(x * y, x, 0.0)", "where((x * y) != 0, x, 0.0)"),
    ],
)
def test_a_function_is_given_its_form(value: str, right: str) -> None:
    code, _, cure = of_value(value)
    assert (code, cure) == ("E0203", right)
    assert of_value(right) == ("", "", None)


@pytest.mark.parametrize(
    ("value", "said", "right"),
    [
        ("x and y", "`and` takes bool, not f32", "x != 0 and y != 0"),
        ("p or i", "`or` takes bool, not i32", "p or i != 0"),
        ("(x + y) and p", "`and` takes bool, not f32", "(x + y) != 0 and p"),
        ("not x", "`not` takes bool, not f32", "x == 0"),
    ],
)
def test_truth_of_numbers_is_a_comparison(value: str, said: str, right: str) -> None:
    """The message named `where`, by which they are computed."""
    assert of_value(value) == ("E0320", said, right)
    assert of_value(right) == ("", "", None)


def test_halves_that_round_differently_are_of_even_sizes() -> None:
    program = """\
block Down()(x: [n, c, h, w]) -> [n, c, h//2, w//2]{facts}:
  return x |> max_pool(3, stride=2, pad=1)
"""
    code, _, cure = first(program.format(facts=""))
    assert (code, cure) == ("E0303", "where h % 2 == 0, w % 2 == 0")
    assert first(program.format(facts=f"\n    {cure}")) == ("", "", None)


def test_features_are_no_pictures() -> None:
    program = """\
block Net()(x: {type}):
  return x |> conv: conv2d(8, 3, pad=1)
"""
    cut = "rearrange(x, [n, 28 * 28] -> [n, 1, 28, 28])"
    assert first(program.format(type="[n, 784]"))[::2] == ("E0302", cut)
    fine = program.format(type="[n, 784]").replace("x |>", f"{cut} |>")
    assert first(fine) == ("", "", None)
    colour = "rearrange(x, [n, 3 * 32 * 32] -> [n, 3, 32, 32])"
    assert first(program.format(type="[n, 3072]"))[::2] == ("E0302", colour)
    declared = first(program.format(type="[n, d]"))
    assert declared[::2] == ("E0302", "x: [n, c, h, w]")
    assert first(program.format(type="[n, c, h, w]")) == ("", "", None)


BLOCKS = """\
block Mlp(act=gelu)(x: [n, d]) -> [n, d]:
  return x |> {label}act

block Net()(x: [n, 8]) -> [n, 8]:
  return x |> mlp: Mlp(act={given})
"""


def test_a_block_that_does_not_fit_is_given_its_form_or_a_label() -> None:
    assert first(BLOCKS.format(label="", given="layer_norm"))[::2] == ("E0221", "|> act: act")
    assert first(BLOCKS.format(label="act: ", given="layer_norm")) == ("", "", None)
    form = "max_pool(k, stride=k, pad=0)"
    assert first(BLOCKS.format(label="", given="max_pool"))[::2] == ("E0221", form)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            "block Net()(x: [n, d]) -> [n, d]:\n  minimize mean(x)\n  return x\n",
            "move it into a `train` that applies this block",
        ),
        (
            "train fit(x: [batch, 4]):\n  y = x |> fc: linear(1)\n  minimize mean(y)\n  return y\n",
            "leave it out: a `train` gives no results, and its metrics are shown",
        ),
    ],
)
def test_a_statement_in_the_wrong_declaration_is_told_where_it_belongs(
    program: str, said: str
) -> None:
    problem, *_ = check(Source("net.mgn", program), lambda _: None).problems
    report = problem.report()
    assert (report.code, report.help and report.help.text) == ("E0124", said)
