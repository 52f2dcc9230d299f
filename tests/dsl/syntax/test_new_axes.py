"""Subscripts with `None` are told the size of each new axis, by which the program is fine."""

import pytest

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check

PAIRS = "(a: [n, d], b: [m, d]) -> [n, m, d]"
ROWS = "(a: [s], b: [n, s, d]) -> [n, s, d]"
OUTER = "(a: [n], b: [m]) -> [n, m]"
SCALED = "(a: [n], b: [n, d]) -> [n, d]"
PRODUCT = "(a: [n], b: [n, k], e: [k, d]) -> [n, d]"


@pytest.mark.parametrize(
    ("header", "wrong", "right"),
    [
        (PAIRS, "a[:, None, :] - b[None, :, :]", "insert_axis(a, 1, m) - insert_axis(b, 0, n)"),
        (PAIRS, "a[:, None] - b[None]", "insert_axis(a, 1, m) - insert_axis(b, 0, n)"),
        (OUTER, "a[:, None] + b[None, :]", "insert_axis(a, 1, m) + insert_axis(b, 0, n)"),
        (OUTER, "a[:, None] + b", "insert_axis(a, 1, m) + b"),
        (ROWS, "a[:, None] * b", "insert_axis(a, 1, d) * b"),
        (SCALED, "b * a[:, None]", "b * insert_axis(a, 1, d)"),
    ],
)
def test_the_size_is_that_of_the_axis_it_meets(header: str, wrong: str, right: str) -> None:
    text = f"block Net(){header}:\n  return {wrong}\n"
    (report,) = check(Source("net.mgn", text), lambda *_: None).reports
    assert report.help is not None
    assert report.help.code is not None
    assert report.help.code in right
    cured = check(Source("net.mgn", text.replace(wrong, right)), lambda *_: None)
    assert cured.fine, cured.reports


@pytest.mark.parametrize(
    ("header", "written"),
    [
        (PRODUCT, "a[:, None] + b @ e"),  # what it meets is the product
        (PRODUCT, "b @ e + a[:, None]"),
        ("(a: [d], b: [d]) -> [1, d]", "b * a[None, :]"),  # nothing is there
        ("(a: [n]) -> [n, 1]", "c * a[:, None]"),  # a number
    ],
)
def test_without_an_axis_that_it_meets_the_size_is_left_to_the_reader(
    header: str, written: str
) -> None:
    text = f"block Net(c){header}:\n  return {written}\n"
    helps = [each.help for each in check(Source("net.mgn", text), lambda *_: None).reports]
    (cure,) = (each for each in helps if each is not None and "expand(a" in each.text)
    assert cure.code is None
