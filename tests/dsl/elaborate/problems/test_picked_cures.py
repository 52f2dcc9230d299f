"""First cures of entries that ids pick, of tensors of other ranks, parts, widths and results."""

import pytest

from tests.dsl.elaborate.problems.cures import errors, follow

DQN = "block Q()(q: [n, a], action: i32[n]) -> [n]:\n  return q[:, action]\n"
NLL = "block Loss()(p: [n, c], y: i32[n]) -> []:\n  return -mean(log(softmax(p))[y])\n"
LAST = "block Last()(x: [n, s, d], lengths: i32[n]) -> [n, d]:\n  return x[:, lengths - 1]\n"
MASK = "block Mask()(_x: [n, s, d], lengths: i32[n]) -> bool[n, s]:\n  return iota(s) < lengths\n"
ROWS = """\
block Pos(limit)(x: [n, s, d]) -> [n, s, d]
    where s <= limit:
  param table: [limit, d] = normal(0.02)
  return x + table[:limit]
"""
JOIN = """\
block Seq()(y: [n, t, d], h: [n, d]) -> [n, t, 2 * d]:
  return concat(y, h, axis=2)
"""
PART = """\
block Values(d)(x: [n, s, d]) -> [n, s, d]:
  qkv = x |> qkv: linear(3 * d)
  return qkv[:, :, 2 * d:4 * d]
"""
CODES = """\
block Vq(k)(x: [n, s, d]) -> [n, s, k]:
  param codes: [k, 64] = normal(1)
  return x @ rearrange(codes, [k, e] -> [e, k])
"""
WIDTH = "block Ae()(x: [n, 784]) -> [n, 784]:\n  return x |> a: linear(128) |> b: linear(728)\n"
WHOLE = "block Sum()(x: [n, d]) -> [n, d]:\n  y = 2 * x\n  return mean(y, 1)\n"
FAR = """\
block Triplet()(a: [n, d], p: [n, d], q: [n, d]) -> [n]:
  return sum((a - p) ** 2, 1) - sum((a - q) ** 2, 0)
"""
SHUFFLE = """\
block Parts(c)(x: [n, 3, h, w]) -> [n, c, 4, h, w]:
  return x |> a: conv2d(c, 3, pad=1) |> rearrange([n, c * 4, h, w] -> [n, c, 4, h, w])
"""
WINDOW = """\
block Depth(k)(x: [n, c, h, w]) -> [n, c, h, w]:
  return x |> dw: conv2d(c, k, pad=k // 2, groups=c)
"""
TWO = "block Two(d)(x: [n, 4]) -> [n, d], [n, d]:\n  h = x |> a: linear(d)\n  return h\n"


def picked(table: str, ids: str) -> str:
    return f"gather({table}, insert_axis({ids}, 1, 1), axis=1, batch=1)[:, 0]"


CURES = [
    (DQN, "E0203", picked("q", "action"), "q[:, action]"),
    (NLL, "E0203", picked("log(softmax(p))", "y"), "log(softmax(p))[y]"),
    (LAST, "E0203", picked("x", "lengths - 1"), "x[:, lengths - 1]"),
    (
        MASK, "E0301", "expand(iota(s), [s] -> [n, s]) < expand(lengths, [n] -> [n, s])",
        "iota(s) < lengths",
    ),
    (ROWS, "E0301", "table[:s]", "table[:limit]"),
    (
        JOIN, "E0320", "concat(y, expand(h, [n, d] -> [n, t, d]), axis=2)", "concat(y, h, axis=2)",
    ),
    (PART, "E0305", "qkv[:, :, 2 * d:3 * d]", "qkv[:, :, 2 * d:4 * d]"),
    (CODES, "E0320", "param codes: [k, d] = normal(1)", "param codes: [k, 64] = normal(1)"),
    (WIDTH, "E0303", "b: linear(784)", "b: linear(728)"),
    (WHOLE, "E0303", "y", "mean(y, 1)"),
    (FAR, "E0301", "sum((a - q) ** 2, 1)", "sum((a - q) ** 2, 0)"),
    (SHUFFLE, "E0304", "a: conv2d(4 * c, 3, pad=1)", "a: conv2d(c, 3, pad=1)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "cure", "old"), CURES)
def test_the_first_cure_is_right(text: str, code: str, cure: str, old: str) -> None:
    follow(text, code, cure, {old: cure})


def test_ids_that_move_rows_gather_along_their_axis() -> None:
    text = "block Mix()(x: [n, d], order: i32[n]) -> [n, d]:\n  return x[order]\n"
    follow(text, "E0203", "gather(x, order, axis=0)", {"x[order]": "gather(x, order, axis=0)"})


def test_an_even_window_needs_the_fact_that_it_is_odd() -> None:
    first = errors(WINDOW)[0]
    assert first.help is not None
    assert (first.code, first.help.code) == ("E0303", "where k % 2 == 1")


def test_a_missing_result_is_left_to_the_author() -> None:
    first = errors(TWO)[0]
    assert first.help is not None
    assert (first.code, first.help.code) == ("E0214", "return h, ...")
    assert "declare `-> [n, d]`" in first.help.text


@pytest.mark.parametrize(
    ("axes", "result", "code"),
    [
        ("n, d", "[n]", picked("x", "ids")),
        ("n, d", "[n, d]", "gather(x, ids, axis=0)"),
        ("k, d", "[n, d]", "gather(x, ids, axis=0)"),
        ("n, s, d", "[n, s, d]", "gather(x, ids, axis=0)"),
    ],
)
def test_the_declared_rank_decides_between_entries_and_rows(
    axes: str, result: str, code: str
) -> None:
    text = f"block Take()(x: [{axes}], ids: i32[n]) -> {result}:\n  return x[ids]\n"
    follow(text, "E0203", code, {"x[ids]": code})


@pytest.mark.parametrize(("axes", "other"), [("n, d", "gather(x, ids, axis=0)"), ("n, s, d", "]")])
def test_where_nothing_decides_both_readings_are_shown(axes: str, other: str) -> None:
    text = f"block Take()(x: [{axes}], ids: i32[n]) -> [{axes}]:\n  y = x[ids]\n  return 2 * y\n"
    cure = errors(text)[0].help
    assert cure is not None
    assert other in cure.text
    assert {"axis=0" in f"{each}" for each in (cure.text, cure.code)} == {True, False}


def test_a_name_that_one_side_of_a_choice_binds_is_said_so() -> None:
    text = """\
block Net(deep: bool)(x: [n, 4]) -> [n, 2]:
  if deep:
    y = x |> a: linear(8) |> relu
  return y |> b: linear(2)
"""
    first = errors(text)[0]
    assert first.help is not None
    assert (first.code, first.help.code) == ("E0201", "y = x")
    assert "has no value on this path" in first.headline
    assert errors(text.replace("  return y", "  else:\n    y = x\n  return y")) == []


def test_a_name_of_a_training_that_was_refused_is_near() -> None:
    text = """\
train fit(x: [n, 4], y: i32[n, 1]):
  loss = cross_entropy(x, y)
  minimize los
"""
    cure = errors(text)[1].help
    assert cure is not None
    assert "`loss`" in cure.text


def test_ids_of_every_entry_are_gathered_along_an_axis() -> None:
    """There is no axis left of which they could pick an entry."""
    text = "block All()(x: [n, m], ids: i32[n, m]) -> [n, m, m]:\n  return x[ids]\n"
    cure = errors(text)[0].help
    assert cure is not None
    assert (cure.text, cure.code) == (
        "entries are gathered along an axis",
        "gather(x, ids, axis=0)",
    )


def test_one_id_without_a_sign_gathers_its_row() -> None:
    text = "block Row()(x: [n, d], id: u32[]) -> [d]:\n  return x[id]\n"
    follow(text, "E0203", "gather(x, id, axis=0)", {"x[id]": "gather(x, id, axis=0)"})
