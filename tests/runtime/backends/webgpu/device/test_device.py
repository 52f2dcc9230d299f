"""Adapters: which one is opened and why, what errors say, and what the device promises."""

import sys
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style
from meganeura_runtime.backends.webgpu.device import adapters, wgpu_native
from meganeura_runtime.backends.webgpu.device import device as devices
from meganeura_runtime.backends.webgpu.device.adapters import DeviceInfo, list_devices, preference
from meganeura_runtime.backends.webgpu.device.device import Device, Range, open_device
from meganeura_runtime.backends.webgpu.device.wgpu_native import WGPU

DOUBLE = """\
@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;

@compute @workgroup_size(4)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    b1[id.x] = 2.0f * b0[id.x];
}
"""


def info(kind: str, backend: str) -> DeviceInfo:
    return DeviceInfo("wgpu:0", "an adapter", kind, backend, "1.0")


def test_a_gpu_is_preferred_to_software_and_vulkan_to_opengl() -> None:
    ranked = [
        info("DiscreteGPU", "Vulkan"),
        info("DiscreteGPU", "OpenGL"),
        info("IntegratedGPU", "Metal"),
        info("Unknown", "D3D12"),
        info("another", "another"),
        info("CPU", "Vulkan"),
        info("CPU", "OpenGL"),
    ]
    backwards = ranked[::-1]
    assert sorted(backwards, key=preference) == ranked


def test_every_dispatch_has_its_own_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline is set where it changes, also to one that was set before."""
    calls: list[tuple[object, ...]] = []
    lib = SimpleNamespace(
        wgpuComputePassEncoderSetPipeline=lambda *given: calls.append(("pipeline", *given)),
        wgpuComputePassEncoderSetBindGroup=lambda *given: calls.append(("bindings", *given)),
        wgpuComputePassEncoderDispatchWorkgroups=lambda *given: calls.append(("dispatch", *given)),
    )
    library = SimpleNamespace(lib=lib, ffi=SimpleNamespace(NULL=None))
    monkeypatch.setattr(WGPU, "library", lambda: library)
    order = [("add", "a"), ("add", "b"), ("add", "b"), ("sum", "b"), ("add", "a")]
    commands = [(*each, x, 2, 3) for x, each in enumerate(order)]
    WGPU.record(cast("Any", SimpleNamespace(_internal="pass")), commands)
    expected: list[tuple[object, ...]] = []
    for x, (pipeline, bindings) in enumerate(order):
        if x in (0, 3, 4):
            expected.append(("pipeline", "pass", pipeline))
        expected.append(("bindings", "pass", 0, bindings, 0, None))
        expected.append(("dispatch", "pass", x, 2, 3))
    assert calls == expected


def test_without_an_adapter_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "adapters_to_open", lambda _: ())
    with pytest.raises(DeviceError, match="mesa-vulkan-drivers"):
        open_device()


def test_without_wgpu_the_error_names_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "_found", dict[str, list[DeviceInfo]]())
    monkeypatch.setitem(sys.modules, "wgpu", None)
    with pytest.raises(DeviceError, match=r"wgpu cannot be loaded .* use the device `cpu`"):
        list_devices()


@pytest.mark.parametrize("error", [ImportError, OSError, RuntimeError])
def test_where_its_library_fails_the_error_names_the_cpu(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is missing, of another machine, or finds its declarations changed."""

    def fail() -> None:
        raise error("libwgpu_native.so")

    module = SimpleNamespace(version_info=(*wgpu_native.VERSION, 0))
    monkeypatch.setitem(sys.modules, "wgpu", module)
    monkeypatch.setattr(adapters, "_found", dict[str, list[DeviceInfo]]())
    monkeypatch.setattr(wgpu_native, "_load_library", fail)
    with pytest.raises(DeviceError, match=r"cannot be loaded \(libwgpu_native\.so\); use .* `cpu`"):
        list_devices()


def test_another_version_of_wgpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "_found", dict[str, list[DeviceInfo]]())
    for version in ((0, 31, 9), (0, 33, 0), (1, 32, 0)):
        other = SimpleNamespace(version_info=version, __version__=".".join(map(str, version)))
        monkeypatch.setitem(sys.modules, "wgpu", other)
        with pytest.raises(DeviceError, match=r"wgpu [013.29]+ is installed, 0\.32 is needed"):
            list_devices()


# --- what an adapter says of itself --------------------------------------------------------------

SAID = {
    "max-buffer-size": 1 << 33,
    "max-storage-buffer-binding-size": 1 << 31,
    "max-storage-buffers-per-shader-stage": 11,
    "min-storage-buffer-offset-alignment": 64,
    "max-compute-workgroups-per-dimension": 60_000,
    "max-compute-invocations-per-workgroup": 512,
    "max-compute-workgroup-size-x": 400,
    "max-compute-workgroup-storage-size": 30_000,
}


class _Adapter:
    """One that says this, and notes what is asked of it."""

    def __init__(self, *features: str) -> None:
        self.features = {*features, "texture-compression-bc"}
        self.limits = {**SAID, "max-texture-dimension-1d": 4}
        self.asked: list[tuple[set[str], dict[str, int]]] = []

    def request_device_sync(
        self, *, required_features: list[str], required_limits: dict[str, int]
    ) -> object:
        self.asked.append((set(required_features), required_limits))
        return object()


HALVES, CLOCK, LANES = "shader-f16", "timestamp-query", "subgroup"


@pytest.mark.parametrize("kind", ["DiscreteGPU", "CPU"])
@pytest.mark.parametrize(
    "features", [(), (HALVES,), (CLOCK,), (LANES,), (HALVES, CLOCK), (HALVES, CLOCK, LANES)]
)
def test_a_device_has_what_its_adapter_has(
    features: tuple[str, ...], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All limits are asked for, and the features there are; shuffles are tried on software."""
    monkeypatch.setattr(devices, "explained", lambda *_: nullcontext())
    monkeypatch.setattr(Device, "_working_lanes", lambda _: 8)
    adapter, is_software = _Adapter(*features), kind == "CPU"
    made = Device(cast("Any", adapter), info(kind, "Vulkan"), "as asked", checked=True)
    assert adapter.asked == [(set(features), SAID)]
    assert made.limits == DeviceLimits(
        buffer_bytes=1 << 33,
        binding_bytes=1 << 31,
        storage_buffers=11,
        offset_alignment=64,
        workgroups=60_000,
        invocations=512,
        workgroup_bytes=30_000,
        half_floats=HALVES in features,
        lanes=8 if LANES in features and is_software else 0,
    )
    assert made.has_clock == (CLOCK in features)
    assert (made.submissions, made.read_backs, made.allocated) == (0, 0, 0)
    assert made.style is (Style.SOFTWARE_VULKAN if is_software else Style.GPU)


@pytest.mark.parametrize(
    ("selector", "kinds", "checked", "opened"),
    [
        ("wgpu", ["CPU", "DiscreteGPU"], None, (1, "the first GPU found", False)),
        ("wgpu", ["IntegratedGPU", "DiscreteGPU"], None, (1, "the first GPU found", False)),
        ("wgpu", ["DiscreteGPU", "DiscreteGPU"], None, (0, "the first GPU found", False)),
        ("wgpu", ["CPU"], None, (0, "no GPU was found", True)),
        ("wgpu:0", ["CPU", "DiscreteGPU"], None, (0, "as asked", True)),
        ("wgpu:1", ["CPU", "DiscreteGPU"], None, (1, "as asked", False)),
        ("wgpu:1", ["CPU", "DiscreteGPU"], True, (1, "as asked", True)),
        ("wgpu", ["CPU"], False, (0, "no GPU was found", False)),
    ],
)
def test_the_adapter_that_is_meant_is_opened(
    selector: str,
    kinds: list[str],
    checked: bool | None,  # noqa: FBT001 - as it is given
    opened: tuple[int, str, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kernels check their indices on software alone, unless they are asked to."""
    infos = [info(kind, "Vulkan") for kind in kinds]
    monkeypatch.setattr(devices, "adapters_to_open", lambda _: range(len(infos)))
    monkeypatch.setattr(adapters, "list_devices", lambda _: tuple(infos))
    made: list[tuple[int, str, bool]] = []

    def open_(adapter: int, found: DeviceInfo, reason: str, *, checked: bool) -> None:
        assert found is infos[adapter]
        made.append((adapter, reason, checked))

    monkeypatch.setattr(devices, "Device", open_)
    open_device(selector, checked=checked)
    assert made == [opened]


@pytest.mark.adapter
class TestAdapter:
    """Tests that need an adapter."""

    def test_every_adapter_has_a_name_that_opens_it(self) -> None:
        found = list_devices()
        assert [info.selector for info in found] == [f"wgpu:{n}" for n in range(len(found))]
        opened = open_device(found[0].selector)
        assert opened.info == found[0]
        assert str(opened) == f"{found[0]} (as asked)"
        opened.close()

    def test_a_device_that_is_not_there(self) -> None:
        with pytest.raises(DeviceError, match="there is no adapter 99; there are: wgpu:0: "):
            open_device("wgpu:99")
        with pytest.raises(DeviceError, match="there is no adapter"):
            open_device(f"wgpu:{len(list_devices())}")
        with pytest.raises(DeviceError, match="`cuda` is no device"):
            open_device("cuda")

    def test_the_limits_are_those_of_the_adapter(self, device: Device) -> None:
        least = DeviceLimits()
        assert device.limits.binding_bytes >= least.binding_bytes
        assert device.limits.storage_buffers >= least.storage_buffers
        assert device.limits.offset_alignment <= least.offset_alignment
        assert device.limits.workgroups == 65_535
        assert device.style is (Style.SOFTWARE_VULKAN if device.info.is_software else Style.GPU)

    def test_kernels_then_copies_in_one_submission(self, device: Device) -> None:
        source, target = (device.allocate(64) for _ in range(2))
        numbers = np.arange(4, dtype=np.float32)
        device.write(Range(source, 0, 16), numbers.view(np.uint8))
        before = device.submissions
        launch = device.launch(DOUBLE, [Range(source, 0, 16), Range(target, 0, 16)], (1, 1, 1))
        device.submit([launch], [(Range(target, 0, 16), Range(source, 32, 16))])
        assert device.submissions == before + 1
        for at in (Range(target, 0, 16), Range(source, 32, 16)):
            np.testing.assert_array_equal(device.read(at).view(np.float32), 2 * numbers)
        device.free(source)
        device.free(target)

    def test_a_device_that_is_idle_begins_before_all_kernels_are_recorded(
        self, device: Device
    ) -> None:
        first, second = (device.allocate(64) for _ in range(2))
        numbers = np.arange(4, dtype=np.float32)
        device.write(Range(second, 32, 16), numbers.view(np.uint8))
        at = [Range(first, 0, 16), Range(second, 0, 16)]
        pair = [device.launch(DOUBLE, each, (1, 1, 1)) for each in (at, at[::-1])]
        before = device.submissions
        device.submit(pair * 50, [(at[0], Range(second, 32, 16))], [(Range(second, 32, 16), at[0])])
        assert device.submissions == before + 3
        doubled = numbers * np.float32(2.0**100)
        np.testing.assert_array_equal(device.read(Range(second, 32, 16)).view(np.float32), doubled)
        device.free(first)
        device.free(second)

    @pytest.mark.parametrize(
        ("count", "parts"),
        [(63, [63]), (64, [16, 48]), (80, [16, 64]), (81, [16, 32, 33])],
    )
    def test_each_part_is_twice_as_long_as_the_one_before(
        self, count: int, parts: list[int], device: Device, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And there are none where the device has something to do, or somebody looks on."""
        buffers = [device.allocate(32) for _ in range(2)]
        launch = device.launch(DOUBLE, [Range(each, 0, 16) for each in buffers], (1, 1, 1))
        kernels: list[int] = []
        record = WGPU.record
        monkeypatch.setattr(
            WGPU,
            "record",
            lambda compute, commands: (kernels.append(len(commands)), record(compute, commands)),
        )
        for is_busy, expected in ((False, parts), (True, [count])):
            monkeypatch.setattr(Device, "is_busy", property(lambda _, busy=is_busy: busy))
            kernels.clear()
            device.submit([launch] * count)
            assert kernels == expected
            kernels.clear()
            device.submit([launch] * count, in_parts=False)
            assert kernels == [count]
        for buffer in buffers:
            device.free(buffer)

    @pytest.mark.parametrize(
        ("name", "works"),
        [
            (None, True),
            ("llvmpipe", False),
            ("llvmpipe (LLVM 15.0.6, 8192 bits)", False),
        ],
    )
    def test_lanes_are_as_many_as_shuffle(
        self, name: str | None, device: Device, monkeypatch: pytest.MonkeyPatch, *, works: bool
    ) -> None:
        """Whatever a driver says of itself."""
        if name is not None:
            monkeypatch.setattr(device, "info", replace(device.info, name=name))
        assert device._working_lanes() == (device.limits.lanes if works else 0)

    def test_memory_begins_as_zeros(self, device: Device) -> None:
        buffer = device.allocate(1024)
        assert not device.read(Range(buffer, 0, 1024)).any()
        device.free(buffer)

    def test_one_text_is_compiled_once(self, device: Device) -> None:
        buffers = [device.allocate(32) for _ in range(2)]
        ranges = [Range(buffer, 0, 16) for buffer in buffers]
        first, second = (device.launch(DOUBLE, ranges, (1, 1, 1)) for _ in range(2))
        assert first.pipeline is second.pipeline
        for buffer in buffers:
            device.free(buffer)

    def test_a_kernel_that_does_not_compile(self, device: Device) -> None:
        buffer = device.allocate(32)
        with pytest.raises(DeviceError, match="compiling a kernel failed"):
            device.launch("fn main() { nonsense }", [Range(buffer, 0, 16)], (1, 1, 1))
        device.free(buffer)

    def test_more_memory_than_there_is(self, device: Device) -> None:
        with pytest.raises(DeviceError, match="allocating"):
            device.allocate(1 << 60)
