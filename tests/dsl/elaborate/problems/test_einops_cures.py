"""A pattern that is written as a text of einops is told the form that it has here."""

import pytest

from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check

NET = """\
block Net(heads)(x: [n, s, d]) -> [{0}]
    where d % heads == 0, d % 8 == 0:
{1}"""


def reports(text: str) -> tuple[Report, ...]:
    return check(Source("net.mgn", text), lambda _: None).reports


@pytest.mark.parametrize(
    ("result", "wrong", "first", "right"),
    [
        ("n, d, s", 'rearrange(x, "n s d -> n d s")', "", "rearrange(x, [n, s, d] -> [n, d, s])"),
        (
            "n, s * d", 'rearrange(x, "n s d -> n (s d)")', "",
            "rearrange(x, [n, s, d] -> [n, s * d])",
        ),
        (
            "n, heads, s, d // heads", 'rearrange(x, "n s (heads e) -> n heads s e", heads=heads)',
            "", "rearrange(x, [n, s, heads * e] -> [n, heads, s, e])",
        ),
        (
            "n, 8, s, d // 8", 'rearrange(x, "n s (k e) -> n k s e", k=8)',
            "k = 8", "rearrange(x, [n, s, k * e] -> [n, k, s, e])",
        ),
        (
            "n, 8, s, d // 8", 'rearrange(x, "n s (k e) -> n k s e", k=4 * max(2, 1))',
            "k = 4 * max(2, 1)", "rearrange(x, [n, s, k * e] -> [n, k, s, e])",
        ),
        (
            "n, s, 3, d", 'repeat(x, "n s d -> n s k d", k=3)',
            "k = 3", "expand(x, [n, s, d] -> [n, s, k, d])",
        ),
        (
            "n, s * d", 'x |> rearrange("n s d -> n (s d)")', "",
            "rearrange([n, s, d] -> [n, s * d])",
        ),
    ],
)  # fmt: skip
def test_a_text_is_a_pattern(result: str, wrong: str, first: str, right: str) -> None:
    (report,) = reports(NET.format(result, f"  return {wrong}\n"))
    assert report.code == "E0202"
    assert report.help is not None
    assert report.help.code == "\n".join(filter(None, [first, right]))
    begin = "x |> " if wrong.startswith("x |>") else ""
    body = "".join(f"  {line}\n" for line in filter(None, [first, f"return {begin}{right}"]))
    assert not reports(NET.format(result, body))


@pytest.mark.parametrize("wrong", ["3", '"n s (d"', '"n s ( d -> n d s"'])
def test_what_is_no_such_text_is_told_the_form(wrong: str) -> None:
    (report,) = reports(NET.format("n, d, s", f"  return rearrange(x, {wrong})\n"))
    assert report.help is not None
    assert report.help.text == "its form is"
    assert report.help.code == "rearrange(x, [a, b * c] -> [c, a, b])"
