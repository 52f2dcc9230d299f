"""Placement of inputs and parameters on several devices, of which none has to exist."""

from types import SimpleNamespace
from typing import cast

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, Mesh, PartitionSpec

from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_runtime.backends.xla.device.placement import AXIS, SeveralDevices

ROWS = {"x": 1, "pairs": 2}


def several(devices: int, sharding: DeviceSharding = DeviceSharding.DATA) -> SeveralDevices:
    mesh = AbstractMesh((devices,), (AXIS,))
    return SeveralDevices(mesh, sharding, ROWS)


@pytest.mark.parametrize(
    ("name", "size", "devices", "is_split"),
    [
        ("x", 6, 2, True),
        ("x", 6, 3, True),
        ("x", 6, 4, False),
        ("x", 3, 2, False),
        ("pairs", 12, 2, True),
        ("pairs", 6, 2, False),
        ("pairs", 6, 3, True),
        ("pairs", 12, 4, False),
        ("table", 6, 2, False),
    ],
)
def test_an_input_is_split_where_the_devices_divide_the_examples(
    name: str, size: int, devices: int, *, is_split: bool
) -> None:
    """And so are all inputs of a batch, or none."""
    found = several(devices).fed(name, TensorType(DType.F32, (size, 5)))
    assert found.spec == (PartitionSpec(AXIS) if is_split else PartitionSpec())


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((8, 6), 0),
        ((6, 8), 1),
        ((7, 8), 1),
        ((7, 9), None),
        ((8, 8), 0),
        ((4, 16, 12), 1),
        ((), None),
    ],
)
def test_a_parameter_is_split_along_its_longest_axis_that_can_be(
    shape: tuple[int, ...], axis: int | None
) -> None:
    of = TensorType(DType.F32, shape)
    placement = several(4, DeviceSharding.FSDP)
    assert placement.split_axis(of) == axis
    parts = [AXIS if number == axis else None for number in range((axis or 0) + 1)]
    whole = PartitionSpec()
    assert placement.persistent("w", of).spec == (whole if axis is None else PartitionSpec(*parts))
    assert several(4).persistent("w", of).spec == whole


def processes(*of_each: int) -> Mesh:
    """Devices in order, by how many of them each process has."""
    devices = [
        SimpleNamespace(process_index=number)
        for number, count in enumerate(of_each)
        for _ in range(count)
    ]
    return cast("Mesh", SimpleNamespace(size=len(devices), devices=np.array(devices)))


@pytest.mark.parametrize(
    ("of_each", "here", "examples", "own"),
    [
        ((2, 2), 0, 8, range(4)),
        ((2, 2), 1, 8, range(4, 8)),
        ((1, 3), 1, 8, range(2, 8)),
        ((2, 1, 1), 2, 12, range(9, 12)),
        ((2, 2), 1, 6, range(6)),
        ((4,), 0, 8, range(8)),
    ],
)
def test_a_process_holds_the_examples_of_its_devices(
    of_each: tuple[int, ...],
    here: int,
    examples: int,
    own: range,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of them where the devices do not divide their number."""
    monkeypatch.setattr(jax, "process_index", lambda: here)
    where = SeveralDevices(processes(*of_each), DeviceSharding.DATA, ROWS)
    assert where.own(examples) == own
    assert len(where.devices) == of_each[here]
