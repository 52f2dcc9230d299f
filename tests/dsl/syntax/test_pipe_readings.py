"""Left of a pipe, what can be read in two ways is refused, with both readings."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.syntax.formatter.formatter import find_comments, format_module
from tests.dsl.syntax.trees import plain, read, tree

HEADER = "block B(c)(x: [n, d]) -> [n, d]:\n  return "

REFUSED = [
    ("x + x |> ln_1: layer_norm |> attn: Attn(8)",
        "x + (x |> ln_1: layer_norm |> attn: Attn(8))",
        "(x + x) |> ln_1: layer_norm |> attn: Attn(8)"),
    ("x - y |> f", "x - (y |> f)", "(x - y) |> f"),
    ("a + b - c * d |> f", "a + b - (c * d |> f)", "(a + b - c * d) |> f"),
    ("-x |> f", "-(x |> f)", "(-x) |> f"),
    ("-x * y |> f", "-(x * y |> f)", "(-x * y) |> f"),
    ("a * b + -x @ y |> f", "a * b + -(x @ y |> f)", "(a * b + -x @ y) |> f"),
    ("a < b |> f", "a < (b |> f)", "(a < b) |> f"),
    ("a == b + c |> f", "a == b + (c |> f)", "(a == b + c) |> f"),
    ("a and b |> f", "a and (b |> f)", "(a and b) |> f"),
    ("not a |> f", "not (a |> f)", "(not a) |> f"),
    ("a or not b |> f", "a or not (b |> f)", "(a or not b) |> f"),
    ("(a) + (b + c) |> f", "(a) + ((b + c) |> f)", "((a) + (b + c)) |> f"),
    ("(a + b) - (c) |> f |> g", "(a + b) - ((c) |> f |> g)", "((a + b) - (c)) |> f |> g"),
    ("x + y ** 2 |> f", "x + (y ** 2 |> f)", "(x + y ** 2) |> f"),
]  # fmt: skip
"""Refused code, and its readings: of the last operand, and of all."""

ACCEPTED = [
    "image / 16 |> conv: f", "a * b |> f", "q @ k |> f", "a // b % c |> f", "x ** 2 |> f",
    "f(x) |> g", "x[0, 1 - 1] |> g", "(x + x) |> f |> g", "x + (x |> f |> g)", "(-x) |> f",
    "(-x) * y |> f", "(a < b) |> f", "(not a) |> f", "f(x + y, a < b) |> g", "((x + y)) |> f",
    "x * (a + b) |> f", "(a + b) * x |> f", "x |> f if a + b == c else x", "2 ** -x |> f",
    "x if c else y |> f", "(x |> f) + (y |> g)", "x |> f(a + b)(c - d)", "[a + b, c] |> f",
]  # fmt: skip


def reports_of(expression: str) -> tuple[Report, ...]:
    return read(f"{HEADER}{expression}\n")[1]


@pytest.mark.parametrize(("expression", "part", "whole"), REFUSED)
def test_two_readings_are_shown_and_no_edit_is_made(expression: str, part: str, whole: str) -> None:
    (report,) = reports_of(expression)
    assert report.code == "E0139"
    assert [each.text for each in report.remarks] == [part, whole]
    assert report.help is not None
    assert report.help.edits == ()


@pytest.mark.parametrize("expression", [reading for _, *both in REFUSED for reading in both])
def test_each_reading_is_accepted_and_stays_as_it_is(expression: str) -> None:
    module = tree(f"{HEADER}{expression}\n")
    text = format_module(module, find_comments(module.source))
    assert plain(tree(text)) == plain(module)


@pytest.mark.parametrize("expression", ACCEPTED)
def test_what_has_one_reading_is_accepted_and_stays_as_it_is(expression: str) -> None:
    module = tree(f"{HEADER}{expression}\n")
    text = format_module(module, find_comments(module.source))
    assert plain(tree(text)) == plain(module)


def test_the_readings_are_two_programs() -> None:
    for _, part, whole in REFUSED:
        assert plain(tree(f"{HEADER}{part}\n")) != plain(tree(f"{HEADER}{whole}\n"))


def test_all_pipes_of_a_block_are_told_at_once_and_the_rest_of_the_file_is_checked() -> None:
    text = """\
block Block(heads)(x: [n, s, d]) -> [n, s, d]
    where d % heads == 0:
  x = x + x |> ln_1: layer_norm |> attn: Attn(heads)
  if heads > 1:
    x = x + x |> ln_2: layer_norm
           |> mlp: linear(d)   # a comment: x + x
  return x

block Head()(x: [n, s, d]) -> [n, s, 10]:
  return x |> fc: linear(11)

model net = Block(heads=8)
"""
    reports = pipeline.check(Source("net.mgn", text), lambda _: None).reports
    found = [(each.code, each.label.span.line) for each in reports if each.label]
    assert found == [("E0139", 3), ("E0139", 5), ("E0303", 10)]
    assert reports[1].remarks[0].text == "x + (x |> ln_2: layer_norm |> mlp: linear(d))"


def test_a_residual_block_without_brackets_never_passes() -> None:
    """The shapes of both readings are the same, so that no proof can tell them apart."""
    text = """\
block Block()(x: [n, d]) -> [n, d]:
  x = x + x |> ln: layer_norm |> fc: linear(d)
  return x
"""
    for written, codes in (
        (text, ["E0139"]),
        (text.replace("x + x |> ln: layer_norm |> fc: linear(d)",
            "x + (x |> ln: layer_norm |> fc: linear(d))"), []),
        (text.replace("x + x", "(x + x)"), []),
    ):  # fmt: skip
        reports = pipeline.check(Source("net.mgn", written), lambda _: None).reports
        assert [each.code for each in reports] == codes
