"""Planted mistakes are found, shrunk and located."""

from collections.abc import Mapping

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.gradcheck.case_search import SearchBudget, check_gradients, check_graph
from meganeura_dsl.gradcheck.cases import Case, choose_case
from meganeura_dsl.gradcheck.finite_differences import slopes
from meganeura_dsl.gradcheck.probe import probe
from meganeura_dsl.gradcheck.random_inputs import RandomInputs
from meganeura_dsl.gradcheck.subjects import Subject, subjects
from meganeura_dsl.gradcheck.verdict_text import describe
from meganeura_dsl.gradcheck.verdicts import (
    Failed,
    NotFinite,
    Passed,
    RefusedAfterProof,
    Skipped,
    WrongAtPoint,
    WrongGradient,
    WrongOnDevice,
)
from meganeura_dsl.ir.graph import Array, Builder, Graph, Value
from meganeura_dsl.ir.initializers import Normal
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import Abs, Erf, Input, Log, Maximum, Mul, Sqrt, Sum
from meganeura_dsl.ir.ops.primitive import reverse_mode
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.testing import block

Pullback = tuple[Value | None, ...]


def subject(text: str) -> Subject:
    sink = Sink()
    module = Linker(lambda _: None, sink).link(Source("example.mgn", text))
    assert not sink.has_errors
    return subjects(module)[0]


def test_a_wrong_pullback_is_located(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Erf.pullback

    def slightly_wrong(op: Erf, build: Builder, out: Value, cotangent: Value) -> Pullback:
        (gradient,) = right(op, build, out, cotangent)
        assert gradient is not None
        return (build.add(Mul(), gradient, full(build, out.type, 1.001)),)

    monkeypatch.setattr(Erf, "pullback", slightly_wrong)
    verdict = check_gradients(block("nn", "gelu"), SearchBudget(examples=10))
    assert isinstance(verdict, Failed)
    assert isinstance(verdict.fault, WrongGradient)
    assert verdict.fault.culprit is not None
    assert isinstance(verdict.fault.culprit.value.op, Erf)
    assert verdict.case.inputs == (("x", TensorType(verdict.case.inputs[0][1].dtype, (1,))),)
    words = describe(verdict)
    assert "first wrong: `Erf`, which gives f32[1] at nn.mgn:" in words
    assert "model reproducer = gelu()" in words
    assert "seed 0" in words


def test_a_dropped_coefficient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def ones(_op: Sum, build: Builder, out: Value, _cotangent: Value) -> Pullback:
        return (full(build, out.operands[0].type, 1),)

    monkeypatch.setattr(Sum, "pullback", ones)
    verdict = check_gradients(block("loss", "mse"), SearchBudget(examples=10))
    assert isinstance(verdict, Failed)
    assert "`Sum`" in describe(verdict)


def test_gradients_that_are_not_added_up_are_nobody_s_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reverse_mode, "Add", Maximum)
    verdict = check_gradients(block("nn", "silu"), SearchBudget(examples=10))
    assert isinstance(verdict, Failed)
    assert "added up wrongly" in describe(verdict)


def test_a_gradient_that_is_nan_on_a_kink_is_found() -> None:
    root = subject("block distance()(x: [n]) -> [n] = sqrt(x * x)\n")
    verdict = check_gradients(root, SearchBudget(examples=20, kinks=True))
    assert isinstance(verdict, Failed)
    assert isinstance(verdict.fault, NotFinite)
    assert "the gradient of `x` is not finite, and the loss is" in describe(verdict)
    at_zero = check_gradients(root, SearchBudget(examples=20))
    assert isinstance(at_zero, Failed)
    assert isinstance(at_zero.fault, WrongAtPoint)
    assert "the slopes on its two sides; reverse mode says nan" in describe(at_zero)
    assert "keep what it is the slope of\n  away from that point" in describe(at_zero)


def test_what_is_finite_on_its_kinks_is_fine() -> None:
    verdict = check_gradients(
        subject("block f()(x: [n]) -> [n] = relu(x) + abs(x)\n"), SearchBudget(8, kinks=True)
    )
    assert verdict == Passed("f", 8, 0, 0.0)


def test_positive_numbers_are_tried_where_others_have_no_result() -> None:
    verdict = check_gradients(
        subject("block f()(x: [n]) -> [n] = log(x)\n"), SearchBudget(examples=10)
    )
    assert isinstance(verdict, Passed)


def test_a_device_that_is_wrong_is_found() -> None:
    def wrong(graph: Graph, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        outputs = dict(evaluate(graph, feeds).outputs)
        return {name: value * np.float32(1.01) for name, value in outputs.items()}

    verdict = check_gradients(block("nn", "silu"), SearchBudget(10, run=wrong))
    assert isinstance(verdict, Failed)
    assert isinstance(verdict.fault, WrongOnDevice)
    assert "on the device, `loss` is off by" in describe(verdict)


def test_the_reference_is_a_device_that_is_right() -> None:
    effort = SearchBudget(10, run=lambda graph, feeds: evaluate(graph, feeds).outputs)
    verdict = check_gradients(block("nn", "softmax"), effort)
    assert isinstance(verdict, Passed)
    assert verdict.device is not None
    assert 0 < verdict.device.difference < verdict.device.allowed
    assert "roundings of float32, allowed " in describe(verdict)


def test_what_overflows_in_single_precision_is_compared_with_no_device() -> None:
    effort = SearchBudget(4, run=lambda graph, feeds: evaluate(graph, feeds).outputs)
    verdict = check_gradients(subject("block f()(x: [n]) -> [n] = exp(x * x + 90)\n"), effort)
    assert isinstance(verdict, Skipped)
    assert "no example could be compared on the device" in describe(verdict)


@pytest.mark.parametrize("wrong", [np.nan, 1e-2])
def test_a_device_that_is_wrong_at_a_special_point_alone_is_found(wrong: float) -> None:
    """As `atan2` of a GPU at (0, 0)."""

    def run(graph: Graph, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        found = dict(evaluate(graph, feeds).outputs)
        found["gradient.x"] = np.where(feeds["x"] == 0, wrong, found["gradient.x"])
        return found

    verdict = check_gradients(
        subject("block f()(x: [3]) -> [3] = tanh(x)\n"), SearchBudget(20, run=run)
    )
    assert isinstance(verdict, Failed)
    assert isinstance(verdict.fault, WrongOnDevice)
    assert "on the device, `gradient.x[" in describe(verdict)


def test_what_norms_of_equal_numbers_magnify_is_no_fault() -> None:
    """Each of eight norms multiplies the rounding of a gradient by 300."""
    config: dict[str, StaticValue] = {"depths": [1, 1, 1, 1], "width": 1, "classes": 1, "colors": 1}
    image = TensorType(DType.F32, (2, 1, 1, 1))
    case = Case(block("resnet", "ResNet"), config, {}, (("x", image),), training=True, seed=24132)
    probed = probe(case.elaborate().graph)
    point = probed.at(RandomInputs(case.seed).feeds(probed.graph))
    found = list(slopes(point, case.seed))
    assert found
    assert all(slope.agrees for slope in found)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("block f()(x: i32[n]) -> i32[n] = x + x\n", "none of its results is a float"),
        (
            "block f()(x: [n, 1]) -> [n, 1] = x |> norm: layer_norm\n",
            "not checked: this variance is over one element",
        ),
        ("block f()(x: i32[n]) -> [n] = f32(x)\n", "it reads no float that could be moved"),
        ("block f()(x: [n]) -> [n] = f32(x > 0)\n", "every slope is 0"),
        ("block f()(x: [n]) -> [] = 1e9 + 1e-3 * sum(sin(x))\n", "drown every slope"),
        (
            "block f()(x: [4], t: [5]) -> [4] = gather(t, i32(100 * abs(x)))\n",
            " in the `Gather` (example.mgn:1), and must be 0 or more and below 5",
        ),
        ("block f()(x: [n]) -> [n] = log(-x * x)\n", "its result is not finite for the numbers"),
        (
            "block f()(x: [n]) -> [n] where n > 4, n < 5:\n  return x\n",
            "no sizes were found that it accepts",
        ),
    ],
)
def test_a_block_without_a_slope_is_skipped(text: str, reason: str) -> None:
    verdict = check_gradients(subject(text), SearchBudget(5))
    assert isinstance(verdict, Skipped)
    assert reason in describe(verdict)


@pytest.mark.parametrize(
    "text",
    [
        "block f()(x: [n], on: bool[n]) -> [n] = where(on, x, 2 * x)\n",
        "block f()(x: [n]) -> [n] = x * f32(i32(3 * x))\n",
    ],
)
def test_truths_and_steps_stand_still(text: str) -> None:
    verdict = check_gradients(subject(text), SearchBudget(20))
    assert isinstance(verdict, Passed)
    assert verdict.slopes > 0


def test_one_graph_is_checked_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    graph = build.graph({"y": build.add(Log(), x)})
    assert check_graph(graph, SearchBudget()) is None
    monkeypatch.setattr(Log, "pullback", lambda _op, _build, _out, cotangent: (cotangent,))
    found = check_graph(graph, SearchBudget())
    assert found is not None
    assert found.culprit is not None
    assert isinstance(found.culprit.value.op, Log)


def test_one_graph_is_checked_where_numbers_are_negative_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build = Builder()
    graph = build.graph({"y": build.add(Abs(), build.add(Input("x", DType.F32, (9,))))})
    assert check_graph(graph, SearchBudget()) is None
    monkeypatch.setattr(Abs, "pullback", lambda _op, _build, _out, cotangent: (cotangent,))
    assert check_graph(graph, SearchBudget()) is not None


def test_a_reproducer_is_written_in_the_language() -> None:
    config: dict[str, StaticValue] = {"on": True, "widths": [1, 2], "mode": "same", "k": 3}
    config["init"] = Normal(0.5)
    case = Case(block("nn", "relu"), config, {}, (), training=False, seed=0)
    assert (
        case.snippet
        == 'model reproducer = relu(on=true, widths=[1, 2], mode="same", k=3, init=normal(0.5))'
    )


@pytest.mark.parametrize(("training", "mode"), [(True, "training"), (False, "evaluating")])
def test_a_reproducer_says_in_which_mode(mode: str, *, training: bool) -> None:
    x = ("x", TensorType(DType.F32, (2, 3)))
    case = Case(block("nn", "relu"), {}, {}, (x,), training=training, seed=7)
    words = describe(Failed("relu", case, NotFinite("x", None)))
    assert f"given x: f32[2, 3]; {mode}; seed 7" in words


def test_a_block_that_needs_a_list_no_model_gives_is_skipped() -> None:
    text = "block F(widths)(x: [n]) -> [n]:\n  for i in 0..2:\n    x = x * widths[i]\n  return x\n"
    verdict = check_gradients(subject(text), SearchBudget(5))
    assert isinstance(verdict, Skipped)


def test_the_lists_of_a_model_are_used_for_its_block() -> None:
    text = (
        "block F(widths)(x: [n]) -> [n]:\n  for i in 0..2:\n    x = x * widths[i]\n  return x\n"
        "model f = F(widths=[3, 4])\n"
    )
    assert isinstance(check_gradients(subject(text), SearchBudget(5)), Passed)


def test_where_a_model_gives_a_real_number_a_small_one_is_drawn() -> None:
    found = subject(WIDENED.format(width=16))
    assert choose_case(max, found).config == {"a": 1 / 8}
    assert choose_case(min, found).config == {"a": 1 / 16}
    assert isinstance(check_gradients(found, SearchBudget(5)), Passed)


def test_a_larger_one_is_drawn_where_small_ones_are_refused() -> None:
    found = subject(WIDENED.format(width=2))
    with pytest.raises(ProblemError):
        choose_case(max, found).elaborate()
    assert isinstance(check_gradients(found, SearchBudget(5)), Passed)


WIDENED = """
block F(a)(x: [n]) -> [n, int({width} * a)] = insert_axis(x, -1, int({width} * a))
model f = F(a=1.5)
"""


def test_what_is_refused_after_a_proof_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Sqrt.infer

    def refuse_three(op: Sqrt, facts: Facts, operand: TensorType) -> TensorType:
        facts.require(operand.shape[-1] != 3, "three is refused")
        return right(op, facts, operand)

    verdict_before = check_gradients(subject(TEXT), SearchBudget(30))
    assert isinstance(verdict_before, Passed)
    monkeypatch.setattr(Sqrt, "infer", refuse_three)
    verdict = check_gradients(subject(TEXT), SearchBudget(30))
    assert isinstance(verdict, Failed)
    assert isinstance(verdict.fault, RefusedAfterProof)
    assert "it is proved for all sizes, and refused for these: " in describe(verdict)


TEXT = "block f()(x: [n]) -> [n] = sqrt(x * x + 1)\n"


def test_a_truth_without_a_default_is_recognised() -> None:
    text = (
        "block F(on)(x: [n]) -> [n]:\n  return G(on, x=x)\n"
        "block G(flag)(x: [n]) -> [n]:\n  if flag:\n    x = 2 * x\n  return x\n"
    )
    found = subject(text)
    assert found.truths == {"on"}
    assert isinstance(check_gradients(found, SearchBudget(5)), Passed)


@pytest.mark.parametrize("kinks", [False, True])
@pytest.mark.parametrize("is_run", [False, True])
def test_a_gradient_that_is_infinite_is_found(
    monkeypatch: pytest.MonkeyPatch, *, kinks: bool, is_run: bool
) -> None:
    """On kinks too, and where a device gives the same."""

    def infinite(_op: Sqrt, build: Builder, out: Value, _cotangent: Value) -> Pullback:
        return (full(build, out.type, float("inf")),)

    monkeypatch.setattr(Sqrt, "pullback", infinite)
    run = (lambda graph, feeds: evaluate(graph, feeds).outputs) if is_run else None
    verdict = check_gradients(subject(TEXT), SearchBudget(5, kinks=kinks, run=run))
    assert isinstance(verdict, Failed)
    assert isinstance(verdict.fault, NotFinite if kinks else WrongGradient)
    assert verdict.fault.culprit is not None
    assert isinstance(verdict.fault.culprit.value.op, Sqrt)
