"""Subscripts with `None` are told the size of each new axis, by which the program is fine."""

import pytest

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check

PAIRS = "(a: [n, d], b: [m, d]) -> [n, m, d]"
ROWS = "(a: [s], b: [n, s, d]) -> [n, s, d]"
OUTER = "(a: [n], b: [m]) -> [n, m]"
SCALED = "(a: [n], b: [n, d]) -> [n, d]"
IMAGES = "(a: [n], b: [n, 1, h, w]) -> [n, 1, h, w]"
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
        (SCALED, "sqrt(a)[:, None] * b", "insert_axis(sqrt(a), 1, d) * b"),
        (SCALED, "b / (a + 1)[:, None]", "b / insert_axis(a + 1, 1, d)"),
        (
            SCALED,
            "b / sum(b + 1, 1)[..., None] + 0 * insert_axis(a, 1, d)",
            "b / insert_axis(sum(b + 1, 1), -1, d) + 0 * insert_axis(a, 1, d)",
        ),
        (
            IMAGES,
            "b * (1 - a)[:, None, None, None]",
            "b * insert_axis(insert_axis(insert_axis(1 - a, 1, 1), 2, h), 3, w)",
        ),
        ("(a: [n]) -> [n, 1]", "a[:, None]", "insert_axis(a, 1, 1)"),
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


def test_the_size_is_that_of_what_the_line_s_name_meets_below() -> None:
    text = "block Net(){header}:\n  clean = b / 8\n  signal = {written}\n  return signal * clean\n"
    wrong = text.format(header=IMAGES, written="sqrt(a)[:, None, None, None]")
    (report,) = check(Source("net.mgn", wrong), lambda *_: None).reports
    assert report.help is not None
    assert report.help.code is not None
    right = text.format(header=IMAGES, written=report.help.code)
    assert check(Source("net.mgn", right), lambda *_: None).fine


def test_one_line_blocks_and_parts_are_told_how_an_axis_is_inserted() -> None:
    one_line = f"block Net(){SCALED} = a[:, None] * b\n"
    part = f"block Net(){SCALED}:\n  return a[1:, None] * b\n"
    helps = [
        each.help
        for text in (one_line, part)
        for each in check(Source("net.mgn", text), lambda *_: None).reports
    ]
    assert [(each.text, each.code) for each in helps if each is not None] == [
        ("a new axis is written with its size", "insert_axis(a, 1, d)"),
        ("a new axis is written with its size: `insert_axis(a, axis, size)`", None),
    ]


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
