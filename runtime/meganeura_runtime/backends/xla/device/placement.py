"""Placement of the arrays of a session: on one device, or sharded over several."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.settings.device_sharding import DeviceSharding

AXIS = "devices"
"""Name of the only axis of the mesh, over which batches and, under fsdp, parameters are sharded."""


class Placement(ABC):
    """The devices of a session, and the sharding of each array."""

    @property
    @abstractmethod
    def platform(self) -> str:
        """Returns the kind of the devices: `cpu` or `gpu`."""

    @property
    @abstractmethod
    def devices(self) -> Sequence[jax.Device]:
        """Returns the devices of this process."""

    @abstractmethod
    def persistent(self, name: str, of: TensorType) -> Sharding:
        """Returns the sharding of a parameter or state."""

    @abstractmethod
    def fed(self, name: str, of: TensorType) -> Sharding:
        """Returns the sharding of an input."""

    @abstractmethod
    def given(self, name: str, of: TensorType) -> Sharding:
        """Returns the sharding of an output."""

    def gathered(self, name: str, of: TensorType) -> Sharding | None:
        """Returns the sharding of a gathered parameter; `None` for one that is not sharded."""
        del name, of
        return None

    def own(self, examples: int) -> range:
        """Returns the range of examples of a step that the devices of this process hold."""
        return range(examples)


@dataclass(frozen=True)
class OneDevice(Placement):
    """Everything on one device."""

    device: jax.Device

    @property
    def platform(self) -> str:
        """Returns the platform of the device."""
        return self.device.platform

    @property
    def devices(self) -> Sequence[jax.Device]:
        """Returns the device."""
        return (self.device,)

    def persistent(self, name: str, of: TensorType) -> Sharding:
        """Returns the device."""
        del name, of
        return SingleDeviceSharding(self.device)

    fed = persistent
    given = persistent


@dataclass(frozen=True)
class SeveralDevices(Placement):
    """Batches sharded over devices; parameters replicated, or sharded too.

    The program is partitioned by XLA, which keeps its meaning: a mean over the batch is one over
    all devices (GSPMD: Y. Xu et al., arXiv 2105.04663). Under fsdp parameters and optimizer states
    are split too, and gathered where a step computes with them (ZeRO stage 3: S. Rajbhandari et
    al., arXiv 1910.02054).
    """

    mesh: Mesh
    sharding: DeviceSharding
    rows: Mapping[str, int]
    """Rows of one example, by name of an input whose first axis counts examples."""

    @property
    def platform(self) -> str:
        """Returns the platform of the devices."""
        return self.mesh.devices.flat[0].platform

    @property
    def devices(self) -> Sequence[jax.Device]:
        """Returns the devices of this process."""
        here = jax.process_index()
        return [each for each in self.mesh.devices.flat if each.process_index == here]

    @property
    def replicated(self) -> NamedSharding:
        """Returns the sharding of an array that is whole on every device."""
        return NamedSharding(self.mesh, PartitionSpec())

    def persistent(self, name: str, of: TensorType) -> NamedSharding:
        """Returns, under fsdp, a sharding of the longest axis that the devices divide."""
        del name
        axis = self.split_axis(of)
        if axis is None:
            return self.replicated
        return NamedSharding(self.mesh, PartitionSpec(*[None] * axis, AXIS))

    def split_axis(self, of: TensorType) -> int | None:
        """Returns the axis along which a parameter or state is sharded, if any."""
        if self.sharding is not DeviceSharding.FSDP:
            return None
        shape = concrete_shape(of.shape)
        fitting = [axis for axis, size in enumerate(shape) if self.divides(size)]
        return max(fitting, key=lambda axis: shape[axis], default=None)

    def fed(self, name: str, of: TensorType) -> NamedSharding:
        """Returns a sharding of the examples if the devices divide them, else a replicated one."""
        rows = self.rows.get(name, 0)
        if rows == 0 or not self.divides(concrete_shape(of.shape)[0] // rows):
            return self.replicated
        return NamedSharding(self.mesh, PartitionSpec(AXIS))

    def given(self, name: str, of: TensorType) -> NamedSharding:
        """Returns a replicated sharding, as every process can read outputs."""
        del name, of
        return self.replicated

    def gathered(self, name: str, of: TensorType) -> NamedSharding | None:
        """Returns the replicated sharding for sharded parameters."""
        return None if self.persistent(name, of) == self.replicated else self.replicated

    def own(self, examples: int) -> range:
        """Returns a contiguous range, as the devices of a process are beside each other."""
        if not self.divides(examples):
            return range(examples)
        each = examples // self.mesh.size
        here = jax.process_index()
        positions = [
            at for at, one in enumerate(self.mesh.devices.flat) if one.process_index == here
        ]
        return range(each * positions[0], each * (positions[-1] + 1))

    def divides(self, size: int) -> bool:
        """Returns True if devices can have equal shares of an axis of this size."""
        return size % self.mesh.size == 0
