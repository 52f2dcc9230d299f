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
        "[n, s, d]",
        "y = t |> a: linear(4 * d) |> gelu\n  return t + y",
        "y |> out: linear(d)",
        "t + y",
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
    ("[n, d, s]", "return k |> a: linear(d)", "|> rearrange([n, s, d] -> [n, d, s])", ""),
    (
        "[n, 10]",
        (
            "y = x |> a: conv2d(d, 1) |> resize(4, 4)\n"
            "  return y |> b: linear(9) |> relu |> fc: linear(10)"
        ),
        (
            "y |> rearrange([n, d, 4, 4] -> [n, d * 4 * 4])"
            " |> b: linear(9) |> relu |> fc: linear(10)"
        ),
        "y |> b: linear(9) |> relu |> fc: linear(10)",
    ),
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
        code = f"t + ({code})"
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


WORDS = [
    # header of the results, lines, part of the words
    (
        "[n, s, d]",
        (
            "q = t |> a: linear(4 * d) |> rearrange([n, s, 4 * d] -> [n, 4, s, d])\n"
            "  return attention(q, q, q) |> out: linear(d)"
        ),
        "reduce `4`, or if it was split off by a\n`rearrange`, join it again;\n`linear` acts",
    ),
    (
        "[n, s, d]",
        (
            "q = t |> a: linear(4 * d) |> rearrange([n, s, 4 * d] -> [n, 4, s, d])\n"
            "  return q |> relu |> out: linear(d)"
        ),
        "`linear` acts on the last axis alone: join `4` before it",
    ),
    (
        "[n, s, 8]",
        ("q = t |> a: linear(8) |> rearrange([n, s, 2 * g] -> [n, 2, s, g])\n  return relu(q)"),
        "join `2` and `4` again, by a `rearrange`",
    ),
    (
        "[n, 10]",
        (
            "y = x |> a: conv2d(d, 1) |> resize(4, 4) |> b: linear(9) |> relu\n"
            "  return y |> fc: linear(10)"
        ),
        "`rearrange([n, d, 4, 4] -> [n, d * 4 * 4])` before `b: linear(9)`",
    ),
    ("[n, 10]", "return x |> fc: linear(10)", "reduce the others before it, or join those"),
    (
        "[n, c, h, w]",
        "y = x |> a: linear(d)\n  return x + y",
        "axis 3 of `x` is w, and `a: linear(d)` takes its channels from there",
    ),
    ("[n, d]", "return x |> a: conv2d(d, 1)", "`h` (axis 2) and `w` (axis 3).\n`mean(2, 3)`"),
    (
        "[n, s, d]",
        "param pos: [64, d] = zeros\n  return t + pos",
        "`pos[:s]`,\nwith `where s <= 64`",
    ),
    ("[n, n]", "y = mean(t, 1)\n  z = y @ y\n  return z", "row by row it is `sum(y * y, 1)`"),
]


@pytest.mark.parametrize(("result", "body", "said"), WORDS)
def test_what_is_not_sure_is_said_in_words(result: str, body: str, said: str) -> None:
    found = check(Source("net.mgn", written(result, body)), nothing_to_import).reports
    report = next(each for each in found if each.code in ("E0301", "E0303", "E0320"))
    assert report.help is not None
    assert (report.help.code, said in report.help.text) == (None, True), report.help


@pytest.mark.parametrize(
    ("result", "code"),
    [("[n]", "sum(y * z, 1)"), ("[n, n]", "y @ rearrange(z, [n, d] -> [d, n])")],
)
def test_a_product_is_read_by_the_result_that_is_declared(result: str, code: str) -> None:
    text = f"block Score()(y: [n, d], z: [n, d]) -> {result}:\n  return y @ z\n"
    (report,) = check(Source("net.mgn", text), nothing_to_import).reports
    assert report.help is not None
    assert report.help.code == code
    cured = text.replace("y @ z", code)
    assert not check(Source("net.mgn", cured), nothing_to_import).reports


@pytest.mark.parametrize(
    ("layer", "place", "axis"),
    [("linear(4)", 1, "the last axis"), ("conv1d(4, 3, pad=1)", 2, "axis 1")],
)
def test_a_layer_that_counts_the_data_says_which_axis_it_takes(
    layer: str, place: int, axis: str
) -> None:
    text = (
        "block Net()(x: [n, t, w]) -> [n, 4]:\n"
        f"  return x |> a: {layer} |> mean({place})\n\nmodel net = Net()\n"
    )
    found = check(Source("net.mgn", text), nothing_to_import).reports
    report = next(each for each in found if each.code == "E0206")
    assert report.help is not None
    assert f"takes its channels from {axis}:" in report.help.text
    assert "fix the size in the configuration" in report.help.text
