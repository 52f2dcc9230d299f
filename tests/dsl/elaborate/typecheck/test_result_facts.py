"""Facts of results: proved where a block returns, known where it is applied."""

from pathlib import Path

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check, loader_beside
from tests.folded import each_of

BLOCKS = """\
block Best()(scores: [n, c]) -> i32[n]
    where 0 <= result, result < c:
  return argmax(scores, 1)

block Clamped(c)(ids: i32[...s]) -> i32[...s]
    where 0 <= result and result < c:
  return minimum(maximum(ids, 0), c - 1)

block Next(c)(ids: i32[n]) -> i32[n]
    where 0 <= ids, ids < c, 1 <= result, result <= c:
  return ids + 1

block Row()(ids: i32[...s], table: [c, d]) -> [...s, d]
    where 0 <= ids, ids < c:
  return gather(table, ids)

block Found(c)(scores: [n, c], sure: bool[n]) -> i32[n]
    where -1 <= result, result < c:
  return where(sure, argmax(scores, 1), -1)

block Near(k)(ids: i32[...s]) -> i32[...s]
    where -k <= result, result <= k:
  return minimum(maximum(ids, -k), k)

block Labels(c)(label: i32[n]) -> i32[n]
    where -1 <= label, label < c, -1 <= result, result < c:
  return label

block Either(c, first: bool)(ids: i32[n], x: [n, c]) -> i32[n]
    where 0 <= result, result <= c:
  if first:
    return minimum(maximum(ids, 0), c)
  return argmax(x, 1)

"""
KNOWN = {
    "the index of a table": (
        "scores: [n, c], table: [c, d]",
        "return Row()(scores |> Best(), table)",
    ),
    "by configuration": ("ids: i32[n, s], table: [9, d]", "return Row()(Clamped(9)(ids), table)"),
    "a single number": ("p: i32[], table: [9, d]", "return Row()(Clamped(9)(p), table)"),
    "on and on": (
        "ids: i32[n], table: [9, d]",
        "a = ids |> Clamped(6) |> Next(6)\n  return Row()(a |> Next(7) |> Next(8), table)",
    ),
    "in a scan": (
        "ids: i32[n, s], table: [4, d]",
        "scan t in 0..s:\n    y[:, t] = Row()(Clamped(4)(ids[:, t]), table)\n  return y",
    ),
    "of a choice": (
        "ids: i32[n], x: [n, 4], table: [5, d]",
        "return Row()(Either(4, first=true)(ids, x), table)",
    ),
    "what is computed of it": (
        "scores: [n, c], table: [2 * c, d]",
        "return Row()(2 * Best()(scores) + 1, table)",
    ),
    "of -1 and more": (
        "scores: [n, 4], sure: bool[n], table: [5, d]",
        "found = Found(4)(scores, sure)\n  return Row()(found + 1, table)",
    ),
    "of -1 and more, where it is asked for": (
        "scores: [n, 4], sure: bool[n], table: [5, d]",
        "found = Labels(4)(Found(4)(scores, sure))\n  return Row()(Labels(4)(found) + 1, table)",
    ),
    "from minus a size": (
        "k0: [k], ids: i32[n, s], table: [2 * k + 1, d]",
        "return Row()(Near(k)(ids) + k, table) + 0 * sum(k0)",
    ),
    "from minus a size, carried by a scan": (
        "k0: [k], ids: i32[n, s], table: [2 * k + 1, d]",
        (
            "at = Near(k)(ids[:, 0])\n  h = 0 * gather(table, i32(zeros([n])))\n"
            "  scan t in 0..s:\n    h = h + Row()(at + k, table)\n    at = Near(k)(ids[:, t])\n"
            "  return h + 0 * sum(k0)"
        ),
    ),
    "with a layer that is looked into": (
        "scores: [n, 3], table: [3, d]",
        (
            "y = scores |> fc: linear(3)\n  i = Best()(y)\n"
            "  return Row()(i, table) * sum(weights(fc))"
        ),
    ),
}


def codes(text: str) -> list[str]:
    result = check(Source("p.mgn", BLOCKS + text), loader_beside(Path("p.mgn")))
    return [each.code for each in result.problems]


@each_of("name", KNOWN)
def test_whoever_applies_a_block_knows_them(name: str) -> None:
    inputs, body = KNOWN[name]
    assert not codes(f"block P()({inputs}):\n  {body}\n")


UNKNOWN = {
    "too small a table": (
        "scores: [n, c + 1], table: [c, d]",
        "return Row()(scores |> Best(), table)",
        "E0311",
    ),
    "past the last": (
        "ids: i32[n], table: [6, d]",
        "return Row()(ids |> Clamped(6) |> Next(6), table)",
        "E0311",
    ),
    "-1 as an index": (
        "scores: [n, 4], sure: bool[n], table: [5, d]",
        "return Row()(Found(4)(scores, sure), table)",
        "E0311",
    ),
    "one too many from -1": (
        "scores: [n, 4], sure: bool[n], table: [4, d]",
        "return Row()(Found(4)(scores, sure) + 1, table)",
        "E0311",
    ),
    "a lower bound that is too high": (
        "ids: i32[n], table: [9, d]",
        "return Row()(Near(3)(ids) + 2, table)",
        "E0311",
    ),
    "fewer labels": (
        "scores: [n, 4], sure: bool[n]",
        "return Labels(3)(Found(4)(scores, sure))",
        "E0311",
    ),
    "facts that are not met": (
        "ids: i32[n], table: [9, d]",
        "return Row()(ids |> Clamped(7) |> Next(6), table)",
        "E0311",
    ),
}


@each_of("name", UNKNOWN)
def test_no_more_is_known_than_is_stated(name: str) -> None:
    inputs, body, code = UNKNOWN[name]
    assert code in codes(f"block P()({inputs}):\n  {body}\n")


STATED = {
    "too little": ("ids: i32[n]", "i32[n]", "0 <= result, result < 4", "maximum(ids, 0)", "E0333"),
    "below": ("ids: i32[n]", "i32[n]", "0 <= result", "minimum(ids, 3)", "E0333"),
    "by one": ("x: [n, c]", "i32[n]", "result < c - 1", "argmax(x, 1)", "E0333"),
    "below -1": ("ids: i32[n]", "i32[n]", "-1 <= result", "maximum(ids, -2)", "E0333"),
    "below minus a size": (
        "x: [k], ids: i32[n]",
        "i32[n]",
        "-k <= result",
        "maximum(ids, -k - 1) + 0 * i32(sum(x))",
        "E0333",
    ),
    "of nothing known": ("ids: i32[n]", "i32[n]", "0 <= result", "ids", "E0333"),
    "of one path": (
        "ids: i32[n]",
        "i32[n]",
        "0 <= result, result < 4",
        "ids % 4 if n > 3 else ids % 5",
        "E0333",
    ),
    "of floats": ("x: [n]", "[n]", "0 <= result", "relu(x)", "E0334"),
    "of several": ("ids: i32[n]", "i32[n], i32[n]", "0 <= result", "ids, ids", "E0334"),
    "no bound": ("ids: i32[n]", "i32[n]", "result % 2 == 0", "2 * ids", "E0334"),
    "another one": ("ids: i32[n]", "i32[n]", "result == 3 or result == 4", "ids", "E0334"),
}


@each_of("name", STATED)
def test_what_is_stated_is_proved(name: str) -> None:
    inputs, results, facts, value, code = STATED[name]
    text = f"block P()({inputs}) -> {results}\n    where {facts}:\n  return {value}\n"
    assert codes(text) == [code]


def test_an_input_of_this_name_is_meant() -> None:
    text = """\
block P()(result: i32[n], table: [c, d]) -> [n, d]
    where 0 <= result, result < c:
  return gather(table, result)
"""
    assert not codes(text)
    assert (
        codes(f"{text}\nblock Q()(x: [n, c], t: [c, d]) -> [n, d] = argmax(x, 1) |> P()(t)\n") == []
    )


@each_of("axes", ["result, d", "2 * result, d", "n, result"])
def test_a_size_of_this_name_is_meant(axes: str) -> None:
    header = f"block P()(x: [{axes}]) -> [{axes}]"
    assert not codes(f"{header}\n    where result >= 4, result % 2 == 0:\n  return relu(x)\n")


def test_a_model_that_is_checked_by_itself_is_held_to_them() -> None:
    text = """\
block P(k: list)(x: [n, 3]) -> i32[n]
    where 0 <= result, result < k[0]:
  return argmax(x, 1)

model three = P(k=[3])
"""
    assert "E0333" not in codes(text)
    assert "E0333" in codes(text.replace("[3])\n", "[2])\n"))
