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


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("attention(q, q, q, mask=hide)", "given as `bias=`"),
        ("attention(q, q, q, mask=i32(hide))", "bool(i32(hide))"),
        ("q |> Kept(hide)", "say by a comparison"),
    ],
)
def test_floats_are_not_made_true_or_false(call: str, said: str) -> None:
    text = f"""\
block Kept()(q: [n, h, s, e], keep: bool[n, h, s, s]) -> [n, h, s, e] = q

block Seen()(q: [n, h, s, e], hide: [n, h, s, s]) -> [n, h, s, e]:
  return {call}
"""
    (report,) = [each for each in reports(text) if each.code == "E0307"]
    assert report.help is not None
    assert said in (report.help.code or report.help.text)


LABELS = """\
block Lm()(ids: i32[n, s]) -> [n, s, 9] = ids |> table: embedding(9, 4) |> head: linear(9)

train text(ids: i32[batch, s], other: i32[batch, s])
    where s >= 4:
  logits = PART |> lm: Lm
  minimize cross_entropy(logits, GIVEN)
"""


@pytest.mark.parametrize(
    ("part", "given", "code", "said"),
    [
        ("ids", "ids[:, 1:]", "logits[:, :s - 1]", "leave out the rows"),
        ("ids[:, 1:]", "ids[:, 2:]", "logits[:, :s - 2]", "leave out the rows"),
        ("ids[:, :s - 1]", "ids[:, 2:]", None, "the labels are `[:, 1:]` of the sequence"),
        ("ids", "ids[:, :s - 1]", None, "the labels are `[:, 1:]` of the sequence"),
        ("ids", "other[:, 1:]", None, "the position that each label belongs to"),
    ],
)
def test_rows_are_left_out_where_labels_are_the_next_tokens(
    part: str, given: str, code: str | None, said: str
) -> None:
    text = LABELS.replace("PART", part).replace("GIVEN", given)
    (report,) = [each for each in reports(text) if each.code == "E0503"]
    assert report.help is not None
    assert (report.help.code, said in report.help.text) == (code, True)
    if code is not None:
        cured = LABELS.replace("PART", part).replace("(logits, GIVEN", f"({code}, {given}")
        assert not [each for each in reports(cured) if each.code not in ("E0207", "N0004")]


def test_whole_numbers_are_swapped_with_no_other_whole_numbers() -> None:
    head = "block Loss()(p: i32[n, c], y: i32[n]) -> []:\n"
    report = refused(f"{head}  return cross_entropy(p, y)\n")
    assert report.help is not None
    assert (report.help.text, report.help.code) == ("convert it", "f32(p)")
    report = refused(f"{head.replace('y: i32', 'y: ')}  return cross_entropy(p, y)\n")
    assert report.help is not None
    assert report.help.code == "cross_entropy(y, p)"


def test_a_depthwise_convolution_keeps_the_channels() -> None:
    text = (
        "block Net(c)(x: [n, c_in, h, w]) -> [n, c, h, w]:\n"
        "  return x |> a: conv2d(c, 3, pad=1, groups=c_in) |> b: conv2d(c, 1)\n"
    )
    report = refused(text)
    assert report.help is not None
    assert report.help.text.startswith("a depthwise convolution keeps the channels")
    call = "a: conv2d(c_in, 3, pad=1, groups=c_in)"
    assert f"`{call}`" in report.help.text
    cured = text.replace("a: conv2d(c, 3, pad=1, groups=c_in)", call)
    assert not [each for each in reports(cured) if each.code != "E0207"]


def test_an_offered_depthwise_convolution_has_the_arguments_that_were_written() -> None:
    text = (
        "block Net(c, t)(x: [n, c_in, h, w]) -> [n, c, (h - 1) // 2 + 1, (w - 1) // 2 + 1]:\n"
        "  y = x |> a: conv2d(t * c_in, 1)\n"
        "  return y |> b: conv2d(c, 3, 2, pad=1, groups=c, bias=false) |> d: conv2d(c, 1)\n"
    )
    report = refused(text)
    call = "b: conv2d(c_in*t, 3, 2, pad=1, groups=c_in*t, bias=false)"
    assert report.help is not None
    assert f"`{call}`" in report.help.text
    cured = text.replace("b: conv2d(c, 3, 2, pad=1, groups=c, bias=false)", call)
    assert not [each for each in reports(cured) if each.code != "E0207"]


PICKED = "block Pick({0})(x: [v, s, d], ids: i32[{1}]) -> [{2}]:\n  return {3}\n"


@pytest.mark.parametrize(
    ("config", "ids", "result", "wrong", "right"),
    [
        ("", "k", "k, s, d", "gather(ids, x)", "gather(x, ids)"),
        ("", "k", "v, k, d", "gather(ids, x, axis=1)", "gather(x, ids, axis=1)"),
        ("", "", "v, s", "gather(ids, x, 2)", "gather(x, ids, 2)"),
        ("", "v, k", "v, k, d", "gather(ids, x, 1, batch=1)", "gather(x, ids, 1, batch=1)"),
        ("", "k", "k, s, d", "ids |> gather(x)", "gather(x, ids)"),
        ("c", "v", "c, s, d", "scatter_add(x, ids, c)", "scatter_add(ids, x, c)"),
        ("c", "v", "c, s, d", "x |> scatter_add(ids, size=c)", "scatter_add(ids, x, size=c)"),
        ("c", "s", "v, c, d", "scatter_add(x, ids, c, axis=1)", "scatter_add(ids, x, c, axis=1)"),
        ("c", "v", "c, s, d", "scatter_max(x, ids, c, empty=0)", "scatter_max(ids, x, c, empty=0)"),
    ],
)
def test_ids_stand_at_their_place(
    config: str, ids: str, result: str, wrong: str, right: str
) -> None:
    report = refused(PICKED.format(config, ids, result, wrong))
    assert report.code == "E0320"
    assert report.help is not None
    assert report.help.code == right
    assert ("in place of" in report.help.text) == ("|>" in wrong)
    assert not reports(PICKED.format(config, ids, result, right))


def test_ids_behind_a_longer_pipe_are_told_in_words() -> None:
    report = refused(PICKED.format("c", "v", "c, s, d", "x |> relu |> scatter_add(ids, c)"))
    assert report.help is not None
    assert report.help.code is None
    assert "the ids come first" in report.help.text


def test_floats_for_ids_are_converted() -> None:
    report = refused(PICKED.format("", "k", "k, s, d", "gather(x, f32(ids))"))
    assert report.help is not None
    assert report.help.code == "i32(f32(ids))"


def test_a_mask_is_no_ids() -> None:
    report = refused(PICKED.format("", "k", "k, s, d", "gather(x, ids == 1)"))
    assert report.help is not None
    assert report.help.code is None
    assert "`where`" in report.help.text


@pytest.mark.parametrize("line", ["return {0}", "y = relu({0})\n  return y"])
def test_a_result_for_each_row_picks_one_entry_of_each(line: str) -> None:
    text = "block G()(x: [n, d], ids: i32[n]) -> [n]:\n  {0}\n"
    report = refused(text.format(line.format("gather(x, ids, axis=1)")))
    assert report.code == "E0303"
    assert report.help is not None
    assert report.help.code == "gather(x, insert_axis(ids, 1, 1), axis=1, batch=1)[:, 0]"
    assert not reports(text.format(line.format(report.help.code)))
