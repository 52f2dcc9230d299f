"""Symbols of a proof have no name that a program, or another part of the proof, can have."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import CheckResult

PICK = """\
block Pick(rows)(table: [rows, d], ids: i32[n]) -> [n, d]
    where 0 <= ids, ids < rows:
  return gather(table, ids)

block Entry()(x: [s, d], p: i32[]) -> [d] where p < s = x[p]

"""
FITS = """\
block Wide(width)(x: [n, c]) -> [n, width] = sum(x) * ones([n, width])
block Same(width)(x: [n, c]) -> [n, c] = x + sum(ones([width]))
block Apply(body: block()(x: [n, d]) -> [n, d])(x: [n, c]) -> [n, 7]:
  return sum(x) * ones([n, 7]) |> body

block Last(k)(x: [n]):
  for i in 0..k:
    y = sum(x) * ones([i + 1])
  return y

"""

REFUSED = {
    "a size has the name of an element": (
        PICK + "block Use()(x: [n, m], z: [{}], t: [4, d]) -> [n, d] where {} < 4:\n"
        "  return (t |> Pick(4)(argmax(x, 1))) + sum(z)\n",
        ("q", "at0", "at1"),
    ),
    "a size has the name of an element that is handed on": (
        PICK + "block Use()(ids: i32[n], x: [n, m], z: [{}], t: [4, d]) -> [n, d] where {} < 4:\n"
        "  return (t |> Pick(4)(ids)) + (t |> Pick(4)(argmax(x, 1))) + sum(z)\n",
        ("q", "at0", "at1", "at2"),
    ),
    "an index has the name of an element": (
        PICK + "block Use(k)(x: [n, m], t: [4, d]) -> [n, d] where m <= 4:\n"
        "  y = t |> Pick(4)(argmax(x, 1))\n"
        "  for {} in 0..k:\n    y = y + sum(t[{}])\n  return y\n",
        ("q", "at0", "at1"),
    ),
    "an index has the name of an input": (
        (
            "block Use()(p: i32[], x: [s, d]) -> [s, d] where p + 3 <= s:\n  y = x + sum(x[p])\n"
            "  for {} in 0..s:\n    y = y + sum(x[{} + 2])\n  return y\n"
        ),
        ("q", "p", "s", "d"),
    ),
    "the index of a scan has the name of an input": (
        (
            "block Use()(p: i32[], x: [s, d]) -> [s, d] where p + 3 <= s:\n  y = x + sum(x[p])\n"
            "  scan {} in 0..s:\n    y = y + sum(x[{} + 2])\n  return y\n"
        ),
        ("q", "p"),
    ),
    "an input has the name of an axis": (
        (
            "block Use()(x: [...s, d], {}: i32[], t: [e]) -> [...s, d] where {} >= 4, {} < e:\n"
            "  return x + sum(x[3:4]) + t[{}]\n"
        ),
        ("q", "s0", "s1"),
    ),
    "an index has the name of a size that is bound anew": (
        (
            "block Use(k)(x: [n, d]) -> [1] where n >= 5:\n  y = sum(x) * ones([1])\n"
            "  x = y\n  n = 2\n  for {} in 0..k + n - 2:\n    y = y + sum(ones([{} - 4]))\n"
            "  return y + x\n"
        ),
        ("q", "n"),
    ),
    "what a loop returns has the size of its index": (
        (
            "block Use(k)(x: [n, d]) -> [n] where k >= 2:\n  x = sum(x) * ones([1])\n  n = 1\n"
            "  for {} in n..k:\n    return sum(x) * ones([{}])\n"
        ),
        ("q", "n"),
    ),
    "a call solves for a size of its caller's name": (
        (
            "block Get()(x: [k, k + d]) -> [d, k] = sum(x) * ones([d, k])\n"
            "block Use()(x: [2 * {0}, 6 * {0}]) -> [2 * {0}, 2 * {0}] = x |> Get()\n"
        ),
        ("e", "d", "k"),
    ),
    "a block is given a size of the caller": (
        FITS + "block Use()(x: [n, {}]) -> [n, 7] = x |> Apply(Wide({}))\n",
        ("q", "d", "c", "n"),
    ),
    "a block is given an index, which may be 0": (
        FITS + "block Use(k)(x: [n, 7]) -> [n, 7]:\n"
        "  for {} in 0..k:\n    x = x |> Apply(Same({}))\n  return x\n",
        ("q", "i", "d"),
    ),
    "two loops of two calls leave sizes": (
        FITS + "block Use(k, j)(x: [n]) -> [1]:\n"
        "  return sum((x |> Last(k + {0})) + (x |> Last(j + {0}))) * ones([1])\n",
        ("1",),
    ),
    "what a block hands on is computed by another": (
        PICK + "block Some()(t: [4, d], ids: i32[n]) -> [n, d] = t |> Pick(4)(ids)\n"
        "block Use()(x: [n, {}], t: [4, d]) -> [n, d] = t |> Some()(argmax(x, 1))\n",
        ("9", "q"),
    ),
    "what a given block hands on is not in its header": (
        PICK + "block Some()(t: [4, d], ids: i32[n]) -> [n, d] = t |> Pick(4)(ids)\n"
        "block Apply(b: block()(t: [4, d], ids: i32[n]) -> [n, d])(x: [n, 9], t: [4, d])\n"
        "    -> [n, d]:\n  return t |> b(argmax(x, 1))\n"
        "block Use()({}: [n, 9], t: [4, d]) -> [n, d] = {} |> Apply(Some)(t)\n",
        ("x",),
    ),
    "an iteration changes a number that the next one reads": (
        PICK + "block Use(k)(x: [s, d]) -> [d]:\n  {0} = argmax(sum(x, 1), 0)\n  y = x[0]\n"
        "  for i in 0..k:\n    y = y + (x |> Entry()({0}))\n    {0} = {0} + 1\n  return y\n",
        ("q", "p"),
    ),
    "a default that follows from another argument is 0": (
        (
            "block Sized(k, l=k - 1)(x: [n, d]) -> [n, d] = x + sum(ones([l]))\n"
            "block Use(q)(x: [n, d]) -> [n, d] = x |> Sized({})\n"
        ),
        ("1", "q"),
    ),
    "a default that follows from another argument is below 0": (
        (
            "block Sized(k, l=-k)(x: [n, d]) -> [n, d] = x + sum(ones([l]))\n"
            "block Use(q)(x: [n, d]) -> [n, d] = x |> Sized({})\n"
        ),
        ("1", "q"),
    ),
    "a loop begins below 0": (
        (
            "block Use(k: int)(x: [n, d]) -> [n, d] where k < 0:\n"
            "  for {0} in k..0:\n    x = x + sum(x[{0} + 5])\n  return x\n"
        ),
        ("i", "k"),
    ),
}


def checked(text: str) -> CheckResult:
    """Returns the result of a check of a program."""
    return pipeline.check(Source("names.mgn", text), lambda _: None)


@pytest.mark.parametrize(
    ("name", "given"), [(name, each) for name, (_, names) in REFUSED.items() for each in names]
)
def test_what_is_refused_is_refused_whatever_the_names(name: str, given: str) -> None:
    text = REFUSED[name][0]
    result = checked(text.format(*[given] * 4))
    assert "Use" not in result.proved
    assert not any(each.code.startswith("E01") for each in result.reports), "no program"
    assert not result.fine


PROVED = {
    "an element": (
        PICK + "block Use()(x: [n, 4], z: [{}], t: [4, d]) -> [n, d]:\n"
        "  return (t |> Pick(4)(argmax(x, 1))) + sum(z)\n",
        ("at0", "at1"),
    ),
    "an input and an axis": (
        "block Use()(x: [...s, d], {0}: i32[], t: [e]) -> [...s, d] where {0} < e = x + t[{0}]\n",
        ("s0", "s1", "q"),
    ),
    "a size that a call solves for": (
        (
            "block Get()(x: [k, k + d]) -> [d, k] = sum(x) * ones([d, k])\n"
            "block Use()(x: [2 * {0}, 6 * {0}]) -> [4 * {0}, 2 * {0}] = x |> Get()\n"
        ),
        ("d", "k", "q"),
    ),
    "a size a block is given": (
        (
            "block Wide(width)(x: [n, c]) -> [n, c] = x + sum(ones([width]))\n"
            "block Apply(body: block()(x: [n, d]) -> [n, d])(x: [n, c]) -> [n, c] = x |> body\n"
            "block Use()(x: [n, {0}]) -> [n, {0}] = x |> Apply(Wide({0}))\n"
        ),
        ("d", "c", "n2"),
    ),
    "what is the size behind a loop": (
        (
            "block Use(k)(x: [n]) -> [k]:\n"
            "  for {0} in 0..k:\n    y = sum(x) * ones([{0} + 1])\n  return y\n"
        ),
        ("i", "q"),
    ),
    "what a block hands on and another has computed": (
        PICK + "block Some()(t: [4, d], ids: i32[n]) -> [n, d] = t |> Pick(4)(ids)\n"
        "block Use()({0}: [n, 4], t: [4, d]) -> [n, d] = t |> Some()(argmax({0}, 1))\n",
        ("x", "at0"),
    ),
    "a size with the name of a mode": (
        "block Use()(x: [{0}, d]) -> [{0}, d] where {0} >= 2 = x |> dropout(0.1)\n",
        ("training", "frozen"),
    ),
}


@pytest.mark.parametrize(
    ("name", "given"), [(name, each) for name, (_, names) in PROVED.items() for each in names]
)
def test_what_holds_is_proved_whatever_the_names(name: str, given: str) -> None:
    result = checked(PROVED[name][0].format(given))
    assert "Use" in result.proved, result.reports
    assert result.fine


def test_an_expected_size_is_not_an_index_nor_an_input() -> None:
    grown = (
        "block Grow()(x: [n, d]):\n  for i in 0..n:\n    y = sum(x) * ones([i + 1])\n  return y\n"
    )
    grown += "model grow = Grow()\nexpect grow maps [n, 4] -> [{}]\n"
    assert [each.code for each in checked(grown.format("i + 1")).reports] == ["E0401"]
    assert checked(grown.format("n")).fine
    read = "block Read()(x: [s, d], p: i32[]) -> [d] where p < s = x[p]\nmodel read = Read()\n"
    assert checked(f"{read}expect read maps [p, 4], i32[] -> [4]\n").fine


def test_the_symbol_of_an_element_reads_as_before() -> None:
    text, _ = REFUSED["a size has the name of an element"]
    for given, shown in (("q", "at0 < 4"), ("at0", "at0' < 4")):
        (report,) = checked(text.format(given, given)).reports
        assert report.headline == f"`Pick` needs `ids < rows, that is {shown}`"


@pytest.mark.parametrize(
    ("before", "read", "is_proved"),
    [("sum(x)", "", True), ("sum(x)", " + w", True), ("x", "", True), ("x", " + sum(w)", False)],
)
def test_a_name_that_the_iterations_of_an_inner_scan_take_is_not_there_in_the_next(
    before: str,
    read: str,
    is_proved: bool,  # noqa: FBT001
) -> None:
    """Unless it keeps its type: then the iterations carry it."""
    text = (
        f"block Use(k)(x: [m, d]) -> [d]:\n  w = {before}\n  y = x[0] + sum(w)\n"
        f"  for t in 0..k:\n    y = y{read}\n    scan u in 0..m:\n      w = sum(x[u])\n"
        "      z[u] = w\n    y = y + sum(z)\n  return y\n"
    )
    assert ("Use" in checked(text).proved) is is_proved
