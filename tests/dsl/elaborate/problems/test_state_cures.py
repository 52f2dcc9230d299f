"""A scan's state that begins with other axes is told so where it begins."""

import pytest

from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check

CELL = """\
block Cell(hidden)(x: [n, d], h: [n, hidden]) -> [n, hidden]:
  return tanh((x |> a: linear(hidden)) + (h |> b: linear(hidden)))
block Reset(hidden)(h: [n, hidden], x: [n, d]) -> [n, hidden]:
  return tanh((x |> a: linear(hidden)) + (h |> b: linear(hidden)))
"""
NET = """\
block Net(hidden)(x: [n, s, 8]) -> [n, hidden]:
  h = {0}
  scan t in 0..s:
    h = {1}
  return h
model net = Net(16)
"""
APPLIED = "x[:, t] |> cell: Cell(hidden)(h)"
INLINE = "tanh((x[:, t] |> ih: linear(hidden)) + (h |> hh: linear(hidden)))"


def reports(text: str) -> tuple[Report, ...]:
    return check(Source("net.mgn", text), lambda _: None).reports


@pytest.mark.parametrize(
    ("begin", "iteration", "code", "right"),
    [
        ("zeros([hidden])", APPLIED, "E0302", "zeros([n, hidden])"),
        ("ones([1, 1, hidden])", APPLIED, "E0302", "ones([n, hidden])"),
        ("zeros([1, hidden])", APPLIED, "E0308", "zeros([n, hidden])"),
        ("full([hidden], 0.5)", APPLIED, "E0302", "full([n, hidden], 0.5)"),
        ("zeros([hidden])", "h |> cell: Reset(hidden)(x[:, t])", "E0302", "zeros([n, hidden])"),
        ("zeros([hidden])", INLINE, "E0309", "zeros([n, hidden])"),
    ],
)
def test_a_state_begins_with_the_axes_of_an_iteration(
    begin: str, iteration: str, code: str, right: str
) -> None:
    report = next(each for each in reports(CELL + NET.format(begin, iteration)) if each.help)
    assert report.code == code
    assert report.help is not None
    assert report.help.code == f"h = {right}"
    assert report.label is not None
    assert report.label.span.text == begin
    assert not reports(CELL + NET.format(right, iteration))


def test_a_state_that_is_given_has_its_place_in_the_iteration() -> None:
    text = CELL + NET.format("h", APPLIED).replace("  h = h\n", "").replace("8])", "8], h: [16])")
    (report,) = reports(text)
    assert report.code == "E0302"
    assert report.label is not None
    assert report.label.span.text == "cell: Cell(hidden)(h)"
    assert report.help is None


def test_what_gains_an_axis_from_a_value_that_is_computed_is_collected() -> None:
    text = NET.format("sum(x[:, 0], 0)", "insert_axis(h, 0, n)")
    report = next(each for each in reports(text) if each.code == "E0309")
    assert report.help is not None
    assert report.help.code == "y[:, t] = ..."
