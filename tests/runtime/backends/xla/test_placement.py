"""Where inputs and parameters lie on several devices, of which none has to be there."""

import pytest
from jax.sharding import AbstractMesh, PartitionSpec

from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_runtime.backends.xla.placement import AXIS, SeveralDevices

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
