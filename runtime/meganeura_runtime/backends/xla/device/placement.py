"""Where the arrays of a session lie: on one device, or spread over several."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.settings.device_sharding import DeviceSharding

AXIS = "devices"
"""The one axis of the mesh: batches and, under fsdp, parameters are split along it."""


class Placement(ABC):
    """The devices of a session, and the sharding of each array."""

    @property
    @abstractmethod
    def platform(self) -> str:
        """What kind of devices they are: `cpu` or `gpu`."""

    @property
    @abstractmethod
    def devices(self) -> Sequence[jax.Device]:
        """Those of this process."""

    @abstractmethod
    def persistent(self, name: str, of: TensorType) -> Sharding:
        """Where a parameter or state lies."""

    @abstractmethod
    def fed(self, name: str, of: TensorType) -> Sharding:
        """Where an input lies."""

    @abstractmethod
    def given(self, name: str, of: TensorType) -> Sharding:
        """Where an output lies."""

    def gathered(self, name: str, of: TensorType) -> Sharding | None:
        """Where a parameter is whole while a step computes with it; `None` where it always is."""
        del name, of
        return None

    def own(self, examples: int) -> range:
        """Which of so many examples of a step the devices of this process hold."""
        return range(examples)


@dataclass(frozen=True)
class OneDevice(Placement):
    """Everything on one device."""

    device: jax.Device

    @property
    def platform(self) -> str:
        """That of the device."""
        return self.device.platform

    @property
    def devices(self) -> Sequence[jax.Device]:
        """The device."""
        return (self.device,)

    def persistent(self, name: str, of: TensorType) -> Sharding:
        """The device."""
        del name, of
        return SingleDeviceSharding(self.device)

    fed = persistent
    given = persistent


@dataclass(frozen=True)
class SeveralDevices(Placement):
    """Batches split over devices; parameters on all of them, or each its share.

    The program is partitioned by XLA, which keeps its meaning: a mean over the batch is one over
    all devices (GSPMD: Y. Xu et al., arXiv 2105.04663). Under fsdp parameters and optimizer states
    are split too, and gathered where a step computes with them (ZeRO stage 3: S. Rajbhandari et
    al., arXiv 1910.02054).
    """

    mesh: Mesh
    sharding: DeviceSharding
    rows: Mapping[str, int]
    """Of inputs whose first axis counts examples, the rows of one."""

    @property
    def platform(self) -> str:
        """That of all of them."""
        return self.mesh.devices.flat[0].platform

    @property
    def devices(self) -> Sequence[jax.Device]:
        """Those of this process."""
        here = jax.process_index()
        return [each for each in self.mesh.devices.flat if each.process_index == here]

    @property
    def replicated(self) -> NamedSharding:
        """Whole on every device."""
        return NamedSharding(self.mesh, PartitionSpec())

    def persistent(self, name: str, of: TensorType) -> NamedSharding:
        """Under fsdp the longest axis that the devices divide is split, else nothing."""
        del name
        axis = self.split_axis(of)
        if axis is None:
            return self.replicated
        return NamedSharding(self.mesh, PartitionSpec(*[None] * axis, AXIS))

    def split_axis(self, of: TensorType) -> int | None:
        """The axis along which a parameter or state is split, if any."""
        if self.sharding is not DeviceSharding.FSDP:
            return None
        shape = concrete_shape(of.shape)
        fitting = [axis for axis, size in enumerate(shape) if self.divides(size)]
        return max(fitting, key=lambda axis: shape[axis], default=None)

    def fed(self, name: str, of: TensorType) -> NamedSharding:
        """The examples are split, if the devices divide their number; other inputs are whole."""
        rows = self.rows.get(name, 0)
        if rows == 0 or not self.divides(concrete_shape(of.shape)[0] // rows):
            return self.replicated
        return NamedSharding(self.mesh, PartitionSpec(AXIS))

    def given(self, name: str, of: TensorType) -> NamedSharding:
        """Every process can read outputs."""
        del name, of
        return self.replicated

    def gathered(self, name: str, of: TensorType) -> NamedSharding | None:
        """On every device, where each has a share of it."""
        return None if self.persistent(name, of) == self.replicated else self.replicated

    def own(self, examples: int) -> range:
        """A run of them, as the devices of a process are beside each other."""
        if not self.divides(examples):
            return range(examples)
        each = examples // self.mesh.size
        here = jax.process_index()
        positions = [
            at for at, one in enumerate(self.mesh.devices.flat) if one.process_index == here
        ]
        return range(each * positions[0], each * (positions[-1] + 1))

    def divides(self, size: int) -> bool:
        """Whether each device can have the same share of so many rows."""
        return size % self.mesh.size == 0
