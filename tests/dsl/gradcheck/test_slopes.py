"""Slopes by differences where numbers, not graphs, decide; and devices beside the reference."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import cast

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import LinkedModule, Linker
from meganeura_dsl.gradcheck import case_search
from meganeura_dsl.gradcheck.case_search import SearchBudget, check_gradients
from meganeura_dsl.gradcheck.cases import Case
from meganeura_dsl.gradcheck.device_check import compare
from meganeura_dsl.gradcheck.finite_differences import (
    LEAST,
    ROUNDING,
    TOLERANCE,
    Slope,
    slopes,
)
from meganeura_dsl.gradcheck.probe import (
    DECISION,
    LOSS,
    MAGNITUDE,
    ROUNDINGS,
    Point,
    _rounded,
    probe,
)
from meganeura_dsl.gradcheck.random_inputs import RandomInputs
from meganeura_dsl.gradcheck.subjects import block_subject
from meganeura_dsl.gradcheck.verdicts import Deviation, Passed, WrongOnDevice
from meganeura_dsl.ir.graph import Array, Builder, Graph
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops import Add, Cast, Input, Maximum, Parameter, Sub
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.testing import block

EPSILON = float(np.finfo(np.float64).eps)


def module_of(text: str) -> LinkedModule:
    sink = Sink()
    module = Linker(lambda _: None, sink).link(Source("net.mgn", text))
    assert not sink.has_errors, sink.reports
    return module


@dataclass
class Curve:
    """A function of one number at 0, whose slope by reverse mode is 1 or what follows."""

    value: Callable[[float], float]
    piece: Callable[[float], int] = lambda _: 0
    reverse: tuple[float, ...] = (1.0,)
    calls: int = 0

    @property
    def gradients(self) -> Mapping[str, Array]:
        """The first slope, and the next one each time that it is computed again."""
        self.calls += 1
        return {"x": np.array(self.reverse[min(self.calls, len(self.reverse)) - 1])}

    @property
    def rounded_gradients(self) -> tuple[Mapping[str, Array], ...]:
        return tuple(self.gradients for _ in range(ROUNDINGS))

    @property
    def feeds(self) -> Mapping[str, Array]:
        return {"x": np.array(0.0)}

    def moved(self, direction: Mapping[str, Array], by: float) -> Mapping[str, Array]:
        x = by * float(direction["x"])
        outputs = {LOSS: self.value(x), MAGNITUDE: abs(self.value(x)), DECISION: self.piece(x)}
        return {name: np.asarray(number) for name, number in outputs.items()}


def only(curve: Curve) -> Slope | None:
    found = list(slopes(cast("Point", curve), 0))
    assert len(found) < 2
    assert None not in found
    return found[0] if found else None


def bent(until: float) -> Callable[[float], float]:
    """A line of slope 1 that is steeper by a thousandth near 0, as if it had been rounded."""
    return lambda x: x + 1e-3 * max(-until, min(until, x))


@pytest.mark.parametrize(("cubic", "step"), [(1e3, 1e-4), (1e5, 1e-6)])
def test_the_error_of_a_quotient_falls_with_the_fourth_power_of_its_step(
    cubic: float, step: float
) -> None:
    """Nothing is left of it for a polynomial of the fourth degree; what is allowed says the step.

    At the first step that is tried, 1e-4, the second of the two would be worth nothing.
    """
    found = only(Curve(lambda x: x + 50 * x**2 + cubic * x**3 - x**4))
    assert found is not None
    assert found.differences == pytest.approx(1, abs=1e-8)
    noise = ROUNDING * (step + LEAST) / step
    expected = TOLERANCE + 10 * 3 * cubic * step**2 + noise
    assert found.allowed == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("until", "agrees"),
    [(1e-9, True), (4e-4, True), (2e-3, False), (1.0, False)],
    ids=["nowhere", "near", "as far as the next step", "everywhere"],
)
def test_where_the_two_disagree_wider_steps_are_tried(until: float, *, agrees: bool) -> None:
    found = only(Curve(bent(until)))
    assert found is not None
    assert found.agrees is agrees


def test_a_step_across_a_kink_is_made_shorter() -> None:
    """At 2e-6 the curve turns: of the steps 1e-4, 1e-6 and 1e-8 the last alone stays before."""
    kink = 1.5e-6
    found = only(Curve(lambda x: x if x < kink else 9 * x, lambda x: int(x < kink)))
    assert found is not None
    assert found.agrees
    everywhere = Curve(lambda x: x, lambda x: int(x > 0))
    assert only(everywhere) is None


def test_a_gradient_that_rounding_changes_is_as_far_off_as_that() -> None:
    found = only(Curve(lambda x: 1.25 * x))
    assert found is not None
    assert (found.where, found.reverse, found.scale) == ("x", 1.0, 1.0)
    assert (found.differences, found.error) == pytest.approx((1.25, 0.25))
    assert not found.agrees
    found = only(Curve(lambda x: 1.25 * x, reverse=(1.0, 1.0, 1.0, 1.03, 1.0)))
    assert found is not None
    assert found.agrees  # ten times as far off as 1.03 is
    found = only(Curve(lambda x: 1.25 * x, reverse=(1.0, 1.0, 1.0, 1.02, 1.0)))
    assert found is not None
    assert not found.agrees


def test_the_rounding_of_a_large_result_is_allowed_for() -> None:
    """Divided by the step; a slope that it drowns decides nothing, right or wrong."""
    found = only(Curve(lambda x: x + 1e4))
    assert found is not None
    assert found.allowed == pytest.approx(TOLERANCE + ROUNDING * 1e4 / 1e-4, rel=0.05)
    assert only(Curve(lambda x: x + 1e7)) is None
    for slope in (1e-9, 2e-9):
        assert only(Curve(lambda x, slope=slope: slope * x, reverse=(1e-9,))) is None


@pytest.mark.parametrize(("off", "agrees"), [(5e-7, True), (3e-6, False), (-3e-6, False)])
def test_a_millionth_of_the_terms_is_allowed(off: float, *, agrees: bool) -> None:
    found = only(Curve(lambda x: (1 + off) * x))
    assert found is not None
    assert found.agrees is agrees


def test_how_much_rounding_is_allowed_for_and_when_it_drowns_a_slope() -> None:
    found = only(Curve(lambda x: x + 1e4))
    assert found is not None
    assert found.allowed == pytest.approx(2.3e-5, rel=0.05)
    assert only(Curve(lambda x: x + 4e5)) is not None
    assert only(Curve(lambda x: x + 6e5)) is None, "it is known to a thousandth no more"
    for slope, agrees in ((1e-7, True), (2e-7, False)):
        found = only(Curve(lambda x, slope=slope: slope * x, reverse=(1e-7,)))
        assert found is not None
        assert found.agrees is agrees


@pytest.mark.parametrize(
    ("slope", "reverse", "agrees"),
    [(0.0, 0.0, True), (1e-3, 0.0, False), (1.0, np.nan, False), (1.0, np.inf, False)],
)
def test_a_gradient_that_is_missing_or_no_number_is_found(
    slope: float, reverse: float, *, agrees: bool
) -> None:
    found = only(Curve(lambda x: 1 + slope * x, reverse=(reverse,)))
    assert found is not None
    assert found.agrees is agrees


def test_noise_is_the_largest_that_was_seen_and_no_sum() -> None:
    found = only(Curve(lambda x: 1.25 * x, reverse=(1.0, 1.0, 1.01, 0.99, 1.01, 1.0)))
    assert found is not None
    assert not found.agrees
    found = only(Curve(lambda x: 1.25 * x, reverse=(1.0, 1.0, 1.0, 1.0, 0.97, 1.0)))
    assert found is not None
    assert found.agrees


@dataclass
class Plane:
    """A linear function of several tensors, which remembers in which directions it was moved."""

    gradients: Mapping[str, Array]
    directions: dict[int, Mapping[str, Array]] = field(
        default_factory=dict[int, "Mapping[str, Array]"]
    )

    def moved(self, direction: Mapping[str, Array], by: float) -> Mapping[str, Array]:
        self.directions[id(direction)] = direction
        slopes_of = [(self.gradients[name] * each).sum() for name, each in direction.items()]
        return {LOSS: np.asarray(by * sum(slopes_of)), MAGNITUDE: np.asarray(1.0)}


def directions(sizes: Sequence[int], seed: int) -> list[tuple[str, Mapping[str, Array]]]:
    """Returns the tensors to move, for these sizes, and the directions."""
    plane = Plane({f"t{number}": np.ones(size) for number, size in enumerate(sizes)})
    found = list(slopes(cast("Point", plane), seed))
    assert all(each.agrees for each in found)
    return list(zip([each.where for each in found], plane.directions.values(), strict=True))


def test_few_numbers_are_moved_one_by_one() -> None:
    found = directions([40, 8], 0)
    assert [where for where, _ in found] == [
        *(f"t0[{index}]" for index in range(40)),
        *(f"t1[{index}]" for index in range(8)),
    ]
    for where, direction in found:
        ((name, unit),) = direction.items()
        (place,) = np.flatnonzero(unit)
        assert (f"{name}[{place}]", unit[place]) == (where, 1)
    assert len(directions([40, 9], 0)) == 2


@pytest.mark.parametrize("seed", range(4))
def test_many_numbers_are_moved_in_random_directions(seed: int) -> None:
    alone = directions([5] * 12, seed)
    assert [where for where, _ in alone] == [f"t{each}, all elements" for each in range(12)]
    together = directions([5] * 13, seed)
    assert [where for where, _ in together[:2]] == ["all tensors"] * 2
    assert [len(direction) for _, direction in together] == [13, 13, 1, 1, 1]
    assert len({where for where, _ in together[2:]}) == 3
    for found in (alone, together):
        several = [each for _, direction in found for each in direction.values()]
        numbers = np.concatenate(several)
        assert np.abs(numbers).min() >= 0.5
        assert np.abs(numbers).max() <= 1
        assert 0.2 < (numbers > 0).mean() < 0.8
        assert len(np.unique(numbers)) == numbers.size


def shifted() -> Graph:
    """`max((x + 1e8) - 1e8 - 1/2, 0)`, which is on another side of 0 in single precision."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (2,)))
    far, half, zero = (full(build, x.type, number) for number in (1e8, 0.5, 0.0))
    near = build.add(Sub(), build.add(Sub(), build.add(Add(), x, far), far), half)
    return build.graph({"y": build.add(Maximum(), near, zero)})


@pytest.mark.parametrize(("number", "is_compared"), [(1.0, False), (-1.0, True), (64.0, True)])
def test_where_single_precision_falls_elsewhere_a_device_may(
    number: float, *, is_compared: bool
) -> None:
    probed = probe(shifted())
    feeds = RandomInputs(0).feeds(probed.graph) | {"x": np.full(2, number)}
    found = compare(probed, feeds, lambda graph, fed: evaluate(graph, fed).outputs)
    assert isinstance(found, Deviation if is_compared else NoneType)
    fault = compare(
        probed,
        feeds,
        lambda graph, fed: {n: a + 1e3 for n, a in evaluate(graph, fed).outputs.items()},
    )
    assert isinstance(fault, WrongOnDevice if is_compared else NoneType)


@pytest.mark.parametrize(("times", "is_wrong"), [(1, False), (10, False), (-10, False), (30, True)])
def test_a_device_may_round_some_times_as_much_as_the_reference(
    times: int, *, is_wrong: bool
) -> None:
    """At 60 the sum is off by 4 in single precision, and on the same side of 0."""
    probed = probe(shifted())
    feeds = RandomInputs(0).feeds(probed.graph) | {"x": np.full(2, 60.0)}

    def run(graph: Graph, fed: Mapping[str, Array]) -> Mapping[str, Array]:
        wide = {name: np.asarray(each, np.float64) for name, each in fed.items()}
        exact = evaluate(graph, wide, Precision.DOUBLE).outputs
        rounded = evaluate(graph, fed).outputs
        return {name: exact[name] + times * (rounded[name] - exact[name]) for name in exact}

    fault = compare(probed, feeds, run)
    assert isinstance(fault, WrongOnDevice if is_wrong else Deviation)
    assert (fault.difference > fault.allowed > 0) is is_wrong
    assert fault.name == "loss" or not is_wrong


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_device_that_gives_no_number_is_wrong(wrong: float) -> None:
    """The device gives no number where the reference gives one."""
    probed = probe(shifted())
    feeds = RandomInputs(0).feeds(probed.graph) | {"x": np.full(2, 64.0)}

    def run(graph: Graph, fed: Mapping[str, Array]) -> Mapping[str, Array]:
        return {name: each + wrong for name, each in evaluate(graph, fed).outputs.items()}

    fault = compare(probed, feeds, run)
    assert isinstance(fault, WrongOnDevice)
    assert not fault.difference <= fault.allowed


@pytest.mark.parametrize("most", [1, 1000])
def test_probes_that_are_forgotten_are_made_again(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    effort, subject = SearchBudget(examples=6), block("nn", "silu")
    expected = check_gradients(subject, effort)
    assert isinstance(expected, Passed)
    monkeypatch.setattr(case_search, "MOST_PROBES", most)
    search = case_search._Search(subject, effort)
    search.run()
    assert (search.examples, search.slopes) == (expected.examples, expected.slopes)
    assert 0 < len(search._probes) <= most


def test_cases_that_differ_in_more_than_numbers_have_graphs_of_their_own() -> None:
    text = "block Net(k=2, on=true)(x: [n, c]) -> [n, c]:\n  return k * x\n"
    module = module_of(text)
    checked = block_subject(module, module.blocks["Net"])
    two, three = (("x", TensorType(DType.F32, (size, 3))) for size in (2, 3))
    case = Case(checked, {"k": 2, "on": True}, {}, (two,), training=False, seed=0)
    search = case_search._Search(checked, SearchBudget())
    first = search._probe(case)
    assert search._probe(replace(case, seed=1)) is first
    others = [
        replace(case, config={"k": 3, "on": True}),
        replace(case, config={"k": 2, "on": False}),
        replace(case, inputs=(three,)),
        replace(case, sizes={"n": 2}),
        replace(case, training=True),
    ]
    assert len({id(search._probe(each)) for each in (case, *others)}) == len(others) + 1
    assert replace(checked, given={"k": 3}).drawn({"k": 3, "on": True}) == {"on": True}


def test_what_is_trained_or_fed_as_floats_is_moved() -> None:
    build = Builder()
    shape = (3,)
    leaves = [
        build.add(Input("x", DType.F32, shape)),
        build.add(Parameter("weight", DType.F32, shape, "param")),
        build.add(Parameter("mean", DType.F32, shape, "state")),
        build.add(Parameter("words", DType.I32, shape, "param")),
        build.add(Input("ids", DType.I32, shape)),
    ]
    total = leaves[0]
    for leaf in leaves[1:]:
        total = build.add(Add(), total, build.add(Cast(DType.F32), leaf))
    assert probe(build.graph({"y": total})).moved == ("x", "weight")


def test_floats_are_rounded_otherwise_and_whole_numbers_stay() -> None:
    generator = np.random.default_rng(0)
    numbers = generator.normal(size=1000)
    share = _rounded(generator, numbers) / numbers - 1
    assert 3 * EPSILON < np.abs(share).max() < 5 * EPSILON
    assert len(np.unique(np.round(share / EPSILON))) == 9
    for whole in (np.arange(5, dtype=np.int32), np.array([True, False])):
        assert _rounded(generator, whole) is whole
