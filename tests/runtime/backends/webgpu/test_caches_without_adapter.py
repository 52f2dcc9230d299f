"""Plans, what they take and tuned configs: kept for an adapter, made anew where they must be."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from meganeura_dsl import __version__
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.ops import Exp, Input, MatMul, Parameter
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu import plan_cache
from meganeura_runtime.backends.webgpu.config.kernel_config import FusionConfig, KernelConfig, Tile
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style
from meganeura_runtime.backends.webgpu.config.tuned_configs import (
    UNTUNED,
    TunedConfigs,
    TuningDatabase,
    TuningKey,
    TuningRecord,
    step_name,
)
from meganeura_runtime.backends.webgpu.device.adapters import DeviceInfo
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.memory.memory_usage import memory_of_plan
from meganeura_runtime.backends.webgpu.schedule import compile as schedule
from meganeura_runtime.backends.webgpu.tuning_cache import (
    known_configs,
    store_configs,
    tuned_configs,
    tuned_file,
    tuning_key_of,
)

INFO = DeviceInfo("wgpu:0", "an adapter", "GPU", "Vulkan", "driver 1")
FUSING = FusionConfig(epilogue=3)
FOUND = TuningDatabase(
    {"a": TuningRecord(KernelConfig(3, Tile(32, 32, 8, 8, 8)), 1.0, 2.0)}, {"step": FUSING}
)


def device(**changed: object) -> Device:
    known = {"info": INFO, "limits": DeviceLimits(), "style": Style.GPU, **changed}
    return cast("Device", SimpleNamespace(**known))


def product(columns: int = 40) -> Graph:
    build = Builder()
    x = build.add(Input("x", DType.F32, (48, 64)))
    w = build.add(Parameter("w", DType.F32, (64, columns), "param"))
    return build.graph({"y": build.add(Exp(), build.add(MatMul(), x, w))})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("what", ["plan", "memory"])
def test_what_was_planned_is_found_and_what_is_damaged_is_planned_anew(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[str] = []
    cached = {"plan": plan_cache.cached_plan, "memory": plan_cache.cached_memory}[what]
    plan = getattr(schedule, f"plan_{'graph' if what == 'plan' else what}")

    def counted(*arguments: object) -> object:
        planned.append(what)
        return plan(*arguments)

    monkeypatch.setattr(schedule, plan.__name__, counted)
    first = cached(product(), device())
    assert cached(product(), device()) == first == plan(product(), DeviceLimits(), Style.GPU)
    assert len(planned) == 1
    others: list[tuple[Graph, Device, TunedConfigs]] = [
        (product(41), device(), UNTUNED),
        (product(), device(info=replace(INFO, name="another")), UNTUNED),
        (product(), device(info=replace(INFO, backend="Metal")), UNTUNED),
        (product(), device(info=replace(INFO, driver="driver 2")), UNTUNED),
        (product(), device(limits=DeviceLimits(invocations=128)), UNTUNED),
        (product(), device(style=Style.SOFTWARE_VULKAN), UNTUNED),
        (product(), device(), TunedConfigs("some", {"no such": KernelConfig(2)}, {})),
        (product(), device(), TunedConfigs("some", {"no such": KernelConfig(3)}, {})),
        (product(), device(), TunedConfigs("", {}, {step_name(product()): FUSING})),
    ]
    for number, (graph, other, choices) in enumerate(others, 2):
        for _ in range(2):
            found = cached(graph, other, choices)
            assert found == plan(graph, other.limits, other.style, choices)
            assert len(planned) == number
    for content in (b"{}", b"[]", b"null", b'{"roles": {"none": 1}, "held": 0}', b"\xff"):
        monkeypatch.setattr(plan_cache, "user_cache", lambda content=content: _Only(content))
        before = len(planned)
        assert cached(product(), device()) == first
        assert len(planned) == before + 1


@pytest.mark.usefixtures("folder")
def test_a_plan_and_what_it_takes_are_kept_beside_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan, memory = (
        each(product(), device()) for each in (plan_cache.cached_plan, plan_cache.cached_memory)
    )
    for name in ("plan_graph", "plan_memory"):
        monkeypatch.setattr(schedule, name, None)
    assert plan_cache.cached_plan(product(), device()) == plan
    assert plan_cache.cached_memory(product(), device()) == memory


@pytest.mark.usefixtures("folder")
def test_the_order_in_which_choices_were_found_is_none_of_a_plan() -> None:
    first, second = ("a", KernelConfig(2)), ("b", KernelConfig(3))
    keys = {
        plan_cache.plan_of(product(), device(), TunedConfigs("some", dict(each))).key
        for each in ((first, second), (second, first))
    }
    assert len(keys) == 1


class _Only:
    """A cache that holds one content under every key."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def find(self, key: str) -> bytes:
        del key
        return self.content

    def store(self, key: str, content: bytes) -> None:
        del key, content


def test_what_was_found_for_an_adapter_is_used_for_it_alone(folder: Path) -> None:
    assert tuning_key_of(INFO) == TuningKey("an adapter", "Vulkan, driver 1", __version__)
    assert tuned_configs(INFO, DeviceLimits()) == (UNTUNED, "")
    assert known_configs(INFO) == TuningDatabase()
    path = store_configs(INFO, FOUND)
    assert path == tuned_file(INFO)
    assert path is not None
    assert folder in path.parents
    assert known_configs(INFO) == FOUND
    configs, note = tuned_configs(INFO, DeviceLimits())
    assert note == f"kernels as tuned: {path}"
    assert configs.configs == {"a": KernelConfig(3, Tile(32, 32, 8, 8, 8))}
    assert configs.fusings == {"step": FUSING}
    names = {configs.name}
    for changed in (
        TuningDatabase(FOUND.configs, {}),
        TuningDatabase({}, FOUND.fusings),
        TuningDatabase(FOUND.configs, {"step": FusionConfig(epilogue=4)}),
        TuningDatabase({"a": TuningRecord(KernelConfig(4), 1.0, 2.0)}, FOUND.fusings),
    ):
        store_configs(INFO, changed)
        names.add(tuned_configs(INFO, DeviceLimits())[0].name)
    assert len(names) == 5
    for field in ({"name": "another"}, {"backend": "Metal"}, {"driver": "driver 2"}):
        other = replace(INFO, **field)
        assert tuned_configs(other, DeviceLimits()) == (UNTUNED, "")
        assert known_configs(other) == TuningDatabase()


@pytest.mark.usefixtures("folder")
def test_a_config_that_an_adapter_does_not_allow_is_left_out() -> None:
    store_configs(INFO, FOUND)
    allowed = tuned_configs(INFO, DeviceLimits(invocations=8))[0]
    assert allowed.configs.keys() == set()
    assert allowed.fusings == {"step": FUSING}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("content", [b"{", b"\xff", b"{}", b'{"place": 1}'])
def test_a_file_that_cannot_be_used_is_told_and_passed_over(content: bytes) -> None:
    path = store_configs(INFO, FOUND)
    assert path is not None
    path.write_bytes(content)
    configs, note = tuned_configs(INFO, DeviceLimits())
    assert configs == UNTUNED
    assert note.startswith(f"kernels not as tuned: {path} ")
    assert known_configs(INFO) == TuningDatabase()


def test_where_nothing_is_cached_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEGANEURA_CACHE", "off")
    assert tuned_file(INFO) is None
    assert store_configs(INFO, FOUND) is None
    assert tuned_configs(INFO, DeviceLimits()) == (UNTUNED, "")
    assert known_configs(INFO) == TuningDatabase()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(ProblemError, match="cannot"):
        store_configs(INFO, FOUND)


def test_what_a_plan_takes_is_named_from_the_largest_on() -> None:
    build = Builder()
    y = build.add(Input("x", DType.F32, (4000, 500)))
    w = build.add(Parameter("w", DType.F32, (500, 1500), "param"))
    wide = build.add(Exp(), build.add(MatMul(), y, w))
    graph = build.graph({"y": y, "wide": wide, "z": build.add(Exp(), build.add(Exp(), y))})
    plan = schedule.plan_graph(graph, DeviceLimits())
    found = memory_of_plan(plan)
    assert found.bytes == sum(buffer.bytes for buffer in plan.buffers)
    assert found.persistent == -(-4 * 500 * 1500 // 256) * 256
    sizes = [float(each.split()[0]) for each in found.largest]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]
    assert "matmul" in found.largest[0]
