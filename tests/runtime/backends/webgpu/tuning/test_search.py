"""The search of the autotuner on a simulated adapter, whose clock drifts and whose kernels fail."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from math import inf
from statistics import median
from types import SimpleNamespace, TracebackType
from typing import Self, cast
from zlib import crc32

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph
from meganeura_dsl.ir.ops import Add, Input, MatMul, Mul, Parameter
from meganeura_dsl.ir.ops.fused.attention import Attention
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import SMALL
from meganeura_runtime.backends.webgpu.config.kernel_config import (
    DEFAULT_FUSION,
    KernelConfig,
    Tile,
)
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.config.tuned_configs import (
    UNTUNED,
    TunedConfigs,
    is_possible,
    step_name,
)
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.plan import Plan
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.tuning import autotuner, search_space
from meganeura_runtime.backends.webgpu.tuning.search_space import (
    Subject,
    first_configs,
    nearby_configs,
    planned,
)

CLOCKS = (1.0, 3.0, 1.25, 2.0, 7.0, 1.0, 1.5)
"""The slowdown of the adapter in each turn."""


@dataclass
class Adapter:
    """A device as the autotuner uses it; a launch is the seconds that it takes."""

    salt: int
    unit: float = 1e-5
    limits: DeviceLimits = field(default_factory=DeviceLimits)
    style: Style = Style.GPU
    has_clock: bool = True
    info: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(is_software=False))
    open: int = 0
    """Sessions that are open."""
    most: int = 0
    submissions: list[int] = field(default_factory=list[int])
    compiled: set[str] = field(default_factory=set[str])

    def chance(self, plan: Plan, of: int) -> int:
        """A number that depends on the kernels of a plan alone."""
        return crc32(f"{self.salt} {plan.kernels}".encode()) % of

    def seconds(self, plan: Plan) -> float:
        return self.unit * (1 + self.chance(plan, 1000) / 100)

    def is_right(self, plan: Plan) -> bool:
        return self.chance(plan, 7) > 1

    def compile(self, kernels: Sequence[str]) -> None:
        self.compiled |= set(kernels)

    def timed(self, launches: Sequence[float], warmup: int = 0) -> list[float]:
        """One turn first, then all turns at once or each for itself."""
        self.submissions.append(len(launches))
        if len(launches) > self.submissions[0]:
            assert warmup > 0
        turn = self.submissions[0]
        done = sum(self.submissions[1:-1]) // turn
        return [
            seconds * CLOCKS[(done + number // turn) % len(CLOCKS)]
            for number, seconds in enumerate(launches)
        ]


class Session:
    """A session on the simulated adapter; what is wrong gives 1.01 for 1, or fails."""

    def __init__(self, plan: Plan, device: Adapter) -> None:
        self.plan, self.device = plan, device
        if device.chance(plan, 7) == 0:
            raise DeviceError("this kernel is not compiled")

    def __enter__(self) -> Self:
        self.device.open += 1
        self.device.most = max(self.device.most, self.device.open)
        self.device.submissions.clear()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.device.open -= 1

    def load(self, values: Mapping[str, Array]) -> None:
        assert {tensor.name for tensor in self.plan.parameters} == values.keys()

    def step(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        assert {tensor.name for tensor in self.plan.inputs} == feeds.keys()
        one = np.float32(1 if self.device.is_right(self.plan) else 1.01)
        return {tensor.name: np.full(tensor.shape, one) for tensor in self.plan.outputs}

    def read(self, name: str) -> Array:
        (read,) = (tensor for tensor in self.plan.parameters if tensor.name == name)
        return np.ones(read.shape, np.float32)

    def launches(self) -> list[float]:
        """The kernels of a plan share its time."""
        several = len(self.plan.dispatches)
        return [self.device.seconds(self.plan) / several] * several


def product(rows: int, terms: int, columns: int) -> Graph:
    build = Builder()
    a = build.add(Input("a", DType.F32, (rows, terms)))
    b = build.add(Input("b", DType.F32, (terms, columns)))
    return build.graph({"y": build.add(MatMul(), a, b)})


PRODUCTS = {sizes: product(*sizes) for sizes in ((33, 640, 30), (8, 64, 8))}
PLANS: dict[str, Plan] = {}


def planned_once(graph: Graph, limits: DeviceLimits, style: Style, choices: TunedConfigs) -> Plan:
    """Equal plans need not be made for every search."""
    key = f"{format_graph(graph)} {choices.configs} {choices.fusing_of(graph)}"
    if key not in PLANS:
        PLANS[key] = plan_graph(graph, limits, style, choices)
    return PLANS[key]


class Search:
    """The expected result of a search, by all times of all ways."""

    def __init__(self, adapter: Adapter, graph: Graph) -> None:
        self.adapter = adapter
        self.target = Target(adapter.limits, adapter.style)
        (self.subject,) = autotuner.subjects(graph, self.target)
        whole = self.subject.whole
        first = first_configs(whole, self.target)
        self.default = first[0]
        self.right = {way for way in first if self.is_right(way)}
        if self.default not in self.right:
            return
        nearby = nearby_configs(
            min(self.right, key=self.seconds), self.default, whole, adapter.style
        )
        tried = {*first, *(way for way in nearby if is_possible(way, adapter.limits))}
        self.right = {way for way in tried if self.is_right(way)}
        self.wrong = tried - self.right

    def plan(self, way: KernelConfig) -> Plan:
        choices = TunedConfigs("", {self.subject.whole.name: way})
        return planned_once(self.subject.graph, self.target.limits, self.target.style, choices)

    def is_right(self, way: KernelConfig) -> bool:
        return self.adapter.is_right(self.plan(way))

    def seconds(self, way: KernelConfig) -> float:
        return self.adapter.seconds(self.plan(way))

    @property
    def best(self) -> KernelConfig:
        best = min(self.right, key=self.seconds)
        gains = self.seconds(best) <= (1 - autotuner.GAIN) * self.seconds(self.default)
        return best if gains else self.default


def searches(graph: Graph, most: int, unit: float = 1e-5) -> Iterator[Search]:
    """Of adapters on which the planner's way is right."""
    every = (Search(Adapter(salt, unit), graph) for salt in count())
    return islice((search for search in every if search.default in search.right), most)


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autotuner, "WebGpuSession", Session)
    monkeypatch.setattr(autotuner, "plan_graph", planned_once)
    monkeypatch.setattr(search_space, "tiles", lambda: [SMALL, Tile(32, 32, 8, 4, 4)])
    monkeypatch.setattr(
        autotuner, "step_seconds", lambda session, _: session.device.seconds(session.plan)
    )


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("unit", [1e-5, 1.0])
@pytest.mark.parametrize("sizes", [(33, 640, 30), (8, 64, 8)], ids=str)
def test_the_fastest_way_that_is_right_is_found(sizes: tuple[int, int, int], unit: float) -> None:
    for search in searches(PRODUCTS[sizes], 3, unit):
        adapter = search.adapter
        found = autotuner._searched(cast("Device", adapter), search.subject, search.target)
        assert (found.planned, found.best) == (search.default, search.best)
        slower = median(CLOCKS)
        assert found.before == pytest.approx(slower * search.seconds(search.default))
        assert found.after / found.before == pytest.approx(
            search.seconds(search.best) / search.seconds(search.default)
        )
        refused = {text.partition(": ")[0] for text in found.refused}
        assert refused == {str(way) for way in search.wrong}
        assert found.tried == len(search.right) + len(found.refused)
        kernels = {text for way in search.right for text in search.plan(way).kernels}
        assert kernels <= adapter.compiled
        assert adapter.most > 2
        assert adapter.open == 0


@pytest.mark.usefixtures("simulated")
def test_no_more_ways_are_in_memory_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autotuner, "AT_ONCE", 1)
    (search,) = searches(PRODUCTS[33, 640, 30], 1)
    found = autotuner._searched(cast("Device", search.adapter), search.subject, search.target)
    assert found.best == search.best
    assert search.adapter.most == 2


@pytest.mark.usefixtures("simulated")
def test_a_first_way_that_fails_is_an_error() -> None:
    for salt in count():
        search = Search(Adapter(salt), PRODUCTS[8, 64, 8])
        if search.adapter.chance(search.plan(search.default), 7) == 0:
            with pytest.raises(DeviceError):
                autotuner._searched(cast("Device", search.adapter), search.subject, search.target)
            return


@pytest.mark.usefixtures("simulated")
def test_a_step_keeps_what_makes_it_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all the ways to share kernels the fastest, if it gains enough; with the best ways."""
    build = Builder()
    q, k, v = (build.add(Input(name, DType.F32, (1, 1, 8, 8))) for name in "qkv")
    w = build.add(Parameter("w", DType.F32, (8, 8), "param"))
    attended = build.add(Attention(0.25, causal=False), q, k, v)
    graph = build.graph({"y": attended}, {"w": build.add(Add(), w, w)})
    chance = Adapter.chance

    def searched(device: Device, subject: Subject, target: Target) -> autotuner.Outcome:
        default = planned(subject.whole, target)
        salt = cast("Adapter", device).salt
        best = KernelConfig(2) if subject.title.endswith("x8") and salt % 2 else default
        return autotuner.Outcome(subject, default, best, 1.0, 1.0, 2, ())

    def right_chance(adapter: Adapter, plan: Plan, of: int) -> int:
        return 2 if of == 7 else chance(adapter, plan, of)

    monkeypatch.setattr(autotuner, "_searched", searched)
    monkeypatch.setattr(Adapter, "chance", right_chance)
    seen: set[tuple[bool, bool]] = set()
    for salt in range(40):
        adapter = Adapter(salt)
        told: list[autotuner.Outcome] = []
        found = autotuner.tune(cast("Device", adapter), graph, told.append)
        assert found.outcomes == tuple(told)
        ways = {one.subject.whole.name: one.best for one in told if one.gains}
        step = step_name(graph)
        each = [UNTUNED, *(TunedConfigs("", ways, {step: one}) for one in autotuner.FUSINGS)]
        before, *after = (
            adapter.seconds(planned_once(graph, adapter.limits, adapter.style, choices))
            for choices in each
        )
        times = dict(zip(autotuner.FUSINGS, after, strict=True))
        best = min(times, key=times.__getitem__)
        if times[best] >= (1 - autotuner.GAIN) * times[DEFAULT_FUSION]:
            best = DEFAULT_FUSION
        assert (found.step, found.fusing) == (step, best)
        assert (found.before, found.after) == (before, times[best])
        gains = (best != DEFAULT_FUSION or bool(ways)) and times[best] < before
        assert found.gains == gains
        expected = TunedConfigs("what was just found", ways, {step: best}) if gains else UNTUNED
        assert found.choices == expected
        seen.add((gains, best != DEFAULT_FUSION))
    assert len(seen) == 4


@pytest.mark.usefixtures("simulated")
def test_a_step_is_timed_as_the_middle_of_its_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([5.0, 1.0, 3.0, 2.0, 4.0, 9.0])
    monkeypatch.setattr(autotuner, "step_seconds", lambda *_: next(times))
    adapter = next(each.adapter for each in searches(PRODUCTS[8, 64, 8], 1))
    graph = PRODUCTS[8, 64, 8]
    plan = plan_graph(graph, adapter.limits, adapter.style)
    assert autotuner._steps_of(cast("Device", adapter), graph, [plan, plan]) == [4.0, 2.0]


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("wrong", ["y", "w", None])
def test_a_step_with_other_results_takes_for_ever(
    wrong: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other outputs, or other parameters after it."""
    build = Builder()
    w = build.add(Parameter("w", DType.F32, (4,), "param"))
    graph = build.graph({"y": build.add(Add(), w, w)}, {"w": build.add(Mul(), w, w)})
    adapter = next(each.adapter for each in searches(PRODUCTS[8, 64, 8], 1))
    plans = [
        plan_graph(graph, adapter.limits, adapter.style, each)
        for each in (UNTUNED, TunedConfigs("", {}, {step_name(graph): DEFAULT_FUSION}))
    ]
    different = [plans[0], replace(plans[1], choices="others")]

    class Wrong(Session):
        def __init__(self, plan: Plan, device: Adapter) -> None:
            self.plan, self.device = plan, device

        def answer(self, name: str) -> Array:
            is_wrong = self.plan == different[1] and name == wrong
            return np.full(4, 1.01 if is_wrong else 1, np.float32)

        def step(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
            del feeds
            return {"y": self.answer("y")}

        def read(self, name: str) -> Array:
            return self.answer(name)

    monkeypatch.setattr(autotuner, "WebGpuSession", Wrong)
    monkeypatch.setattr(autotuner, "step_seconds", lambda *_: 1.0)
    times = autotuner._steps_of(cast("Device", adapter), graph, different)
    assert times == [1.0, 1.0 if wrong is None else inf]


@pytest.mark.parametrize(("dtype", "least"), [(np.float32, 1e-4), (np.float16, 4e-3)])
def test_a_way_is_right_up_to_what_its_type_resolves(dtype: type, least: float) -> None:
    (search,) = searches(PRODUCTS[8, 64, 8], 1)
    race = autotuner._Race(cast("Device", search.adapter), search.subject, search.target)
    expected = np.array([-4, 2, 1], dtype)
    assert race._matches(search.default, expected)
    assert race._matches(search.default, expected + np.array([0, 2 * least, 0], dtype))
    assert race._matches(search.default, expected - np.array([0, 2 * least, 0], dtype))
    assert race.refused == []
    assert not race._matches(search.default, expected + np.array([0, 8 * least, 0], dtype))
    assert not race._matches(search.default, expected - np.array([0, 0, 8 * least], dtype))
    assert len(race.refused) == 2
