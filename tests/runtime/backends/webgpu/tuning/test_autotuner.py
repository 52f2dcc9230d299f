"""Tuning: every way computes the same, the best is kept for one adapter, and plans use it."""

from dataclasses import replace
from math import inf
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Builder, Graph, Op
from meganeura_dsl.ir.ops import Conv, Exp, Input, MatMul, Mul, Parameter, Sub, Transpose
from meganeura_dsl.ir.ops.fused.attention import Attention
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.errors import LimitError
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import SMALL, SPEEDS, SQUARE, WIDE
from meganeura_runtime.backends.webgpu.config.kernel_config import (
    DEFAULT_FUSION,
    FusionConfig,
    KernelConfig,
    Tile,
)
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.config.tuned_configs import (
    TunedConfigs,
    TuningDatabase,
    TuningRecord,
    is_possible,
    step_name,
)
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.plan import Plan
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.backends.webgpu.tuning import autotuner, search_space
from meganeura_runtime.backends.webgpu.tuning.autotuner import Outcome, Tuning, tune
from meganeura_runtime.backends.webgpu.tuning.search_space import (
    Subject,
    first_configs,
    nearby_configs,
    planned,
    subjects,
    tiles,
)
from tests.effort import effort
from tests.runtime.running import run_plan

FEW = FusionConfig(epilogue=0)


def product(*shapes: tuple[int, ...], op: Op | None = None) -> Graph:
    build = Builder()
    inputs = [build.add(Input(f"x{n}", DType.F32, shape)) for n, shape in enumerate(shapes)]
    return build.graph({"y": build.add(op or MatMul(), *inputs)})


def test_a_way_takes_its_share_of_what_the_first_takes_in_the_same_turn() -> None:
    """Whatever the clock of the adapter was; the first is not timed anew by later iterations."""
    first, other, late = (KernelConfig(tile=tile) for tile in (SMALL, WIDE, SQUARE))
    race = SimpleNamespace(seconds=dict[KernelConfig, float]())
    turns = [{first: 4.0, other: 2.0}, {first: 2.0, other: 1.0}, {first: 2.0, other: 1.2}]
    autotuner._Race._note(cast("autotuner._Race", race), turns)
    assert race.seconds == {first: 2.0, other: 1.0}
    autotuner._Race._note(cast("autotuner._Race", race), [{first: 8.0, late: 2.0}])
    assert race.seconds == {first: 2.0, other: 1.0, late: 0.5}


@pytest.mark.parametrize("kernel_seconds", [0.001, autotuner.LONG_TURN / 2])
def test_ways_take_turns_in_one_submission_unless_they_take_long(kernel_seconds: float) -> None:
    """Two ways, of one kernel and of two; each kernel takes longer from one time to the next."""
    asked: list[int] = []
    count = 0

    class Timed:
        info = SimpleNamespace(is_software=True)

        def timed(self, launches: list[int], before: int = 0) -> list[float]:
            nonlocal count
            asked.append(len(launches))
            assert before == 0
            times = [kernel_seconds + (count + at) / 1024 for at in range(len(launches))]
            count += len(launches)
            return times

    ready = {
        KernelConfig(tile=tile): SimpleNamespace(launches=lambda many=many: [0] * many)
        for tile, many in ((SMALL, 1), (WIDE, 2))
    }
    found = autotuner._turns(
        cast("Device", Timed()), cast("dict[KernelConfig, WebGpuSession]", ready)
    )
    turns = autotuner.TURNS
    assert len(found) == turns
    is_long = 3 * kernel_seconds > autotuner.LONG_TURN
    assert asked == ([3] * (1 + turns) if is_long else [3, 3 * turns])
    for number, times in enumerate(found):
        first = 3 + 3 * number  # what was timed first tells whether a turn is long
        one, two = (kernel_seconds + (first + at) / 1024 for at in (0, 1))
        three = kernel_seconds + (first + 2) / 1024
        assert [*times.values()] == pytest.approx([one, two + three])


def subject(graph: Graph, target: Target) -> Subject:
    (only,) = subjects(graph, target)
    return only


# --- what there is to choose from ----------------------------------------------------------------


def test_a_contraction_that_occurs_again_is_one_subject() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (40, 40)))
    turned = build.add(Transpose((1, 0)), x)
    y = build.add(MatMul(), build.add(MatMul(), build.add(Exp(), x), turned), turned)
    graph = build.graph({"y": build.add(MatMul(), y, x), "z": build.add(MatMul(), x, x)})
    (only,) = subjects(graph, Target())
    assert (only.title, only.count) == ("matmul 40x40x40", 4)
    assert [value.type.shape for value in only.graph.values if not value.operands] == [
        (40, 40),
        (40, 40),
    ]
    # What a kernel reads another way than it lies in memory, it reads that way alone too.
    assert any(isinstance(value.op, Transpose) for value in only.graph.values)


def test_the_planner_s_way_comes_first_and_no_way_twice() -> None:
    for style in Style:
        target = Target(DeviceLimits(lanes=8), style)
        whole = subject(product((300, 700), (700, 200)), target).whole
        configs = first_configs(whole, target)
        assert configs[0] == planned(whole, target)
        assert len(configs) == len(set(configs)) > 4
        assert all(is_possible(config, target.limits) for config in configs)


def test_tiles_are_the_planner_s_and_more_that_share_their_work_evenly() -> None:
    found = tiles()
    assert found[: len(SPEEDS)] == list(SPEEDS)
    assert all(tile.is_even for tile in found)
    assert len(found) == len(set(found)) > 3 * len(SPEEDS)
    assert {tile.terms for tile in found} == {16}


def test_a_tile_that_would_be_mostly_empty_is_not_tried() -> None:
    narrow = subject(product((2000, 900), (900, 32)), Target())
    tried = {
        config.tile for config in first_configs(narrow.whole, Target()) if config.tile is not None
    }
    assert {tile.columns for tile in tried} == {32}


def test_single_lanes_are_not_tried_on_a_product_of_many_terms() -> None:
    target = Target()
    for terms, lanes in ((4096, False), (16, True)):
        whole = subject(product((512, terms), (terms, 512)), target).whole
        assert any(config.tile is None for config in first_configs(whole, target)) == lanes


@pytest.mark.parametrize("style", Style)
def test_a_contraction_is_tiled_or_shuffled_and_not_both(style: Style) -> None:
    target = Target(DeviceLimits(lanes=32), style)
    config = planned(subject(product((512, 512), (512, 512)), target).whole, target)
    assert (config.tile is None) != (config.rows is None)


def test_tiles_nearby_share_their_work_evenly() -> None:
    whole = subject(product((512, 4096), (4096, 512)), Target()).whole
    for tile in tiles():
        best = KernelConfig(1, tile)
        nearby = [config.tile for config in nearby_configs(best, best, whole, Style.GPU)]
        assert all(other is None or other.is_even for other in nearby)


def test_parts_nearby_are_fewer_and_more_but_kernels_of_a_cpu_never_longer() -> None:
    whole = subject(product((64, 4096), (4096, 64)), Target()).whole
    best, default = KernelConfig(4), KernelConfig(4)
    assert [config.split_k for config in nearby_configs(best, default, whole, Style.GPU)] == [
        1,
        2,
        6,
        8,
        12,
    ]
    assert [
        config.split_k for config in nearby_configs(best, default, whole, Style.SOFTWARE_VULKAN)
    ] == [
        6,
        8,
        12,
    ]
    tiled = nearby_configs(KernelConfig(1, SMALL), default, whole, Style.GPU)
    assert [config.tile.terms for config in tiled if config.tile and config.split_k == 1] == [8, 32]


@pytest.mark.parametrize(
    "config",
    [
        KernelConfig(0),
        KernelConfig(1, Tile(64, 64, 16, 3, 4)),
        KernelConfig(1, Tile(64, 64, 4, 4, 4)),
        KernelConfig(1, Tile(128, 128, 64, 8, 8)),
        KernelConfig(1, Tile(128, 128, 16, 4, 4)),
        KernelConfig(1, Tile(0, 64, 16, 4, 4)),
        KernelConfig(1, Tile(1 << 20, 64, 16, 4, 4)),
        KernelConfig(1, rows=8),
        KernelConfig(1, rows=0),
    ],
    ids=str,
)
def test_what_no_kernel_could_be_written_for_is_not_possible(config: KernelConfig) -> None:
    assert not is_possible(config, DeviceLimits())


def test_what_is_possible_ends_where_the_limits_do() -> None:
    tile = Tile(64, 64, 16, 4, 4)
    just = DeviceLimits(workgroup_bytes=tile.bytes, invocations=tile.lanes, lanes=8)
    rows = KernelConfig(1, rows=256)
    for config in (KernelConfig(1), KernelConfig(7, tile), KernelConfig(1, rows=1), rows):
        assert is_possible(config, just), config
    less_memory = replace(just, workgroup_bytes=tile.bytes - 1)
    fewer_lanes = replace(just, invocations=tile.lanes - 1)
    for limits in (less_memory, fewer_lanes):
        assert not is_possible(KernelConfig(1, tile), limits)
        assert is_possible(rows, limits)
    assert not is_possible(KernelConfig(1, rows=257), just)
    assert not is_possible(rows, replace(just, lanes=0))
    wide = replace(just, workgroup_bytes=1 << 30, invocations=1 << 20)
    for largest, larger in (
        (Tile(256, 64, 16, 16, 4), Tile(512, 64, 16, 32, 4)),
        (Tile(64, 256, 16, 4, 16), Tile(64, 512, 16, 4, 32)),
        (Tile(64, 64, 256, 4, 4), Tile(64, 64, 512, 4, 4)),
    ):
        assert larger.is_even
        assert is_possible(KernelConfig(1, largest), wide)
        assert not is_possible(KernelConfig(1, larger), wide)


# --- searching -----------------------------------------------------------------------------------


@pytest.mark.adapter
@pytest.mark.parametrize(
    ("style", "long"),
    [(Style.GPU, 9), *effort([], [(Style.SOFTWARE_VULKAN, 9), (Style.GPU, 0)])],
)
def test_a_search_tries_ways_that_agree_and_says_what_they_took(
    device: Device, style: Style, long: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autotuner, "LONG_TURN", long)
    monkeypatch.setattr(
        search_space, "tiles", lambda: [SMALL, *effort([], [Tile(32, 32, 8, 4, 4)])]
    )
    graph = product((33, 64), (64, 30))
    told: list[Outcome] = []
    found = tune(device, graph, told.append, style)
    assert list(found.outcomes) == told
    (only,) = told
    assert only.subject.title == "matmul 33x30x64"
    assert only.tried > 2
    assert only.refused == ()
    assert only.before > 0
    assert only.after <= only.before
    assert only.gains or only.after == only.before
    assert min(found.before, found.after) > 0


@pytest.mark.adapter
def test_a_way_with_other_numbers_is_refused(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(graph: Graph, limits: DeviceLimits, style: Style, choices: TunedConfigs) -> Plan:
        plan = plan_graph(graph, limits, style, choices)
        if not any(config.tile == SMALL for config in choices.configs.values()):
            return plan
        return replace(plan, kernels=tuple(text.replace("+=", "-=") for text in plan.kernels))

    monkeypatch.setattr(search_space, "tiles", lambda: [SMALL])
    monkeypatch.setattr("meganeura_runtime.backends.webgpu.tuning.autotuner.plan_graph", wrong)
    graph = product((8, 64), (64, 8))
    (only,) = tune(device, graph, lambda _: None, Style.GPU).outcomes
    assert only.planned.tile is None
    assert only.best.tile is None
    (refused,) = [text for text in only.refused if text.startswith(f"{KernelConfig(1, SMALL)}: ")]
    assert "its numbers are off by 2 of the largest" in refused


@pytest.mark.adapter
def test_numbers_are_compared_with_those_of_the_first_way(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first way is timed where it is the only one as well, and NaN is no number of it."""

    def planned_wrongly(
        graph: Graph, limits: DeviceLimits, style: Style, choices: TunedConfigs
    ) -> Plan:
        plan = plan_graph(graph, limits, style, choices)
        if not any(config.tile == SMALL for config in choices.configs.values()):
            return plan
        return replace(plan, kernels=tuple(text.replace("+=", "-=") for text in plan.kernels))

    monkeypatch.setattr(autotuner, "plan_graph", planned_wrongly)
    target = Target(device.limits, Style.GPU)
    race = autotuner._Race(device, subject(product((8, 64), (64, 8)), target), target)
    race.run([KernelConfig(1)])
    assert [*race.seconds] == [KernelConfig(1)]
    assert race.seconds[KernelConfig(1)] > 0
    race.run([KernelConfig(1), KernelConfig(1, SMALL)])
    assert [*race.seconds] == [KernelConfig(1)]
    (refused,) = race.refused
    assert "its numbers are off by 2 of the largest" in refused
    for value in (np.nan, np.inf):
        assert not race._matches(KernelConfig(2), np.full((8, 8), value, np.float32))
    assert len(race.refused) == 3


@pytest.mark.adapter
def test_a_way_beyond_the_limits_of_the_device_is_refused(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def limited(graph: Graph, limits: DeviceLimits, style: Style, choices: TunedConfigs) -> Plan:
        if any(config.tile == SMALL for config in choices.configs.values()):
            raise LimitError(graph.values[-1], "lanes", "9", "8")
        return plan_graph(graph, limits, style, choices)

    monkeypatch.setattr(autotuner, "plan_graph", limited)
    target = Target(device.limits, Style.GPU)
    race = autotuner._Race(device, subject(product((8, 64), (64, 8)), target), target)
    configs = [KernelConfig(1), KernelConfig(1, SMALL)]
    assert [config for config, _ in race._plans(configs)] == configs[:1]
    (refused,) = race.refused
    assert "the adapter's limit `lanes` is 8" in refused


@pytest.mark.adapter
def test_a_step_with_other_updates_takes_for_ever(device: Device) -> None:
    def step(op: Op) -> Graph:
        build = Builder()
        x = build.add(Input("x", DType.F32, (8, 8)))
        p = build.add(Parameter("p", DType.F32, (8, 8), "param"))
        return build.graph({"y": build.add(Exp(), x)}, {"p": build.add(op, p, x)})

    plans = [plan_graph(step(op), device.limits, Style.GPU) for op in (Sub(), Mul())]
    right, other = autotuner._steps_of(device, step(Sub()), plans)
    assert 0 < right < other == inf


@pytest.mark.adapter
def test_a_step_with_other_results_takes_for_ever(device: Device) -> None:
    graph = product((8, 64), (64, 8))
    plan = plan_graph(graph, device.limits, Style.GPU)
    wrong = replace(plan, kernels=tuple(text.replace("+=", "-=") for text in plan.kernels))
    right, other = autotuner._steps_of(device, graph, [plan, wrong])
    assert 0 < right < other == inf


def test_results_are_near_if_sums_in_another_order_explain_it() -> None:
    numbers = np.array([1.0, 100.0, np.nan, np.inf], np.float32)
    assert autotuner._is_near(numbers, numbers)
    assert autotuner._is_near(numbers + np.float32(0.05), numbers)
    assert not autotuner._is_near(numbers + np.float32(0.2), numbers)
    assert not autotuner._is_near(np.nan_to_num(numbers), numbers)
    assert not autotuner._is_near(np.array([1, 2]), np.array([1, 3]))
    small = np.array([2e-6, -3e-6], np.float32)
    assert autotuner._is_near(small * np.float32(1.0009), small)
    assert not autotuner._is_near(small * np.float32(1.002), small)
    assert not autotuner._is_near(-small, small)
    nothing = np.zeros((0, 3), np.float32)
    assert autotuner._is_near(nothing, nothing)


@pytest.mark.parametrize(("share", "gains"), [(0.97, True), (0.99, False), (1.5, False)])
def test_a_way_that_saves_next_to_nothing_is_not_preferred(
    share: float, monkeypatch: pytest.MonkeyPatch, *, gains: bool
) -> None:
    one, target = subject(product((40, 40), (40, 40)), Target()), Target()
    default = planned(one.whole, target)
    other = replace(default, split_k=default.split_k + 3)
    seconds = {default: 2.0, other: 2.0 * share}
    race = SimpleNamespace(
        seconds=seconds, refused=["a"], best=min(seconds, key=seconds.__getitem__), run=len
    )
    monkeypatch.setattr(autotuner, "_Race", lambda *_: race)
    found = autotuner._searched(cast("Device", None), one, target)
    assert (found.planned, found.best, found.tried) == (default, other if gains else default, 3)
    assert (found.before, found.after) == (2.0, 2.0 * share if gains else 2.0)


@pytest.mark.adapter
def test_without_a_clock_there_is_no_search(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "has_clock", False)
    with pytest.raises(ProblemError, match="E0590"):
        tune(device, product((4, 4), (4, 4)), lambda _: None)


def outcome(best: KernelConfig, name: str = "a") -> Outcome:
    whole = replace(subject(product((9, 9), (9, 9)), Target()).whole, name=name)
    one = replace(subject(product((9, 9), (9, 9)), Target()), whole=whole)
    return Outcome(one, KernelConfig(), best, 2.0, 1.0, 3, ())


def test_only_what_gains_is_kept_and_only_if_the_step_does() -> None:
    outcomes = (outcome(KernelConfig(2), "a"), outcome(KernelConfig(), "b"))
    configs = {"b": TuningRecord(KernelConfig(7), 1, 2), "c": TuningRecord(KernelConfig(3), 1, 2)}
    known = TuningDatabase(configs, {"step": FEW, "another": FEW})
    faster = Tuning("step", outcomes, DEFAULT_FUSION, before=2.0, after=1.0)
    assert faster.found(known) == TuningDatabase(
        {"a": TuningRecord(KernelConfig(2), 1.0, 2.0), "c": TuningRecord(KernelConfig(3), 1, 2)},
        {"another": FEW},
    )
    assert not Tuning("step", outcomes[1:], DEFAULT_FUSION, before=2.0, after=1.0).gains
    slower = Tuning("step", outcomes, FEW, before=1.0, after=1.0)
    assert not slower.gains
    assert slower.found(known) == known
    fused = Tuning("new", (), FEW, before=2.0, after=1.0)
    assert fused.found(known) == TuningDatabase(configs, {**known.fusings, "new": FEW})


# --- plans ---------------------------------------------------------------------------------------


@pytest.mark.adapter
@pytest.mark.parametrize(
    "config", [KernelConfig(3, SMALL), KernelConfig(1, WIDE), KernelConfig(2)], ids=str
)
def test_a_plan_follows_its_choices_and_computes_the_same(
    device: Device, config: KernelConfig
) -> None:
    graph = product((2, 16, 9, 9), (24, 16, 3, 3), op=Conv((1, 1), (1, 1), (1, 1), 1))
    name = subject(graph, Target()).whole.name
    plain = plan_graph(graph, device.limits, Style.GPU)
    chosen = plan_graph(graph, device.limits, Style.GPU, TunedConfigs("a file", {name: config}))
    assert chosen.kernels != plain.kernels
    assert (plain.choices, chosen.choices) == ("", "a file")
    assert f"in {config.split_k} parts" in chosen.dispatches[0].name or config.split_k == 1
    generator = np.random.default_rng(0)
    feeds = {leaf.name: generator.standard_normal(leaf.shape, np.float32) for leaf in plain.inputs}
    results = [run_plan(plan, graph, feeds, device).outputs["y"] for plan in (plain, chosen)]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-4)


def test_choices_for_other_contractions_change_nothing() -> None:
    graph = product((64, 64), (64, 64))
    plain = plan_graph(graph, DeviceLimits())
    assert (
        plan_graph(graph, DeviceLimits(), Style.GPU, TunedConfigs("x", {"other": KernelConfig(2)}))
        == plain
    )


def test_a_step_that_is_known_is_fused_as_was_found() -> None:
    graph = product((64, 64), (64, 64))
    value = graph.outputs["y"]
    build = Builder()
    leaves = [build.add(each.op) for each in value.operands]
    fused = build.graph({"y": build.add(Exp(), build.add(MatMul(), *leaves))})
    choices = TunedConfigs("a file", {}, {step_name(fused): FEW})
    plain = plan_graph(fused, DeviceLimits())
    apart = plan_graph(fused, DeviceLimits(), Style.GPU, choices)
    assert (len(plain.dispatches), len(apart.dispatches)) == (1, 2)
    assert apart.choices == "a file"
    assert plan_graph(graph, DeviceLimits(), Style.GPU, choices).choices == ""
    assert step_name(fused) != step_name(graph)


def test_attention_is_one_kernel_or_not_as_was_found() -> None:
    build = Builder()
    leaves = [build.add(Input(name, DType.F32, (1, 2, 20, 16))) for name in "qkv"]
    graph = build.graph({"y": build.add(Attention(0.25, causal=False), *leaves)})
    counts = [
        len(plan_graph(graph, DeviceLimits(), Style.GPU, TunedConfigs("", {}, chosen)).dispatches)
        for chosen in (
            {},
            {step_name(graph): FusionConfig(fuse_attention=False)},
            {step_name(graph): FusionConfig(fuse_attention=True)},
        )
    ]
    assert counts[0] == counts[1] > counts[2] == 1


def test_a_plan_says_whose_choices_it_follows() -> None:
    graph = product((64, 64), (64, 64))
    name = subject(graph, Target()).whole.name
    choices = TunedConfigs("gpu.json (12345678)", {name: KernelConfig(2, SMALL)})
    text = str(plan_graph(graph, DeviceLimits(), Style.GPU, choices))
    assert "kernels as in gpu.json (12345678)" in text.splitlines()


@pytest.mark.parametrize(
    ("times", "fusing", "before", "after"),
    [
        ((4.0, 3.0, 3.0, 3.0), DEFAULT_FUSION, 4.0, 3.0),
        ((4.0, 3.0, 2.95, 3.5), DEFAULT_FUSION, 4.0, 3.0),
        ((4.0, 3.0, 2.93, 3.5), FEW, 4.0, 2.93),
        ((4.0, 5.0, 5.0, 4.5), FusionConfig(epilogue=200), 4.0, 4.5),
    ],
)
def test_a_step_is_planned_another_way_where_that_gains_enough(
    times: tuple[float, ...],
    fusing: FusionConfig,
    before: float,
    after: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two products one has a better way; only that is among the choices of each plan."""
    fusings = (DEFAULT_FUSION, FEW, FusionConfig(epilogue=200))
    planned_with: list[TunedConfigs] = []

    def plan(graph: Graph, limits: DeviceLimits, style: Style, choices: TunedConfigs) -> int:
        del graph, limits, style
        planned_with.append(choices)
        return len(planned_with)

    def searched(device: Device, one: Subject, target: Target) -> Outcome:
        del device
        own = planned(one.whole, target)
        best = replace(own, split_k=own.split_k + 3) if "40x40" in one.title else own
        return Outcome(one, own, best, 2.0, 1.0, 3, ())

    build = Builder()
    x, y = build.add(Input("x", DType.F32, (40, 40))), build.add(Input("y", DType.F32, (40, 8)))
    whole = build.add(MatMul(), x, x)
    graph = build.graph({"z": build.add(MatMul(), whole, y)})
    monkeypatch.setattr(autotuner, "FUSINGS", fusings)
    monkeypatch.setattr(autotuner, "plan_graph", plan)
    monkeypatch.setattr(autotuner, "_searched", searched)
    monkeypatch.setattr(autotuner, "_steps_of", lambda _, __, plans: times[: len(plans)])
    device = SimpleNamespace(has_clock=True, limits=DeviceLimits(), style=Style.GPU)
    told: list[Outcome] = []
    found = tune(cast("Device", device), graph, told.append)
    assert [one.gains for one in told] == [True, False]
    assert (found.fusing, found.before, found.after) == (fusing, before, after)
    assert planned_with[0].configs == {}
    better = {told[0].subject.whole.name: told[0].best}
    for choices, wanted in zip(planned_with[1:], fusings, strict=True):
        assert (choices.configs, choices.fusing_of(graph)) == (better, wanted)


@pytest.mark.parametrize(
    ("fusing", "text"),
    [
        (DEFAULT_FUSION, "epilogues of 60, launches x 1"),
        (
            FusionConfig(3, 0.5, fuse_attention=True),
            "epilogues of 3, launches x 0.5, attention in one",
        ),
        (
            FusionConfig(fuse_attention=False),
            "epilogues of 60, launches x 1, attention spelled out",
        ),
    ],
)
def test_how_values_share_kernels_is_said(fusing: FusionConfig, text: str) -> None:
    assert str(fusing) == text
