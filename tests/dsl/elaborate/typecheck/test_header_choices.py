"""Choices in signatures: types, facts, defaults and headers are proved whichever way they go."""

from random import Random
from textwrap import dedent

import pytest

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.gradcheck.cases import choose_case
from meganeura_dsl.gradcheck.random_sizes import DeadEndError
from meganeura_dsl.gradcheck.subjects import block_subject
from meganeura_dsl.pipeline import check
from tests.effort import effort

REFUSED = {
    "a fact that the first branch states": (
        "E0305", "k > 3",
        """\
        block Use(k)(x: [n, a]) -> [n, a - k]
            where (k if k <= 3 else 3) < a:
          return x[:, k:]
        """,
    ),
    "a fact by a switch": (
        "E0305", "not deep",
        """\
        block Use(k, deep: bool)(x: [n, a]) -> [n, a - k]
            where a > (k if deep else 1):
          return x[:, k:]
        """,
    ),
    "a fact by a function": (
        "E0305", "k > m",
        """\
        def least(a, b) = a if a <= b else b
        block Use(k, m)(x: [n, a]) -> [n, a - k]
            where least(k, m) < a:
          return x[:, k:]
        """,
    ),
    "a fact by the mode": (
        "E0305", "not training",
        """\
        block Use()(x: [n, a]) -> [n, a - 4]
            where a > (4 if training else 1):
          return x[:, 4:]
        """,
    ),
    "a condition that is chosen": (
        "E0305", "not deep",
        """\
        block Use(k, deep: bool)(x: [n, a]) -> [n, a - k]
            where (a > k if deep else a >= k):
          return x[:, k:]
        """,
    ),
    "a choice behind and": (
        "E0305", "not deep",
        """\
        block Use(k, deep: bool)(x: [n, a]) -> [n, a - k]
            where k >= 2 and a > (k if deep else k - 1):
          return x[:, k:]
        """,
    ),
    "a choice in a choice": (
        "E0305", "not deep and wide",
        """\
        block Use(k, deep: bool, wide: bool)(x: [n, a]) -> [n, a - k]
            where a > (k if deep else (1 if wide else k)):
          return x[:, k:]
        """,
    ),
    "the type of an input": (
        "E0303", "not deep",
        """\
        block Use(k, deep: bool)(x: [n, k if deep else 2 * k]) -> [n, k]:
          return x
        """,
    ),
    "the type of an input by the mode": (
        "E0303", "not training",
        """\
        block Use(k)(x: [n, k if training else 2 * k]) -> [n, k]:
          return x
        """,
    ),
    "the type of an input that a call gives": (
        "E0308", "not deep",
        """\
        block Use(k, deep: bool)(x: [n, k if deep else 2 * k]) -> [n, k]:
          return x[:, :k]
        block Outer(k, deep: bool)(x: [n, k]) -> [n, k]:
          return Use(k, deep)(x)
        """,
    ),
    "a fact that a call needs": (
        "E0311", "",
        """\
        block Use(k, deep: bool)(x: [n, a]) -> [n, 1]
            where a > (k if deep else 1):
          return x[:, k:k + 1] if deep else x[:, 1:2]
        block Outer(k, deep: bool)(x: [n, k + 1]) -> [n, 1]:
          return Use(k + 1, deep)(x)
        """,
    ),
    "the result of a call": (
        "E0303", "not deep",
        """\
        block Use(k, deep: bool)(x: [n, k]) -> [n, k if deep else 2 * k]:
          return x if deep else concat(x, x, axis=1)
        block Outer(k, deep: bool)(x: [n, k]) -> [n, k]:
          return Use(k, deep)(x)
        """,
    ),
    "a default": (
        "E0220", "not deep",
        """\
        block Use(k: size, deep: bool, m: size = k if deep else k - 1)(x: [n, m]) -> [n, m]:
          return x
        """,
    ),
    "the configuration of a model": (
        "E0303", "not training",
        """\
        block Cut(k)(x: [n, d]) -> [n, d - k]
            where d > k:
          return x[:, k:]
        model net = Cut(3 if training else 4)
        block Outer()(x: [n, 8]) -> [n, 5] = net(x)
        """,
    ),
    "the header of a block that is given": (
        "E0221", "",
        """\
        block Takes(act: block (k, deep: bool)(x: [n, k if deep else 2 * k]) -> [n, k])(
            x: [n, 8]) -> [n, 4]:
          return act(4, false)(x)
        block Same(_k, _deep: bool)(x: [n, m]) -> [n, m] = x
        block Outer()(x: [n, 8]) -> [n, 4] = Takes(Same)(x)
        """,
    ),
}  # fmt: skip

HOLDS = {
    "each branch is used where it holds": """\
        block Use(k, deep: bool)(x: [n, a]) -> [n]
            where a > (1 if deep else k):
          return x[:, 1] if deep else x[:, k]
        """,
    "one branch alone is possible": """\
        block Use(k)(x: [n, a], y: [n, k]) -> [n, k - a]
            where (a if a >= k else k) > a:
          return y[:, a:] + sum(x)
        """,
    "a call knows the switch": """\
        block Use(k, deep: bool)(x: [n, k if deep else 2 * k]) -> [n, k]:
          return x if deep else x[:, :k]
        block Outer(k)(x: [n, 2 * k], y: [n, k]) -> [n, k]:
          return Use(k, deep=false)(x) + y
        block Both(k, deep: bool)(x: [n, k if deep else 2 * k]) -> [n, k]:
          return Use(k, deep)(x)
        """,
    "a result is chosen": """\
        block Use(k, deep: bool)(x: [n, k]) -> [n, k if deep else 2 * k]:
          return x if deep else concat(x, x, axis=1)
        block Outer(k, deep: bool)(x: [n, k]) -> [n, k if deep else 2 * k]:
          return Use(k, deep)(x)
        """,
    "a fact that a call proves on both sides": """\
        block Use(k, deep: bool)(x: [n, a]) -> [n, 1]
            where a > (k if deep else 1):
          return x[:, k:k + 1] if deep else x[:, 1:2]
        block Outer(k, deep: bool)(x: [n, k + 1]) -> [n, 1]:
          return Use(k, deep)(x)
        """,
    "a block that is given": """\
        block Takes(act: block (k, deep: bool)(x: [n, k if deep else 2 * k]) -> [n, k])(
            x: [n, 8]) -> [n, 4]:
          return act(4, false)(x)
        block Fits(k, deep: bool)(x: [n, k if deep else 2 * k]) -> [n, k]:
          return x if deep else x[:, :k]
        block Outer()(x: [n, 8]) -> [n, 4] = Takes(Fits)(x)
        """,
    "a fact that chooses by a size that the data decides": """\
        block Use(k)(x: [n, a]) -> [n, a - k]
            where (k if a >= 6 else 3) < a, k < a:
          return x[:, k:]
        model cut = Use(2)
        expect cut maps [n, 5] -> [n, 3]
        train fit(x: [batch, a])
            where (a if a >= 5 else 5) > 3, a > 3:
          minimize mean(x |> cut)
        """,
}


def _checked(text: str) -> tuple[list[str], tuple[str, ...], str]:
    result = check(Source("net.mgn", dedent(text)), lambda _: None)
    said = " | ".join(row.text for report in result.reports for row in report.remarks)
    return [report.code for report in result.reports], result.proved, said


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_branch_breaks_is_refused(name: str) -> None:
    code, path, text = REFUSED[name]
    codes, _, said = _checked(text)
    assert codes == [code]
    assert path in said


@pytest.mark.parametrize("name", HOLDS)
def test_what_every_branch_keeps_is_proved(name: str) -> None:
    text = HOLDS[name]
    codes, proved, _ = _checked(text)
    assert codes == []
    assert len(proved) == text.count("block ") - text.count(": block ")


def test_a_size_that_a_call_solves_for_may_be_none() -> None:
    """`Use` is proved for every `c` from 1, and a call may leave less for it."""
    use = "block Use(k: size)(x: [n, c + k]) -> [n, k] = x[:, :k]\n"
    codes, proved, _ = _checked(
        use + "block Less(k: size)(x: [n, k]) -> [n, k + 1] = Use(k + 1)(x)"
    )
    assert (codes, proved) == (["E0305"], ("Use",))
    codes, proved, _ = _checked(use + "block None_(k: size)(x: [n, k]) -> [n, k] = Use(k)(x)")
    assert (codes, proved) == ([], ("Use", "None_"))


def test_a_size_that_a_header_solves_for_is_one_at_least() -> None:
    codes, proved, _ = _checked("""\
        block Takes(act: block (k: size)(x: [n, c + k]) -> [n, c], k: size)(x: [n, k]) -> [n]:
          return sum(act(k + 1)(x), 1) + sum(x, 1)
        """)
    assert (codes, proved) == (["E0404"], ())


def test_a_mode_in_a_type_is_no_size() -> None:
    codes, proved, _ = _checked("""\
        block Use(k)(x: [n, k if training else 2 * k]) -> [n, k] = x[:, :k]
        """)
    assert (codes, proved) == ([], ("Use",))


def test_a_case_is_drawn_on_each_side_of_a_type() -> None:
    text = "block Use(k, deep: bool)(x: [n, k if deep else 2 * k]) -> [n, k] = x[:, :k]\n"
    module = Linker(lambda _: None, Sink()).link(Source("net.mgn", text))
    subject = block_subject(module, module.blocks["Use"])
    seen: set[object] = set()
    for seed in range(effort(40, 200)):
        try:
            case = choose_case(Random(seed).choice, subject)
        except DeadEndError:
            continue
        (_, x), k = case.inputs[0], case.config["k"]
        assert isinstance(k, int)
        assert x.shape[1] == (k if case.config["deep"] else 2 * k)
        seen.add(case.config["deep"])
    assert seen == {True, False}
