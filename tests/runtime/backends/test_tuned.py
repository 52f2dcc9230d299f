"""Files of choices: what they give back, whom they are for, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.ir.graph import Builder, Origin
from meganeura_dsl.ir.ops import Input, MatMul, Neg
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.backend import WebGpuBackend
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import WIDE
from meganeura_runtime.backends.webgpu.config.kernel_config import FusionConfig, KernelConfig
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Target
from meganeura_runtime.backends.webgpu.config.tuned_configs import (
    TunedConfigs,
    TunedConfigsError,
    TuningDatabase,
    TuningKey,
    TuningRecord,
    content_of,
    read_tuned_configs,
    read_tuning_record,
    step_name,
)
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.open_adapter import OpenAdapter, memory_on
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.tuning.search_space import subjects
from meganeura_runtime.backends.webgpu.tuning_cache import (
    known_configs,
    store_configs,
    tuned_configs,
)

HERE = TuningKey("Some GPU", "Vulkan, 1.2")
FEW = FusionConfig(epilogue=0)


def written(
    path: Path,
    configs: dict[str, KernelConfig],
    place: TuningKey = HERE,
    fusings: dict[str, FusionConfig] | None = None,
) -> Path:
    found = {name: TuningRecord(config, 1.0, 2.0) for name, config in configs.items()}
    path.write_text(content_of(place, TuningDatabase(found, fusings or {})))
    return path


def test_a_file_gives_back_what_was_kept(tmp_path: Path) -> None:
    configs = {"a": KernelConfig(2, WIDE), "b": KernelConfig(1), "c": KernelConfig(3, rows=16)}
    path = written(tmp_path / "gpu.json", configs)
    read = read_tuned_configs(path, HERE, DeviceLimits(lanes=8))
    assert read.configs == configs
    assert read.name.startswith("gpu.json (")
    assert read_tuned_configs(path, HERE, DeviceLimits()).configs == {
        "a": KernelConfig(2, WIDE),
        "b": KernelConfig(1),
    }


def test_the_name_of_choices_tells_when_they_have_changed(tmp_path: Path) -> None:
    names = {
        read_tuned_configs(written(tmp_path / "gpu.json", configs), HERE, DeviceLimits()).name
        for configs in (
            {"a": KernelConfig(2)},
            {"a": KernelConfig(3)},
            {"b": KernelConfig(2)},
            {"a": KernelConfig(2)},
        )
    }
    assert len(names) == 3


@pytest.mark.parametrize(
    "other",
    [
        TuningKey("Another GPU", HERE.driver),
        TuningKey(HERE.adapter, "Vulkan, 1.3"),
        TuningKey(HERE.adapter, HERE.driver, "0.0.0"),
    ],
    ids=str,
)
def test_what_holds_for_another_place_is_refused_and_kept_elsewhere(
    other: TuningKey, tmp_path: Path
) -> None:
    path = written(tmp_path / "gpu.json", {"a": KernelConfig(2)}, other)
    with pytest.raises(TunedConfigsError, match="is of "):
        read_tuning_record(path, HERE)
    assert other.file_name != HERE.file_name
    assert HERE.file_name.startswith("some-gpu-")


@pytest.mark.parametrize("cut", [0, 1, 40, -2])
def test_a_file_that_is_cut_short_is_refused(cut: int, tmp_path: Path) -> None:
    path = written(tmp_path / "gpu.json", {"a": KernelConfig(2, WIDE)})
    path.write_text(path.read_text()[:cut])
    with pytest.raises(TunedConfigsError, match="holds no choices"):
        read_tuning_record(path, HERE)


def test_a_file_of_before_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "gpu.json", {"a": KernelConfig(2)})
    content = json.loads(path.read_text())
    path.write_text(json.dumps({"place": content.pop("key"), **content}))
    assert read_tuning_record(path, HERE).configs["a"].config == KernelConfig(2)


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "gpu.json", {"a": KernelConfig(2)})
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "version": 1}))
    with pytest.raises(TunedConfigsError, match="holds no choices"):
        read_tuning_record(path, HERE)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read_tuning_record(path, HERE)


@pytest.mark.parametrize(
    "odd", [FusionConfig(-1), FusionConfig(1 << 20), FusionConfig(60, 0.0), FusionConfig(60, -1.0)]
)
def test_fusing_that_makes_no_sense_is_left(odd: FusionConfig, tmp_path: Path) -> None:
    path = written(tmp_path / "gpu.json", {}, HERE, {"a": FEW, "b": odd})
    assert read_tuned_configs(path, HERE, DeviceLimits()).fusings == {"a": FEW}


# --- what an adapter gets ------------------------------------------------------------------------


@pytest.mark.adapter
def test_sessions_and_their_memory_are_planned_with_what_was_found(device: Device) -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (8, 512)))
    graph = build.graph({"y": build.add(MatMul(transpose_right=True), x, x)})
    (only,) = subjects(graph, Target(device.limits, device.style))
    found = TunedConfigs("found", {only.whole.name: KernelConfig(4)})
    plain = OpenAdapter.of(WebGpuBackend(), device)
    tuned = replace(plain, configs=found)
    plan = plan_graph(graph, device.limits, device.style, found)
    with plain.open(graph) as first, tuned.open(graph) as second:
        assert (first.plan.choices, second.plan) == ("", plan)
    assert memory_on(graph, tuned).held == sum(buffer.bytes for buffer in plan.buffers)
    assert memory_on(graph, tuned) != memory_on(graph, plain)


@pytest.mark.adapter
def test_what_is_kept_for_an_adapter_is_used_by_its_next_session(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store_configs(device.info, TuningDatabase()) is None
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path))
    assert tuned_configs(device.info, device.limits) == (TunedConfigs(), "")
    assert known_configs(device.info) == TuningDatabase()
    known = TuningDatabase({"a": TuningRecord(KernelConfig(2), 1.0, 2.0)}, {"step": FEW})
    path = store_configs(device.info, known)
    assert path is not None
    assert known_configs(device.info) == known
    choices, line = tuned_configs(device.info, device.limits)
    assert choices.configs == {"a": KernelConfig(2)}
    assert line == f"kernels as tuned: {path}"
    plain = OpenAdapter.of(WebGpuBackend(), device)
    assert plain.tuned() == replace(plain, configs=choices, note=line)
    other = replace(device.info, driver="another")
    assert tuned_configs(other, device.limits) == (TunedConfigs(), "")
    path.write_text("{")
    choices, line = tuned_configs(device.info, device.limits)
    assert choices == TunedConfigs()
    assert line.startswith("kernels not as tuned: ")
    assert known_configs(device.info) == TuningDatabase()


@pytest.mark.adapter
def test_a_folder_that_cannot_be_made_is_a_problem(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path / "file"))
    with pytest.raises(ProblemError, match="E0534"):
        store_configs(device.info, TuningDatabase())


def test_a_step_is_known_by_the_shapes_of_all_leaves() -> None:
    """Also of a leaf whose name looks like a comment."""

    def named(size: int) -> str:
        build = Builder()
        return step_name(build.graph({"y": build.add(Input("a  # b", DType.F32, (size,)))}))

    assert named(2) == named(2) != named(3)


def test_a_step_is_known_wherever_it_stands_in_a_program() -> None:
    """Its tuned choices hold when a line is written above it."""
    source = Source("net.mgn", "y = -x\n")

    def named(start: int, path: str) -> str:
        build = Builder()
        x = build.add(Input("x", DType.F32, (2,)))
        with build.at(Origin(Span(source, start, start + 1), path)):
            return step_name(build.graph({"y": build.add(Neg(), x)}))

    assert named(0, "") == named(4, "") == named(0, "head")
