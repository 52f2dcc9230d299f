"""At 0, at knots and far out each side has its slope, and the gradient is held against them."""

from random import Random

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.gradcheck.case_search import SearchBudget, check_gradients
from meganeura_dsl.gradcheck.cases import Case, choose_case
from meganeura_dsl.gradcheck.probe import probe
from meganeura_dsl.gradcheck.random_inputs import InputDistribution, RandomInputs, knots_of
from meganeura_dsl.gradcheck.stated_numbers import agree, stated_numbers
from meganeura_dsl.gradcheck.subjects import Subject, subjects
from meganeura_dsl.gradcheck.verdict_text import describe
from meganeura_dsl.gradcheck.verdicts import DividesByZero, Failed, Passed, Verdict, WrongAtPoint
from meganeura_dsl.ir.graph import Builder, Value
from meganeura_dsl.ir.ops import Cast, Compare, Mul, Tanh
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType, TensorType
from tests.effort import effort


def subject(text: str) -> Subject:
    sink = Sink()
    module = Linker(lambda _: None, sink).link(Source("net.mgn", text))
    assert not sink.has_errors, sink.reports
    return subjects(module)[0]


def checked(formula: str, examples: int = 40) -> Verdict:
    """Returns the verdict on a function of one tensor."""
    return check_gradients(
        subject(f"block f()(x: [...s]) -> [...s] = {formula}\n"), SearchBudget(examples)
    )


@pytest.mark.parametrize(
    "formula",
    [
        "relu(x) + log(1 + exp(-abs(x)))",  # softplus, with a slope of 0 at 0
        "relu(x - 0.7) - relu(0.7 - x)",  # a knot of its own
        *effort(
            [],
            [
                "relu(x) + minimum(exp(minimum(x, 0)) - 1, 0)",  # elu, with a slope of 1/4
                "relu(x) - relu(-x)",
                "maximum(x, 3) + minimum(x, 3) + relu(x - 3) - relu(3 - x)",
            ],
        ),
    ],
)
def test_what_is_smooth_although_its_parts_are_not_has_its_slope(formula: str) -> None:
    verdict = checked(formula, examples=120)
    assert isinstance(verdict, Failed)
    assert isinstance(verdict.fault, WrongAtPoint)
    assert not verdict.fault.slope.is_kink
    assert verdict.fault.culprit is None
    assert " from both sides; reverse mode says " in describe(verdict)
    assert "write it as one formula that is smooth" in describe(verdict)
    assert verdict.case.inputs[0][1].shape in {(1,), (2,), (3,)}


def test_a_kink_has_a_slope_between_those_of_its_sides() -> None:
    verdict = checked("relu(x) - 0.1 * relu(-x)")
    assert isinstance(verdict, Failed)
    assert isinstance(verdict.fault, WrongAtPoint)
    assert verdict.fault.slope.is_kink
    assert "the slopes on its two sides; reverse mode says 0" in describe(verdict)


@pytest.mark.parametrize(
    ("formula", "has_kinks"),
    [
        ("relu(x) + abs(x)", True),
        ("where(x > 0, x, 0.1 * x)", True),
        ("minimum(maximum(x, -1), 1)", True),
        ("maximum(x, 3) + x * floor(x / 100)", True),
        ("softplus(x) + elu(x) + silu(x) + tanh(x)", False),
        ("x * abs(x)", False),
        ("x + stop_gradient(round(x) - x)", False),
        ("round(x) * x", False),
    ],
)
def test_what_is_right_at_special_points_is_fine(formula: str, *, has_kinks: bool) -> None:
    verdict = checked(formula)
    assert isinstance(verdict, Passed), describe(verdict)
    assert verdict.special > 0
    assert (verdict.kinks > 0) is has_kinks
    assert ("at kinks)" in describe(verdict)) is has_kinks


def test_a_head_that_begins_at_zeros_is_stood_on() -> None:
    """The inputs are no special numbers, what reaches the kinks is 0."""
    text = (
        "block f()(x: [n, c]) -> [n]:\n"
        "  y = x |> head: linear(1) |> sum(1)\n"
        "  return relu(y) + log(1 + exp(-abs(y)))\n"
    )
    verdict = check_gradients(subject(text), SearchBudget(40))
    assert isinstance(verdict, Failed)
    assert "the gradient along head." in describe(verdict)
    sound = text.replace("relu(y) + log(1 + exp(-abs(y)))", "relu(y) + softplus(y)")
    assert isinstance(check_gradients(subject(sound), SearchBudget(40)), Passed)


def test_examples_that_reach_their_kinks_together_choose_each_for_itself() -> None:
    """With weights of 0 all examples of a network of rectifiers are at its kinks."""
    text = (
        "block f()(x: [n, 3]) -> [n, 2]:\n"
        "  return x |> a: linear(3) |> relu |> b: linear(2) |> relu\n"
    )
    verdict = check_gradients(subject(text), SearchBudget(60))
    assert isinstance(verdict, Passed), describe(verdict)


def test_an_op_that_is_wrong_at_zero_alone_is_located(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Tanh.pullback

    def wrong(op: Tanh, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        """As if tanh were multiplied by the square of its sign."""
        (gradient,) = right(op, build, out, cotangent)
        assert gradient is not None
        is_off = build.add(Compare("ne"), out, full(build, out.type, 0))
        return (build.add(Mul(), gradient, build.add(Cast(out.type.dtype), is_off)),)

    monkeypatch.setattr(Tanh, "pullback", wrong)
    verdict = checked("tanh(x)")
    assert isinstance(verdict, Failed)
    assert isinstance(verdict.fault, WrongAtPoint)
    assert "first wrong: `Tanh`" in describe(verdict)


def test_a_gradient_that_is_missing_is_found_where_the_function_bends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a slope of 0 any error was more than a thousandth, so that nothing was decided."""

    def nothing(_op: Tanh, build: Builder, _out: Value, cotangent: Value) -> tuple[Value]:
        return (full(build, cotangent.type, 0),)

    monkeypatch.setattr(Tanh, "pullback", nothing)
    assert isinstance(checked("tanh(x)"), Failed)


def test_the_constants_of_a_program_are_among_the_numbers() -> None:
    found = subject("block f()(x: [n]) -> [n] = relu(x - 0.75) + 1000 * x\n")
    graph = choose_case(Random(0).choice, found).elaborate().graph
    knots = knots_of(graph)
    assert {0.0, 0.75, -0.75, 6.0} <= {*knots}
    assert max(knots) < 1000
    numbers = RandomInputs(3, InputDistribution.SPECIAL).feeds(graph)["x"]
    assert {*np.asarray(numbers).tolist()} <= {*knots}
    positive = RandomInputs(3, InputDistribution.SPECIAL_POSITIVE).feeds(graph)["x"]
    assert np.asarray(positive).min() > 0


@pytest.mark.parametrize(
    ("where", "body", "allowed"),
    [
        ("0 <= i, i < n", "gather(flat, i * h)", {0, 1, 2}),
        ("-1 <= i, i < 3", "expand(f32(i[0]), [] -> [m, 2])", {-1, 0, 1, 2}),
        ("2 <= i, i < n", "gather(flat, i * h)", {2}),
        ("i % 2 == 1, i < n", "gather(flat, i * h)", {1}),
        ("", "gather(flat, i * h)", {0, 1, 2}),
        ("", "gather(flat, i + 5)", {0}),
        ("", "gather(flat, i + 6)", {*range(-6, 0)}),
    ],
)
def test_whole_numbers_are_those_that_are_stated_and_lead_into_tables(
    where: str, body: str, allowed: set[int]
) -> None:
    stated = f"\n    where {where}:" if where else ":"
    text = (
        f"block f()(x: [n, h, 2], i: i32[m]) -> [m, 2]{stated}\n"
        f"  flat = rearrange(x, [n, h, d] -> [n * h, d])\n  return {body}\n"
    )
    found = subject(text)
    rng = Random(0)
    case = next(
        each
        for _ in range(5000)
        if (each := choose_case(rng.choice, found)).inputs[0][1].shape == (3, 2, 2)
    )
    elaboration = case.elaborate()
    probed = probe(elaboration.graph, stated_numbers(elaboration))
    assert {*probed.indices.allowed["i"]} == allowed


def test_facts_between_inputs_hold_for_what_is_drawn() -> None:
    text = (
        "block f()(x: [n], low: i32[], high: i32[]) -> [n]\n"
        "    where 0 <= low, low < high, high <= n, n >= 2:\n"
        "  return x * f32(high - low)\n"
    )
    found = subject(text)
    assert isinstance(check_gradients(found, SearchBudget(20)), Passed)
    position = TensorType(DType.I32, ())
    inputs = (("x", TensorType(DType.F32, (3,))), ("low", position), ("high", position))
    elaboration = Case(found, {}, {}, inputs, training=False, seed=0).elaborate()
    for low, high, is_right in ((0, 1, True), (1, 1, False), (2, 1, False)):
        feeds = {"low": np.asarray(low, np.int32), "high": np.asarray(high, np.int32)}
        assert agree(elaboration, feeds) is is_right


def test_an_index_in_the_iteration_of_a_loop_is_drawn_in_range() -> None:
    text = (
        "block f()(x: [n, 4], ids: i32[n]) -> [n]:\n  s = 0 * x[0, 0]\n  scan t in 0..n:\n"
        "    s = s + gather(x[t], ids[t] * 3)\n    y[t] = s\n  return y\n"
    )
    verdict = check_gradients(subject(text), SearchBudget(10))
    assert isinstance(verdict, Passed), describe(verdict)
    assert verdict.left_out == 0


def test_a_division_by_zero_is_told_of_the_program() -> None:
    verdict = check_gradients(
        subject("block f(iterations)(x: [n]) -> [n] = x / (iterations - 1)\n"), SearchBudget(20)
    )
    assert isinstance(verdict, Failed)
    assert isinstance(verdict.fault, DividesByZero)
    words = describe(verdict)
    assert "the program divides by 0 for these sizes" in words
    assert "state `where iterations >= 2`" in words
    assert "net.mgn:1" in words
    assert "it is proved for all sizes" not in words
    cured = (
        "block f(iterations)(x: [n]) -> [n] where iterations >= 2:\n  return x / (iterations - 1)\n"
    )
    assert isinstance(check_gradients(subject(cured), SearchBudget(20)), Passed)
