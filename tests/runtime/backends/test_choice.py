"""What the optimizer takes a device for, which is known before the device is open."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from meganeura_dsl.ir import cost_model as cost
from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE, GPU, DeviceModel
from meganeura_runtime.backends import registry as choice
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.registry import model_of
from meganeura_runtime.backends.webgpu.device.adapters import DeviceInfo

REAL = DeviceInfo("wgpu:0", "a card", "DiscreteGPU", "Vulkan", "1")
SOFTWARE = DeviceInfo("wgpu:1", "llvmpipe", "CPU", "Vulkan", "1")


@pytest.mark.parametrize(
    ("selector", "infos", "model"),
    [
        ("cpu", [REAL], DEFAULT_DEVICE),
        ("auto", [SOFTWARE, REAL], GPU),
        ("wgpu", [REAL, SOFTWARE], GPU),
        ("auto", [SOFTWARE], DEFAULT_DEVICE),
        ("wgpu:0", [REAL, SOFTWARE], GPU),
        ("wgpu:1", [REAL, SOFTWARE], cost.SOFTWARE),
        ("wgpu", [SOFTWARE], cost.SOFTWARE),
        ("wgpu:7", [REAL, SOFTWARE], DEFAULT_DEVICE),
        ("auto", [], DEFAULT_DEVICE),
    ],
)
def test_a_real_gpu_is_preferred_and_software_has_to_be_asked_for(
    selector: str,
    infos: Sequence[DeviceInfo],
    model: DeviceModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice, "list_devices", lambda: tuple(infos))
    assert model_of(selector) == model


def test_what_a_card_takes_at_most_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = tuple(replace(REAL, largest=size) for size in (3 << 30, 2 << 30))
    monkeypatch.setattr(choice, "list_devices", lambda: cards)
    assert model_of("auto") == replace(GPU, largest=2 << 30)


def test_a_driver_that_fails_is_told_where_the_device_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> tuple[DeviceInfo, ...]:
        raise DeviceError("no driver")

    monkeypatch.setattr(choice, "list_devices", broken)
    assert model_of("auto") == DEFAULT_DEVICE
