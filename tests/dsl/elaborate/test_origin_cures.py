"""The first cure of shapes that differ is read off the call that made the size; it is proved."""

import pytest

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.pipeline import check

HEADER = "block Net(d)(x: [n, c, h, w], t: [n, s, d], k: [n, s, e])"
CASES = [
    # header of the results, lines, code of the cure, what it stands in place of
    ("[n, d]", "y = zeros([32, d])\n  return mean(t, 1) + y", "zeros([n, d])", "zeros([32, d])"),
    (
        "[n, s + 1, d]",
        (
            "param cls: [1, d] = zeros\n  param pos: [s, d] = zeros\n"
            "  return concat(expand(cls, [1, d] -> [n, 1, d]), t, axis=1) + pos"
        ),
        "param pos: [s + 1, d] = zeros",
        "param pos: [s, d] = zeros",
    ),
    (
        "[n, c, h, w]",
        "y = x |> a: conv2d(c, 3) |> relu\n  return x + y",
        "a: conv2d(c, 3, pad=1)",
        "a: conv2d(c, 3)",
    ),
    (
        "[n, c, h, w]",
        "y = x |> max_pool(5, 1)\n  return x * y",
        "max_pool(5, 1, pad=2)",
        "max_pool(5, 1)",
    ),
    (
        "[n, d, h, w]",
        "y = x |> a: conv2d(d, 3, pad=1) |> relu\n  return x + y",
        "x |> shortcut: conv2d(d, 1)",
        "x + y",
    ),
    (
        "[n, s, e]",
        "y = k |> a: linear(d) |> gelu\n  return k + y",
        "y |> out: linear(e)",
        "k + y",
    ),
    ("[n, 1, s, d]", "return t", "rearrange(t, [n, s, d] -> [n, 1, s, d])", "t"),
    (
        "[n, s, d + e]",
        "return concat(t, k, axis=1)",
        "concat(t, k, axis=2)",
        "concat(t, k, axis=1)",
    ),
    (
        "[n, s, d]",
        "m = 0 < mean(t, 2)\n  return where(m, t, 0)",
        "expand(m, [n, s] -> [n, s, d])",
        "m",
    ),
    ("[n, d, h, w]", "return x |> a: conv2d(d, 3)", "a: conv2d(d, 3, pad=1)", "a: conv2d(d, 3)"),
    ("[n, d]", "return t |> mean(2)", "|> mean(1)", "|> mean(2)"),
    ("[n, d]", "return t", "mean(t, 1)", "t"),
    ("[n, d]", "return x |> a: conv2d(d, 1)", "|> mean(2, 3)", ""),
    ("[n, d, s]", "return k |> a: linear(d)", "|> rearrange([n, s, d] -> [n, d, s])", ""),
    (
        "[n, 10]",
        "y = x |> a: conv2d(d, 1) |> resize(4, 4)\n  return y |> fc: linear(10)",
        "y |> rearrange([n, d, 4, 4] -> [n, d * 4 * 4]) |> fc: linear(10)",
        "y |> fc: linear(10)",
    ),
]


def written(result: str, body: str) -> str:
    return f"{HEADER} -> {result}\n    where h >= 5, w >= 5:\n  {body}\n"


@pytest.mark.parametrize(("result", "body", "code", "replaced"), CASES)
def test_the_cure_is_proved(result: str, body: str, code: str, replaced: str) -> None:
    found = check(Source("net.mgn", written(result, body)), nothing_to_import).reports
    (report,) = [each for each in found if each.code != "E0207"]
    assert report.help is not None
    assert (report.help.code, report.help.edits) == (code, ())
    head, last = body.rpartition(replaced)[::2] if replaced else (body + " ", "")
    if code.startswith("x |> shortcut"):
        code = f"({code}) + y"
    if code.startswith("y |> out"):
        code = f"k + ({code})"
    if code.startswith("expand(m"):
        head, code, last = body.replace("(m,", f"({code},"), "", ""
    cured = written(result, f"{head}{code}{last}")
    rest = list(check(Source("net.mgn", cured), nothing_to_import).reports)
    assert not [render(each) for each in rest if each.code != "E0207"]


def nothing_to_import(_words: tuple[str, ...]) -> None:
    return None


def test_a_reduction_over_the_batch_is_one_over_the_classes() -> None:
    text = """\
train fit(x: [batch, 8], label: i32[batch]):
  logits = x |> fc: linear(10)
  minimize cross_entropy(logits, label)
  metric accuracy = mean(f32(argmax(logits, 0) == label))
"""
    found = check(Source("net.mgn", text), nothing_to_import).reports
    (report,) = [each for each in found if each.code == "E0301"]
    assert report.help is not None
    assert report.help.code == "argmax(logits, 1)"
