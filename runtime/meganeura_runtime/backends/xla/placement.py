"""Where the arrays of a session lie: on one device, or spread over several."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import jax
from jax.sharding import Sharding, SingleDeviceSharding

from meganeura_dsl.ir.types import TensorType


class Placement(ABC):
    """The devices of a session, and the sharding of each array."""

    @abstractmethod
    def kept(self, name: str, of: TensorType) -> Sharding:
        """Where a parameter or state lies."""

    @abstractmethod
    def fed(self, name: str, of: TensorType) -> Sharding:
        """Where an input lies."""

    @abstractmethod
    def given(self, name: str, of: TensorType) -> Sharding:
        """Where an output lies."""


@dataclass(frozen=True)
class OneDevice(Placement):
    """Everything on one device."""

    device: jax.Device

    def kept(self, name: str, of: TensorType) -> Sharding:
        """The device."""
        del name, of
        return SingleDeviceSharding(self.device)

    fed = kept
    given = kept
