"""Adapters: which one is opened and why, what errors say, and what the device promises."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style
from meganeura_runtime.backends.webgpu.device import adapters as adapter_lists
from meganeura_runtime.backends.webgpu.device import device as devices
from meganeura_runtime.backends.webgpu.device.adapters import DeviceInfo, list_devices, preference
from meganeura_runtime.backends.webgpu.device.device import Device, Range, open_device

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
        info("CPU", "Vulkan"),
        info("CPU", "OpenGL"),
    ]
    backwards = ranked[::-1]
    assert sorted(backwards, key=preference) == ranked


def test_without_an_adapter_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "adapters_to_open", tuple[object, ...])
    with pytest.raises(DeviceError, match="mesa-vulkan-drivers"):
        open_device()


def test_without_wgpu_the_error_names_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "meganeura_runtime.backends.webgpu.device.adapters._found", list[DeviceInfo]()
    )
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

    module = SimpleNamespace(version_info=(*adapter_lists.VERSION, 0))
    monkeypatch.setitem(sys.modules, "wgpu", module)
    monkeypatch.setattr(adapter_lists, "_found", list[DeviceInfo]())
    monkeypatch.setattr(adapter_lists, "_load_library", fail)
    with pytest.raises(DeviceError, match=r"cannot be loaded \(libwgpu_native\.so\); use .* `cpu`"):
        list_devices()


def test_another_version_of_wgpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter_lists, "_found", list[DeviceInfo]())
    for version in ((0, 31, 9), (0, 33, 0), (1, 32, 0)):
        other = SimpleNamespace(version_info=version, __version__=".".join(map(str, version)))
        monkeypatch.setitem(sys.modules, "wgpu", other)
        with pytest.raises(DeviceError, match=r"wgpu [013.29]+ is installed, 0\.32 is needed"):
            list_devices()


@pytest.mark.adapter
class TestAdapter:
    """What needs an adapter."""

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
        record = devices.wgpu_native.record
        monkeypatch.setattr(
            devices.wgpu_native,
            "record",
            lambda compute, commands: (kernels.append(len(commands)), record(compute, commands)),
        )
        for is_busy, expected in ((False, parts), (True, [count])):
            monkeypatch.setattr(Device, "is_busy", property(lambda _, busy=is_busy: busy))
            kernels.clear()
            device.submit([launch] * count)
            assert kernels == expected
        for buffer in buffers:
            device.free(buffer)

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
