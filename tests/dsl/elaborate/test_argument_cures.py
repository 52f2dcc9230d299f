"""The first cure of an argument that does not fit is right: applied, the program is proved."""

import pytest

from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.pipeline import check

CROSS = """\
block Cross(heads)(x: [n, t, d], memory: [n, s, d]) -> [n, heads, t, d // heads]
    where d % heads == 0:
  q = x |> q: linear(d) |> rearrange([n, t, heads * e] -> [n, heads, t, e])
  k = memory |> k: linear(d) |> rearrange([n, s, heads * e] -> [n, heads, s, e])
  v = memory |> v: linear(d) |> rearrange([n, s, heads * e] -> [n, heads, s, e])
  return CALL
"""


def nothing_to_import(_words: tuple[str, ...]) -> None:
    return None


def reports(text: str) -> tuple[Report, ...]:
    return check(Source("net.mgn", text), nothing_to_import).reports


def refused(text: str) -> Report:
    (report,) = reports(text)
    assert report.help is not None
    assert not report.help.edits
    return report


def test_two_sequences_have_no_causal_order() -> None:
    report = refused(CROSS.replace("CALL", "attention(q, k, v, causal=true)"))
    assert report.code == "E0311"
    assert report.help is not None
    assert "leave out `causal`" in report.help.text
    assert "where" not in report.help.text
    assert not reports(CROSS.replace("CALL", "attention(q, k, v)"))


def test_a_position_among_the_keys_is_a_fact_still() -> None:
    text = (
        "block Cached()(q: [n, heads, s, d], k: [n, heads, t, d], p: i32[]) -> [n, heads, s, d]\n"
        "    where 0 <= p:\n  return attention(q, k, k, causal=true, offset=p)\n"
    )
    (report,) = reports(text)
    assert report.help is not None
    assert "p + s <= t" in render(report)


@pytest.mark.parametrize("order", ["k, v, q", "v, k, q", "k, q, v"])
def test_arguments_that_are_called_as_the_inputs(order: str) -> None:
    report = refused(CROSS.replace("CALL", f"attention({order})"))
    assert report.help is not None
    assert report.help.code == "attention(q, k, v)"


@pytest.mark.parametrize(
    ("shape", "code"),
    [
        ("n, s", "insert_axis(insert_axis(mask, 1, h), 2, s)"),
        ("n, s, s", "expand(mask, [n, s, s] -> [n, h, s, s])"),
        ("s, s", "expand(mask, [s, s] -> [n, h, s, s])"),
    ],
)
def test_a_mask_of_fewer_axes(shape: str, code: str) -> None:
    text = (
        f"block Seen()(q: [n, h, s, e], mask: bool[{shape}]) -> [n, h, s, e]:\n"
        "  return attention(q, q, q, mask=mask)\n"
    )
    report = refused(text)
    assert report.help is not None
    assert report.help.code == code
    assert not reports(text.replace("mask=mask", f"mask={code}"))


@pytest.mark.parametrize(
    ("layer", "near"),
    [("group_norm(32)", "the nearest `groups` is 24"), ("group_norm(5)", "`groups` is 6")],
)
def test_what_divides_the_channels(layer: str, near: str) -> None:
    text = f"block Net()(x: [n, 48, h, w]) -> [n, 48, h, w]:\n  return x |> norm: {layer}\n"
    report = refused(text)
    assert report.help is not None
    assert near in report.help.text
    assert "1, 2, 3, 4, 6, 8, 12, 16, 24 and 48" in report.help.text


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("return x |> table: embedding(9, 4)", "i32(x)"),
        ("return mean(x) + bce(x, y) + zeros([n, s, 4])", "f32(y)"),
        ("return bce(x + 1, target=y) + zeros([n, s, 4])", "f32(y)"),
    ],
)
def test_a_conversion_names_what_is_converted(line: str, code: str) -> None:
    text = f"block Net()(x: [n, s], y: i32[n, s]) -> [n, s, 4]:\n  {line}\n"
    (report,) = [each for each in reports(text) if each.code != "E0207"]
    assert report.help is not None
    assert (report.code, report.help.code) == ("E0307", code)


def test_a_batch_that_is_written_into_a_pattern() -> None:
    text = (
        "block Net()(x: [n, 3, 8]) -> [n, 24]:\n  return x |> rearrange([64, 3, 8] -> [64, 24])\n"
    )
    report = refused(text)
    assert report.help is not None
    assert report.help.code == "[n, 3, 8] -> [n, 24]"
