"""Limits: what doubles at every level ends soon and is told; honest programs stay far off."""

import subprocess
import sys
from pathlib import Path

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations import models
from meganeura_dsl.elaborate.typecheck.static_arithmetic import KindError, combine, length_of_list
from meganeura_dsl.elaborate.values import ElabValue, StaticValue, TensorList
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.types import DType
from meganeura_dsl.limits import language_limits
from meganeura_dsl.limits.language_limits import (
    HIGHEST_DEGREE,
    LONGEST_LIST,
    MOST_DIGITS,
    MOST_TERMS,
)
from meganeura_dsl.limits.work_budget import Budget, OutOfWorkError, spend, within
from meganeura_dsl.pipeline import CheckResult, check, check_file
from meganeura_dsl.resources import standard_models
from meganeura_dsl.symbolic.size import dim


def checked(text: str) -> CheckResult:
    return check(Source("x.mgn", text), lambda _: None)


def steps(text: str) -> int:
    budget = Budget(10**9)
    with within(budget):
        checked(text)
    return budget.spent


def codes(text: str) -> list[str]:
    return [report.code for report in checked(text).reports]


def chain(first: str, each: str, count: int) -> str:
    """Declarations of which each speaks of the one before it."""
    levels = (each.format(this=level, last=level - 1) for level in range(1, count + 1))
    return "\n".join([first, *levels, ""])


SUMS = chain("def f0(n) = n + n", "def f{this}(n) = f{last}(n) + f{last}(n)", 60)
SQUARES = chain("def f0(n) = n * n", "def f{this}(n) = f{last}(f{last}(n))", 30)
FLOORS = chain("def f0(n) = n * n // 3", "def f{this}(n) = f{last}(n) * f{last}(n) // 3", 30)
BOTH = chain("def f0(n) = n > 1", "def f{this}(n) = f{last}(n) == f{last}(n)", 30)
WHERE = "block A()(x: [{}])\n    where {}:\n  return x\n"
LOOP = "block A()(x: [n, d]):\n  a = [1, 2]\n  for i in 0..100:\n    {}\n  return x\n"
NAMES = [f"d{index}" for index in range(20)]
CLAUSES = [
    f"({a}*{b} - {i}) // ({c}+1) >= {b} % ({a}+2)"
    for i, (a, b, c) in enumerate(zip(NAMES, NAMES[7:] + NAMES, NAMES[3:] + NAMES, strict=False))
]

MANY = ", ".join(f"a{index}={index}" for index in range(3_000))
FACTS = ", ".join(f"n >= {index}" for index in range(3_000))

TOLD = {
    "many parameters": (f"block A({MANY})(x: [n]) -> [n]:\n  return x\n", "E0330"),
    "many facts": (WHERE.format("n", FACTS), "E0330"),
    "a square of squares": (SQUARES + WHERE.format("n, d", "f30(d) > 5"), "E0203"),
    "a number of 10**9 digits": (SQUARES + WHERE.format("n, d", "f30(2) > d"), "E0203"),
    "floors in floors": (FLOORS + WHERE.format("n, d", "f30(d) > 5"), "E0203"),
    "conditions of conditions": (BOTH + WHERE.format("n, d", "f30(d)"), "E0203"),
    "a list that doubles": (LOOP.format("a = a + a"), "E0203"),
    "a list of tensors that doubles": (LOOP.replace("[1, 2]", "[x]").format("a = a + a"), "E0203"),
    "lists in lists": (LOOP.format("a = [a, a]"), "E0203"),
    "a tensor of many axes": (LOOP.format("x = insert_axis(x, 0, 2)"), "E0331"),
    "an input of many axes": (f"block A()(x: [{', '.join(['n'] * 33)}]) = x\n", "E0331"),
    "a tensor of many elements": (LOOP.format("x = repeat(x, 0, 1000)"), "E0332"),
    "a weight of many elements": (
        "block A()(x: [n, 4]):\n  param w: [4, 10 ** 19] = zeros\n  return x @ w\nmodel m = A()\n",
        "E0332",
    ),
}


@pytest.mark.parametrize(("text", "code"), TOLD.values(), ids=TOLD)
def test_what_gets_too_large_is_told(text: str, code: str) -> None:
    assert code in codes(text)


FOUR = "(n > 1 or n > 1 or n > 1 or n > 1)"
MOST = FOUR.replace("n > 1", FOUR).replace("n > 1", FOUR).replace("n > 1", FOUR)
"""A condition of as many comparisons as a condition may have."""
LIMITS = {
    "digits of a number": ("10 ** 299 * 9", "10 ** 299 * 10"),
    "digits of a power": ("2 ** 996", "2 ** 997"),
    "digits of another power": ("10 ** 299", "10 ** 300"),
    "a power of one": ("1 ** 400 * (-1) ** 400 * (1 + 0 ** 400)", "1 ** 400 * (-2) ** 1000"),
    "an exponent": ("n ** 32", "n ** 33"),
    "a degree": ("n ** 16 * n ** 16", "n ** 16 * n ** 17"),
    "a degree of several sizes": ("n ** 16 * d ** 15 * d", "n ** 16 * (n + d) ** 17"),
    "times an item": ("len([0] * 100000)", "len([0] * 100001)"),
    "times two items": ("len([0, 1] * 50000)", "len([0, 1] * 50001)"),
    "an item more": ("len([0] * 99999 + [0])", "len([0] * 100000 + [0])"),
    "a list inside": ("len([[0] * 99998] + [[]])", "len([[0] * 99999] + [[]])"),
    "comparisons": (f"(1 if {MOST} else 1)", f"(1 if {MOST} or n > 1 else 1)"),
}
"""Numbers that are as large as they may be, and one that is larger."""


@pytest.mark.parametrize(("most", "more"), LIMITS.values(), ids=LIMITS)
def test_what_is_as_large_as_may_be_is_not_refused(most: str, more: str) -> None:
    block = "block A()(x: [n, d]):\n  return x * ({0} - {0} + 1)\n"
    assert codes(block.format(most)) == []
    assert set(codes(block.format(more))) == {"E0203"}  # it stands there twice


@pytest.mark.parametrize(
    ("shape", "code"),
    [
        (", ".join(["1"] * 32), []),
        (", ".join(["1"] * 33), ["E0331"]),
        ("2 ** 60, 7", []),
        (f"{2**63 - 1}", []),
        (f"{2**63 - 1}, n", []),
        ("2 ** 60, 8", ["E0332"]),
        ("2 ** 60, n + 7", ["E0332"]),
        ("2 ** 60, n, n + 6, n", []),
    ],
)
def test_a_tensor_may_be_as_large_as_a_device_could_hold(shape: str, code: list[str]) -> None:
    assert codes(f"block A()(x: [n, {shape}]):\n  return x\n".replace("[n, 1", "[1")) == code


def test_a_size_may_have_as_many_terms_as_the_limit() -> None:
    sums = [" + ".join(f"{letter}{number}" for number in range(10)) for letter in "abc"]
    sides = ", ".join(f"{letter}{number}" for letter in "abc" for number in range(10))
    size = " * ".join(f"({each})" for each in sums)
    assert codes(f"block A()(x: [{sides}])\n    where {size} > 0:\n  return x\n") == []
    assert codes(f"block A()(x: [{sides}])\n    where {size} + 1 > 0:\n  return x\n") == ["E0330"]


def test_a_def_is_worked_out_once_for_equal_arguments() -> None:
    assert steps(SUMS + WHERE.format("n, d", "f60(d) > 5")) < 20_000
    assert codes(SUMS + WHERE.format("n, d", "f60(d) > 5") + "model m = A()\n") == []


def test_an_argument_of_another_kind_is_another_argument() -> None:
    text = "def half(n) = n / 2\nblock A()(x: [n, d]) = x * half(1){}\nmodel m = A()\n"
    assert codes(text.format("")) == []
    assert codes(text.format(" * half(true)")) == ["E0203"]


def test_a_question_that_is_too_hard_leaves_the_rest_to_be_checked() -> None:
    text = WHERE.format(", ".join(NAMES), ", ".join(CLAUSES[:6])) + "block B()(x: [n]) = x @ x\n"
    assert steps(text) < language_limits.CHECK
    assert codes(text) == ["E0320"]


def test_the_same_text_takes_the_same_steps() -> None:
    text = WHERE.format("d0, d1, d2, d3, d7", ", ".join(CLAUSES[:1]))
    program = f"from tests.dsl.elaborate.problems.test_limits import steps; print(steps({text!r}))"
    counts = {steps(text), steps(text)}
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        cwd=Path(__file__).parents[4], env={"PYTHONHASHSEED": "1"},
    )  # fmt: skip
    counts.add(int(run.stdout))
    assert len(counts) == 1


def test_the_largest_standard_models_are_far_from_the_limit() -> None:
    budget = Budget(10**9)
    with within(budget):
        assert check_file(str(standard_models() / "repvgg.mgn")).fine
    assert budget.spent < language_limits.CHECK / 2


def test_a_model_that_is_elaborated_outside_of_a_check_has_a_budget_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "net.mgn"
    file.write_text("""
block Deep(depth)(x: [n, 4]) -> [n, 4]:
  for i in 0..depth:
    x = x |> layer[i]: linear(4)
  return x

model net = Deep(depth=2)
""")
    program = pipeline.load(str(file))
    monkeypatch.setattr(models, "CHECK", 2_000)
    pipeline.elaborate_model(program)
    with pytest.raises(ProblemError, match="E0330"):
        pipeline.elaborate_model(program, config={"depth": 200})


# --- budgets -------------------------------------------------------------------------------------


def test_a_budget_counts_what_a_budget_inside_it_does() -> None:
    outer, inner = Budget(100), Budget(70)
    with within(outer):
        with within(inner):
            spend(60)
        with pytest.raises(OutOfWorkError), within(inner):
            spend(11)
        assert (outer.spent, inner.spent) == (0, 71)  # the outer one is settled when it is left
    assert outer.spent == 71


def test_a_budget_inside_is_no_larger_than_what_is_left() -> None:
    outer = Budget(100)
    with pytest.raises(OutOfWorkError), within(outer), within(Budget(1000)):
        spend(101)
    assert outer.is_spent


def test_without_a_budget_nothing_is_counted() -> None:
    spend(10**12)
    assert dim("h") ** 3 == dim("h") * dim("h") * dim("h")


def test_a_floor_takes_its_steps_each_time() -> None:
    counts: list[int] = []
    for _ in range(2):
        budget = Budget(10**6)
        with within(budget):
            assert (dim("h") * 3 + 17) // (dim("w") + 2) != 0
        counts.append(budget.spent)
    assert counts[0] == counts[1] > 0


X, Y = dim("x"), dim("y")
MANY = sum((dim(f"x{number}") for number in range(1, MOST_TERMS)), dim("x0"))
ONES: list[StaticValue] = [1] * LONGEST_LIST
TENSOR = Builder().add(Input("x", DType.F32, ()))
ALONE, ALL = TensorList((TENSOR,)), TensorList((TENSOR,) * LONGEST_LIST)
LARGEST = 10**MOST_DIGITS - 1
AT_LIMITS: dict[str, tuple[ElabValue, str, ElabValue, bool]] = {
    "as many items": (ONES[1:], "+", [1], True),
    "one item more": (ONES, "+", [1], False),
    "as many items, repeated": ([1, 1], "*", LONGEST_LIST // 2, True),
    "items more, repeated": ([1, 1], "*", LONGEST_LIST // 2 + 1, False),
    "as many items with those inside": ([ONES[2:]], "+", [1], True),
    "one item more with those inside": ([ONES[1:]], "+", [1], False),
    "as many tensors": (
        TensorList((TENSOR,) * (LONGEST_LIST - 1)),
        "+",
        TensorList((TENSOR,)),
        True,
    ),
    "one tensor more": (ALL, "+", ALONE, False),
    "as many terms": (MANY, "+", 1 - dim("x0"), True),
    "one term more": (MANY, "+", 1, False),
    "as many digits": (LARGEST - 1, "+", 1, True),
    "as many digits below zero": (1 - LARGEST, "-", 1, True),
    "two digits more": (10 * LARGEST, "*", 10, False),
    "two digits more below zero": (10 * LARGEST, "*", -10, False),
    "a factor of as many digits": (X, "*", LARGEST, True),
    "a factor of two digits more": (100 * X, "*", LARGEST, False),
    "a factor of two digits more below zero": (-100 * X, "*", LARGEST, False),
    "one of two factors that has two digits more below zero": (X - 100 * Y, "*", LARGEST, False),
    "as high a degree": (X ** (HIGHEST_DEGREE - 1), "*", Y, True),
    "one degree more": (X**HIGHEST_DEGREE, "*", Y, False),
    "one degree more in one term": (X**HIGHEST_DEGREE + Y, "*", Y + 1, False),
    "as high a power": (X, "**", HIGHEST_DEGREE, True),
    "one power more": (X, "**", HIGHEST_DEGREE + 1, False),
    "one digit more": (LARGEST, "+", 1, False),
    "one digit more below zero": (-LARGEST, "-", 1, False),
    "a factor of one digit more": (10 * X, "*", LARGEST, False),
    "a power of as many digits": (10, "**", MOST_DIGITS - 1, True),
    "the largest power": (LARGEST, "**", 1, True),
    "a power of one digit more": (10, "**", MOST_DIGITS, False),
    "a power of one digit more below zero": (-10, "**", MOST_DIGITS + 1, False),
    "a power of more digits": (10, "**", MOST_DIGITS + 1, False),
    "any power of one": (-1, "**", 10**9 + 1, True),
}


@pytest.mark.parametrize("name", AT_LIMITS)
def test_what_is_at_a_limit_is_taken_and_what_is_above_is_not(name: str) -> None:
    left, operator, right, is_taken = AT_LIMITS[name]
    if is_taken:
        combine(operator, left, right)
        return
    with pytest.raises(KindError):
        combine(operator, left, right)


@pytest.mark.parametrize(
    ("items", "length"), [([], 0), ([[]], 1), ([1, [2, [3]], [4]], 7), ([[1, 1], [1, 1]], 6)]
)
def test_a_list_is_as_long_as_all_it_holds(items: list[StaticValue], length: int) -> None:
    assert length_of_list(items) == length
