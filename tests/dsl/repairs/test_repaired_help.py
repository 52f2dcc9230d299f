"""A wrong program is answered with the slip that undoes it, once that was tried."""

from functools import cache

import pytest

from meganeura_dsl.diagnostics.report import Help, Report, Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check_text
from tests.effort import effort


@cache
def errors(program: str) -> tuple[Report, ...]:
    """The errors that `meganeura check` prints."""
    reports = check_text(Source("net.mgn", program)).reports
    return tuple(each for each in reports if each.severity is Severity.ERROR)


def first_help(program: str) -> Help:
    """The help of the first error."""
    found = errors(program)[0].help
    assert found is not None
    return found


SLIPS = {
    "a reduction over the other axis": (
        "block unit()(x: [n, d]) -> [n, d] = x / expand(sqrt(sum(x * x, {})), [n] -> [n, d])\n",
        "0",
        "1",
    ),
    "a reduction over one axis of two": (
        (
            "block Dice()(p: [n, h, w], q: [n, h, w]) -> [n]:\n"
            "  return sum(p * q, {}) / (sum(p, 1, 2) + sum(q, 1, 2))\n"
        ),
        "1",
        "1, 2",
    ),
    "a name for another": (
        (
            "block Kv(heads, kv, hd)(x: [n, s, d]) -> [n, s, heads], [n, kv, s, hd]:\n"
            "  k = x |> k: linear({} * hd)\n"
            "  return x |> q: linear(heads), k |> rearrange([n, s, kv * hd] -> [n, kv, s, hd])\n"
        ),
        "heads",
        "kv",
    ),
    "a part of the other axis": (
        (
            "block Weighted(e)(x: [n, d], share: [n, e]) -> [n, d]:\n"
            "  y = zeros([n, d])\n"
            "  for i in 0..e:\n"
            "    y = y + expand(share[{}], [n] -> [n, d]) * x\n"
            "  return y\n"
        ),
        "i",
        ":, i",
    ),
    "stages in another order": (
        "block Head(k)(x: [n, c, t]) -> [n, k] = x |> {}\n",
        "fc: linear(k) |> mean(2)",
        "mean(2) |> fc: linear(k)",
    ),
    "an off-by-one": (
        "block Half(d)(x: [n, 2 * d]) -> [n, d] = x[:, {}:]\n",
        "d + 1",
        "d",
    ),
    "a factor left out": (
        (
            "block Causal(k, dilation)(x: [n, c, t]) -> [n, c, t] where k >= 1, dilation >= 1:\n"
            "  return pad(x, 2, before={}) |> conv: conv1d(c, k, dilation=dilation)\n"
        ),
        "k - 1",
        "(k - 1) * dilation",
    ),
    "channels that are last": (
        "block Front(d)(mel: [n, t, 80]) -> [n, d, t] = mel{} |> conv: conv1d(d, 3, pad=1)\n",
        "",
        " |> rearrange([a, b, c] -> [a, c, b])",
    ),
    "an input of another kind": (
        "block Ids()(x: {}[n, s]) -> [n, s, 8] = x |> table: embedding(50, 8)\n",
        "",
        "i32",
    ),
}


@pytest.mark.parametrize("slip", effort([*SLIPS][::2], [*SLIPS]))
def test_the_slip_that_was_made_is_asked_about(slip: str) -> None:
    """The line as it was meant stands first, in words: no fix makes it."""
    program, wrong, right = SLIPS[slip]
    cure = first_help(program.replace("{}", wrong))
    _, _, shown = (cure.code or "").splitlines()[0].partition(":  ")
    meant = program.replace("{}", right)
    assert shown in [line.strip() for line in meant.splitlines()]
    assert not cure.edits
    assert errors(meant) == ()


def test_a_fact_that_a_model_refutes_is_not_suggested() -> None:
    """`base % 6 == 0` holds for no model of the file."""
    program = (
        "block Net(base)(x: [n, base, h, w]) -> [n, base, h, w] where base % 8 == 0:\n"
        "  return x |> norm: group_norm(6)\n"
        "model net = Net(base=32)\n"
    )
    cure = first_help(program)
    assert "where" not in (cure.code or "")
    assert not cure.edits
    assert "group_norm(8)" in (cure.code or "")


def test_a_fact_that_mends_a_block_is_suggested() -> None:
    """Of what follows from a fact the fact is the cure; a caller may have to state it too."""
    program = (
        "block Half()(x: [n, c, h]) -> [n, c, h // 2] = x[:, :, :h // 2]\n"
        "block Two()(x: [n, c, h]) -> [n, c, h // 2] = x |> Half\n"
    )
    assert first_help(program).edits


def test_a_further_error_of_a_mended_declaration_says_so() -> None:
    """It is no second mistake."""
    program, wrong, _ = SLIPS["a factor left out"]
    _, *others = errors(program.replace("{}", wrong))
    assert others
    for each in others:
        assert each.help is not None
        assert each.help.text.startswith("the edit that the error in line 2 asks about")
