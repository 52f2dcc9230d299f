"""Indices that sizes alone put out of range are told by a check; what data decides is not."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import meganeura
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.problems.shape_problems import IndexMayOverrun, IndexOverrun
from meganeura_dsl.elaborate.typecheck import index_ranges
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.pipeline import check
from tests.effort import effort
from tests.folded import each_of

Found = tuple[str, ...]
"""Of a note: the index it reaches, and the fact that excludes it. Of an error: the index."""


def told(text: str) -> list[Found]:
    """Returns the findings of a check about indices; any other problem fails the test."""
    result = check(Source("net.mgn", text), lambda _: None)
    found: list[Found] = []
    for problem in result.problems:
        match problem:
            case IndexMayOverrun():
                found.append(("note", problem.value, problem.fact))
            case IndexOverrun():
                found.append(("error", problem.value))
            case _:
                assert problem.code == "N0004", problem.report()
    return found


def a_block(index: str, *, header: str = "", given: str = "") -> str:
    """A block that picks rows of a table by an index i32[s]."""
    return (
        f"block P(rows{given})(x: [n, s, 4]) -> [n, s, 4]{header}:\n"
        f"  place = ({index}) |> place: embedding(rows, 4)\n"
        "  return x + expand(place, [s, d] -> [n, s, d])\n\nmodel p = P(rows=16)\n"
    )


POSITIONS = a_block("iota(s)")
OVER = ("note", "s - 1", "s <= rows")

PROGRAMS: dict[str, tuple[str, list[Found]]] = {
    "a table of positions": (POSITIONS, [OVER]),
    "of as many as there are": (POSITIONS + "expect p maps [n, 16, 4] -> [n, 16, 4]\n", [OVER]),
    "of more": (
        POSITIONS + "expect p maps [n, 32, 4] -> [n, 32, 4]\n",
        [OVER, ("error", "31")],
    ),
    "of a block": (
        POSITIONS + "expect P(rows=16) maps [n, 32, 4] -> [n, 32, 4]\n",
        [OVER, ("error", "31")],
    ),
    "stated": (a_block("iota(s)", header=" where s <= rows"), []),
    "stated, and more than needed": (a_block("iota(s) + 1", header=" where s + 2 <= rows"), []),
    "stated one too wide": (
        a_block("iota(s)", header=" where s <= rows + 1"),
        [OVER],
    ),
    "kept below": (a_block("minimum(iota(s), rows - 1)"), []),
    "kept below one too many": (a_block("minimum(iota(s), rows)"), []),
    "a remainder": (a_block("iota(s) % rows"), []),
    "in reverse": (a_block("s - 1 - iota(s)"), [OVER]),
    "from the end": (a_block("iota(s) - 1"), [("error", "-1")]),
    "from some end": (
        a_block("iota(s) - k", given=", k: size").replace("(rows=16)", "(rows=16, k=2)"),
        [("error", "-k")],
    ),
    "some less": (a_block("iota(s) - s // 2"), [("note", "s - s//2 - 1", "s <= 2*rows")]),
    "always beyond": (a_block("iota(s) + rows"), [("error", "rows + s - 1")]),
    "a model of fixed sizes": (
        (
            "block P()(x: [n, 20, 4]) -> [n, 20, 4]:\n"
            "  return x + (iota(20) |> w: embedding(16, 4))\n\nmodel p = P()\n"
        ),
        [("error", "19")],
    ),
    "a model that is given the size": (
        (
            "block P(s)(x: [n, s, 4]) -> [n, s, 4]:\n"
            "  return x + (iota(s) |> w: embedding(16, 4))\n\nmodel p = P(20)\n"
        ),
        [("note", "s - 1", "s <= 16"), ("error", "19")],
    ),
    "a training": (
        (
            "train fit(x: [batch, 20, 4], y: i32[batch]):\n"
            "  h = mean(x + (iota(20) |> w: embedding(16, 4)), 1)\n"
            "  minimize cross_entropy(h |> fc: linear(3), y)\n"
        ),
        [("error", "19")],
    ),
    "through a block of one's own": (
        "block T(rows)(ids: i32[s]) -> [s, 4]:\n  return ids |> table: embedding(rows, 4)\n\n"
        + a_block("iota(s)").replace("embedding(rows, 4)", "T(rows)")
        + "expect p maps [n, 17, 4] -> [n, 17, 4]\n",
        [OVER, ("error", "16")],
    ),
    "the second of two of one kind": (
        (
            "block P()(x: [s], ids: i32[s]) -> [s]:\n"
            "  y = ids |> a: embedding(4, 1)\n  z = iota(s) |> b: embedding(4, 1)\n"
            "  return x + (y + z)[:, 0]\n\nmodel p = P()\nexpect p maps [5], i32[5] -> [5]\n"
        ),
        [("note", "s - 1", "s <= 4"), ("error", "4")],
    ),
    "in a layer that is repeated": (
        POSITIONS.replace("model p = P(rows=16)\n", "")
        + "block Q(rows)(x: [n, s, 4]) -> [n, s, 4]:\n"
        "  return x |> a: P(rows + 1) |> b: P(rows + 1) |> c: P(rows)\n\n"
        "model q = Q(19)\nexpect q maps [n, 20, 4] -> [n, 20, 4]\n",
        [OVER, ("error", "19")],
    ),
    "from a position": (
        a_block("iota(s) + p", header="\n    where 0 <= p").replace("4])", "4], p: i32[])"),
        [("note", "s - 1", "p + s <= rows")],
    ),
    "from a position, with the default": (
        a_block("iota(s) + p", header="\n    where 0 <= p").replace("4])", "4], p: i32[] = 0)")
        + "expect p maps [n, 17, 4] -> [n, 17, 4]\n",
        [("note", "s - 1", "p + s <= rows"), ("error", "16")],
    ),
    "from any position": (
        a_block("iota(s) + p").replace("4])", "4], p: i32[])"),
        [],
    ),
    "from a position that may be -1": (
        a_block("iota(s) + p", header="\n    where -1 <= p").replace("4])", "4], p: i32[])"),
        [("note", "s - 2", "p + 1 + s <= rows + 1")],
    ),
    "on a grid": (
        (
            "block P(rows)(x: [h, w]) -> [h, w, 4]:\n"
            "  place = expand(iota(h), [h] -> [h, w]) * w + expand(iota(w), [w] -> [h, w])\n"
            "  return insert_axis(x, 2, 4) + (place |> t: embedding(rows, 4))\n\n"
            "expect P(rows=16) maps [4, 4] -> [4, 4, 4]\n"
            "expect P(rows=15) maps [4, 4] -> [4, 4, 4]\n"
        ),
        [("note", "h*w - 1", "h*w <= rows"), ("error", "15")],
    ),
    "in each iteration": (
        (
            "block P(rows)(x: [s], table: [rows]) -> [s]:\n"
            "  scan t in 0..s:\n    y[t] = x[t] + gather(table, t + 1)\n  return y\n\n"
            "expect P(rows=5) maps [4], [5] -> [4]\nexpect P(rows=4) maps [4], [4] -> [4]\n"
        ),
        [("note", "s", "s + 1 <= rows"), ("error", "4")],
    ),
    "in an iteration that may not come": (
        (
            "block P(rows)(x: [s], table: [rows]) -> [s]:\n"
            "  z = 0.0 * sum(x)\n"
            "  scan t in 0..s while z < 1:\n    z = z + gather(table, t)\n  return x + z\n\n"
            "expect P(rows=4) maps [5], [4] -> [5]\n"
        ),
        [],
    ),
    "one of some classes": (
        (
            "block P()(x: [s]) -> [s, 4] = insert_axis(x, 1, 4) * one_hot(iota(s), 4)\n\n"
            "expect P() maps [4] -> [4, 4]\nexpect P() maps [5] -> [5, 4]\n"
        ),
        [("note", "s - 1", "s <= 4"), ("error", "4")],
    ),
    "added to a row": (
        (
            "block P(rows)(x: [s]) -> [rows] = scatter_add(iota(s), x, rows)\n\n"
            "expect P(rows=4) maps [5] -> [4]\n"
        ),
        [("note", "s - 1", "s <= rows"), ("error", "4")],
    ),
    "the largest of a row": (
        (
            "block P(rows)(x: [s]) -> [rows] = scatter_max(iota(s), x, rows, empty=0)\n\n"
            "expect P(rows=4) maps [5] -> [4]\n"
        ),
        [("note", "s - 1", "s <= rows"), ("error", "4")],
    ),
    "an order": (
        (
            "block P(rows)(x: [s], t: [rows]) -> [s] = gather(t, argsort(x))\n\n"
            "expect P(rows=4) maps [5], [4] -> [5]\n"
        ),
        [("note", "s - 1", "s <= rows"), ("error", "4")],
    ),
    "labels that are none": (
        (
            "train fit(x: [batch, 3], y: i32[batch])\n    where 0 <= y, y < 3:\n"
            "  minimize cross_entropy(x |> fc: linear(2), y + 2)\n"
        ),
        [("error", "2")],
    ),
    "labels that may be": (
        (
            "train fit(x: [batch, 3], y: i32[batch])\n    where 1 <= y, y < 4:\n"
            "  minimize cross_entropy(x |> fc: linear(2), one_hot(y - 1, 2))\n"
        ),
        [],
    ),
    "labels that are left out": (
        (
            "train fit(x: [batch, 3], y: i32[batch])\n    where 0 <= y, y < 3:\n"
            "  minimize masked_cross_entropy(ignore=9)(x |> fc: linear(2), y + 2)\n"
        ),
        [],
    ),
    "words of another table": (
        (
            "block P(words)(ids: i32[s]) -> [s, 4]\n    where 0 <= ids, ids < words:\n"
            "  return ids |> t: embedding(10, 4)\n\nmodel p = P(20)\n"
        ),
        [],
    ),
    "a diagonal": (
        (
            "block P()(x: [n, m]) -> []:\n"
            "  same = insert_axis(iota(n), 1, m) == insert_axis(iota(m), 0, n)\n"
            "  return sum(where(same, x, 0)) + sum(f32(same))\n\nexpect P() maps [5, 3] -> []\n"
        ),
        [],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_told_of_an_index(name: str) -> None:
    text, expected = PROGRAMS[name]
    assert sorted(told(text)) == sorted(expected)


def test_a_fact_is_what_callers_have_to_show() -> None:
    text = a_block("iota(s)", header=" where s <= rows")
    found = check(
        Source("net.mgn", text + "expect p maps [n, 32, 4] -> [n, 32, 4]\n"), lambda _: None
    )
    assert [problem.code for problem in found.problems] == ["E0311"]


def test_a_run_of_such_sizes_is_refused_before_it_runs(tmp_path: Path) -> None:
    (tmp_path / "net.mgn").write_text(POSITIONS)
    model = meganeura.load(str(tmp_path / "net.mgn")).model(seed=0)
    given = np.ones((2, 17, 4), np.float32)
    assert model.run({"x": given[:, :16]}, device="cpu")["output"].shape == (2, 16, 4)
    with pytest.raises(ProblemError, match=r"E0323.* an index is 16, and must be below 16"):
        model.run({"x": given}, device="cpu")


def test_of_what_a_network_computes_only_the_way_to_what_it_is_given_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[Tensor] = []
    count = index_ranges._count

    def counted(value: Tensor) -> int:
        looked_at.append(value)
        return count(value)

    monkeypatch.setattr(index_ranges, "_count", counted)
    text = (
        "block P()(x: [n, 8]) -> [n, 8]:\n  for i in 0..200:\n    x = x + x\n"
        "  return x |> argmax(1) |> place: embedding(4, 8)\n\nmodel p = P()\n"
    )
    result = check(Source("net.mgn", text), lambda _: None)
    assert [problem.code for problem in result.problems] == [], result.problems
    assert 0 < len(looked_at) < 20


# --- by force ------------------------------------------------------------------------------------

Whole = NDArray[np.int32]


@dataclass(frozen=True)
class Index:
    """An index i32[s] as a text, and what it is of the sizes and of data."""

    text: str
    of: Callable[[int, dict[str, Whole]], Whole]
    reads: bool = False
    """True if it depends on data."""
    is_simple: bool = True
    """True if its bounds are known for all sizes."""


def an_index(draw: np.random.Generator, depth: int, *, is_open: bool) -> Index:
    """A random index; of sizes that are open, constants that small sizes can show."""
    if depth == 0 or draw.random() < 0.1:
        c = int(draw.integers(0, 5))
        return (
            Index("iota(s)", lambda s, _: np.arange(s, dtype=np.int32)),
            Index("(0 * iota(s) + p)", lambda s, d: np.full(s, d["p"], np.int32), reads=True),
            Index("ids", lambda _, d: d["ids"], reads=True),
            Index("argsort(x)", lambda s, d: np.argsort(d["x"][:s]).astype(np.int32), reads=True),
            Index(f"iota(s + {c})[{c}:]", lambda s, _: np.arange(c, c + s, dtype=np.int32)),
            Index(f"(0 * iota(s) + {c})", lambda s, _: np.full(s, c, np.int32)),
        )[int(draw.choice(6, p=(0.5, 0.1, 0.1, 0.1, 0.1, 0.1)))]
    one = an_index(draw, depth - 1, is_open=is_open)
    kind, c = int(draw.integers(10)), int(draw.integers(1, 4 if is_open else 7))
    match kind:
        case 0 | 1:
            return _of(one, f"({one.text} + {c})", lambda x: x + c)
        case 2:
            return _of(one, f"({one.text} - {c})", lambda x: x - c)
        case 3:
            return _of(one, f"({c} - {one.text})", lambda x: c - x)
        case 4:
            return _of(one, f"({c} * {one.text})", lambda x: c * x)
        case 5:
            return _of(one, f"({one.text} // {c})", lambda x: x // c, is_simple=False)
        case 6:
            return _of(one, f"({one.text} % {c})", lambda x: x % c, is_simple=False)
        case 7:
            text = f"minimum({one.text}, {c})"
            return _of(one, text, lambda x: np.minimum(x, c), is_simple=False)
        case 8:
            return _of(
                one, f"maximum({one.text}, {c})", lambda x: np.maximum(x, c), is_simple=False
            )
        case _:
            two = an_index(draw, depth - 1, is_open=is_open)
            return Index(
                f"({one.text} + {two.text})",
                lambda s, d: one.of(s, d) + two.of(s, d),
                one.reads or two.reads,
                is_simple=False,
            )


def _of(one: Index, text: str, apply: Callable[[Whole], Whole], *, is_simple: bool = True) -> Index:
    return Index(
        text, lambda s, d: apply(one.of(s, d)), one.reads, is_simple=one.is_simple and is_simple
    )


USES = (
    "gather(table, {index}) * x",
    "sum(one_hot({index}, rows) * insert_axis(table, 0, s), 1) * x",
    "gather(scatter_add({index}, x, rows), 0 * iota(s)) * x",
    "gather(scatter_min({index}, x, rows, empty=1), 0 * iota(s)) * x",
)
HEADER = (
    "(x: [s], table: [rows], ids: i32[s], p: i32[]) -> [s]\n    where 0 <= p, 1 <= ids, ids < 4"
)
BODY = "  return {use} + 0 * (sum(table) + f32(p) + sum(f32(ids)))\n"


def draws(draw: np.random.Generator, size: int) -> Iterator[dict[str, Whole]]:
    """Data that a program may be fed."""
    for p in (0, 1, 7):
        ids = draw.integers(1, 4, size).astype(np.int32)
        yield {"p": np.int32(p), "ids": ids, "x": draw.permutation(size).astype(np.int32)}  # pyright: ignore[reportReturnType]


def overruns(index: Index, s: int, rows: int, draw: np.random.Generator) -> list[bool]:
    """Returns a bool for each data that is tried: True if the index is out of range."""
    found = (index.of(s, data) for data in draws(draw, s))
    return [bool(((each < 0) | (each >= rows)).any()) for each in found]


@each_of("seed", range(effort(60, 3000)))
def test_an_expectation_is_refused_where_the_index_is_out_of_range(seed: int) -> None:
    """For certain, if it is refused; of an index that no data has a part in, exactly then."""
    draw = np.random.default_rng(seed)
    index = an_index(draw, int(draw.integers(1, 4)), is_open=False)
    use = USES[int(draw.integers(len(USES)))].format(index=index.text)
    s, rows = int(draw.integers(1, 7)), int(draw.integers(1, 12))
    text = f"block N(rows){HEADER}:\n{BODY.format(use=use)}\n"
    text += f"expect N(rows={rows}) maps [{s}], [{rows}], i32[{s}], i32[] -> [{s}]\n"
    found = told(text)
    outside = overruns(index, s, rows, draw)
    is_refused = any(each[0] == "error" for each in found)
    if is_refused:
        assert all(outside), text
    elif not index.reads:
        assert not any(outside), text


@each_of("seed", range(effort(60, 3000)))
def test_what_is_told_for_all_sizes_is_so_for_small_ones(seed: int) -> None:
    """An error for all, a note for some; of an index of a simple form, no word if for none."""
    draw = np.random.default_rng([seed, 1])
    index = an_index(draw, int(draw.integers(1, 3)), is_open=True)
    use = USES[int(draw.integers(len(USES)))].format(index=index.text)
    found = told(f"block N(rows){HEADER}:\n{BODY.format(use=use)}\n")
    grid = [overruns(index, s, rows, draw) for s in range(1, 9) for rows in range(1, 14)]
    if any(each[0] == "error" for each in found):
        assert all(map(all, grid))
    elif found:
        assert any(map(all, grid))
    elif index.is_simple and not index.reads:
        assert not any(map(any, grid))
