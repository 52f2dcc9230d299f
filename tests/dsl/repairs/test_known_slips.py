"""A slip that is known by what it looks like is the first cure, with its reason."""

from functools import cache

import pytest

from meganeura_dsl.diagnostics.fixes import apply, next_fixes
from meganeura_dsl.diagnostics.report import Report, Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check_text


@cache
def errors(program: str) -> tuple[Report, ...]:
    """The errors that `meganeura check` prints."""
    reports = check_text(Source("net.mgn", program)).reports
    return tuple(each for each in reports if each.severity is Severity.ERROR)


def fixed(program: str) -> str:
    """The program behind all fixes of `meganeura check --fix --unsafe`."""
    source = Source("net.mgn", program)
    while chosen := next_fixes(check_text(source).reports, source, unsafe=True):
        for each in chosen[:1]:
            assert each.help is not None
            source = Source("net.mgn", apply(source.text, each.help.edits))
    return source.text


LEVELS = (
    "block Levels(d)(x: [n, d, t], level: [n]) -> [n, d, t]:\n"
    "{}"
    "  y = {} |> first: linear(2 * d) |> silu |> second: linear(d)\n"
    "  return x + expand(y, [n, d] -> [n, d, t])\n"
)
SLIPS: dict[str, tuple[str, dict[str, str], str]] = {
    "a padding that is not dilated": (
        (
            "block Wave(c, k, gap)(x: [n, c, t]) -> [n, c, t] where k % 2 == 1, gap >= 1:\n"
            "  half = k // 2\n"
            "  y = x |> a: conv1d(c, k, pad=half, dilation=gap) |> relu\n"
            "  return x + (y |> b: conv1d(c, k, pad=half, dilation=gap))\n"
            "model wave = Wave(c=8, k=3, gap=4)\n"
        ),
        {"half = k // 2": "half = gap * (k // 2)"},
        "dilated by `gap`",
    ),
    "a padding that is not dilated, in the calls": (
        (
            "block Wave(c, gap: size)(x: [n, c, h, w]) -> [n, c, h, w]:\n"
            "  y = x |> a: conv2d(c, 3, pad=1, dilation=gap) |> relu\n"
            "  return x + (y |> b: conv2d(c, 3, pad=1, dilation=gap))\n"
        ),
        {"pad=1": "pad=gap"},
        "dilated by `gap`",
    ),
    "positions from 1": (
        (
            "block Marks(rows, d)(x: [n, s, d]) -> [n, s, d] where s <= rows:\n"
            "  at = 1 + iota(s)\n"
            "  return x + expand(at |> table: embedding(rows, d), [s, d] -> [n, s, d])\n"
            "block Net()(x: [n, 20, 6]) -> [n, 20, 6] = x |> marks: Marks(20, 6)\n"
            "model net = Net()\n"
        ),
        {"1 + iota(s)": "iota(s)"},
        "an index counts from 0",
    ),
    "a pipe behind a product": (
        (
            "block Gated(wide)(x: [n, d]) -> [n, d]:\n"
            "  opened = x |> opens: linear(d) |> sigmoid\n"
            "  value = x |> values: linear(wide) |> gelu\n"
            "  return opened * value |> lowers: linear(d)\n"
        ),
        {"opened * value |> lowers: linear(d)": "opened * (value |> lowers: linear(d))"},
        "the pipe takes the product `opened * value`",
    ),
    "a cache with its axes in another order": (
        (
            "block Kept(heads, hd, room)(x: [n, s, d], at: i32[]) -> [n, s, d]\n"
            "    where 0 <= at, at + s <= room:\n"
            "  q = x |> q: linear(heads * hd) |> rearrange([n, s, g * hd] -> [n, g, s, hd])\n"
            "  k = x |> k: linear(heads * hd) |> rearrange([n, s, g * hd] -> [n, g, s, hd])\n"
            "  cache kept: [n, room, heads, hd]\n"
            "  update kept[:, :, at:at + s] = k\n"
            "  y = attention(q, kept, kept, causal=true, offset=at)\n"
            "  return y |> rearrange([n, g, s, hd] -> [n, s, g * hd]) |> out: linear(d)\n"
        ),
        {"kept: [n, room, heads, hd]": "kept: [n, heads, room, hd]"},
        "`kept` is declared as [n, room, heads, hd]: axes 1 and 2 are exchanged",
    ),
    "parts that do not add up": (
        (
            "block Boxes(kinds, boxes)(x: [n, c, h, w]) -> [n, boxes, h, w, 7 + kinds]:\n"
            "  y = x |> out: conv2d(boxes * (6 + kinds), 1)\n"
            "  each_box = 7 + kinds\n"
            "  return y |> rearrange([n, b * each_box, h, w] -> [n, b, h, w, each_box])\n"
        ),
        {"6 + kinds": "7 + kinds"},
        "line 2 counts `6 + kinds`, and line 3 `7 + kinds`",
    ),
    "one number for each example": (
        LEVELS.format("", "level"),
        {"= level |>": "= insert_axis(level, 1, 1) |>"},
        "`level` is one number for each example",
    ),
    "one number for each example, computed": (
        LEVELS.format("  warped = log(level)\n", "warped"),
        {"= warped |>": "= insert_axis(warped, 1, 1) |>"},
        "`warped` is one number for each example",
    ),
    "all of a width in two parts": (
        (
            "block circles(t, d)() -> [t, d] where d % 2 == 0:\n"
            "  pairs = d\n"
            "  speed = exp(f32(iota(pairs)) * (-log(100) / pairs))\n"
            "  turn = insert_axis(f32(iota(t)), 1, pairs) * speed\n"
            "  return concat(cos(turn), sin(turn), axis=1)\n"
        ),
        {"pairs = d": "pairs = d // 2"},
        "two parts of `pairs` are joined, and `pairs` is all of `d`",
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_the_slip_is_the_first_cure(slip: str) -> None:
    program, edits, reason = SLIPS[slip]
    meant = program
    for wrong, right in edits.items():
        assert wrong in meant
        meant = meant.replace(wrong, right)
    assert errors(meant) == ()
    cure = errors(program)[0].help
    assert cure is not None
    assert reason in cure.text
    changed = [
        f"line {number}:  {after.strip()}"
        for number, (before, after) in enumerate(
            zip(program.splitlines(), meant.splitlines(), strict=True), 1
        )
        if before != after
    ]
    assert (cure.code or "").splitlines()[: len(changed)] == changed


@pytest.mark.parametrize("slip", SLIPS)
def test_no_fix_makes_the_slip_pass(slip: str) -> None:
    program, _, _ = SLIPS[slip]
    assert fixed(program) == program


def test_a_product_in_brackets_is_piped_as_it_is() -> None:
    program, _, _ = SLIPS["a pipe behind a product"]
    cure = errors(program.replace("opened * value |>", "(opened * value) |>"))[0].help
    assert cure is not None
    assert "the pipe takes" not in cure.text
    assert "opens: linear(wide)" in (cure.code or "")


def test_sines_and_cosines_of_all_angles_are_explained() -> None:
    """No name says how many there are, so no edit is offered."""
    program, _, _ = SLIPS["all of a width in two parts"]
    wide = program.replace("  pairs = d\n", "").replace("pairs", "d")
    cure = errors(wide)[0].help
    assert cure is not None
    assert cure.code is None
    assert cure.text == (
        "the sines and the cosines of d angles are 2*d numbers: axis 1 of\n"
        "`turn` has to be half of what is declared, d//2"
    )


POSITIONS = (
    "block Marks({given}d)(x: [n, s, d]) -> [n, s, d]{where}:\n"
    "  at = {at} |> table: embedding({rows}, d)\n"
    "  return x + expand(at, [s, d] -> [n, s, d])\n"
)


@pytest.mark.parametrize("at", ["(iota(s) + 1)", "(1 + iota(s))"])
def test_positions_from_one_are_told_to_begin_at_zero(at: str) -> None:
    """A larger table would take them, and is not what is meant."""
    some = POSITIONS.format(given="rows, ", where=" where s <= rows", at=at, rows="rows")
    (note,) = check_text(Source("net.mgn", some)).reports
    assert note.help is not None
    assert (note.code, note.help.code) == ("N0005", "iota(s)")
    assert "leave the `+ 1` out" in note.help.text
    certain = POSITIONS.format(given="", where="", at=at, rows="20").replace("s, d]", "20, d]")
    (error,) = errors(certain.replace("(s)", "(20)"))
    assert error.help is not None
    assert error.code == "E0323"
    assert "line 2:  at = iota(20) |> table: embedding(20, d)" in (error.help.code or "")


MIXED = (
    "block Mixed(k)(x: [n, c, t], y: [n, c, u]) -> [n, c, t - k + 1]:\n"
    "  z = x + y\n"
    "  return x |> a: conv1d(c, k)\n"
)
"""It lacks `t >= k`, and no fact makes its sum one."""
LACKING = (
    "block Lacking(heads, m)(x: [n, d], y: [n, t]) -> [n, heads, d // heads], [n, m]:\n"
    "  return x |> rearrange([n, heads * e] -> [n, heads, e]), y[:, :m]\n"
)
"""It lacks `d % heads == 0` and `m <= t`."""


def test_a_fact_that_leaves_the_block_refused_is_no_fix() -> None:
    (lacking,) = (each for each in errors(MIXED) if each.code == "E0311")
    assert lacking.help is not None
    assert lacking.help.edits == ()
    assert lacking.help.code == "where t >= k"
    assert "mend the other errors first" in lacking.help.text
    assert fixed(MIXED) == MIXED


def test_facts_that_mend_the_block_together_are_fixes() -> None:
    assert all(each.help is not None and each.help.edits for each in errors(LACKING))
    assert errors(fixed(LACKING)) == ()
