"""The backend `toy`: light to import, as it is asked about devices that are never opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meganeura_runtime.backends.backend import Backend, DeviceRow, OpenDevice
from meganeura_runtime.backends.errors import DeviceError

if TYPE_CHECKING:
    from meganeura_dsl.ir.graph import Graph
    from meganeura_runtime.backends.base import Session
    from meganeura_runtime.backends.op_support import OpSupport


class ToyBackend(Backend):
    """Two devices, which are the same."""

    name = "toy"
    title = "toy"
    forms = ("toy", "toy:N")
    pattern = "toy(:[0-9])?"

    def devices(self) -> tuple[DeviceRow, ...]:
        return tuple(DeviceRow(f"toy:{n}", "a toy", "NumPy, another way") for n in range(2))

    def require(self, name: str) -> None:
        if name not in {"toy", *(each.name for each in self.devices())}:
            raise DeviceError(f"there is no {name}")

    def preferred(self) -> str:
        return self.name

    def ops(self) -> OpSupport:
        from meganeura_toy.session import SUPPORT  # noqa: PLC0415

        return SUPPORT

    def open(self, name: str, reason: str) -> ToyDevice:
        self.require(name)
        return ToyDevice(self, f"{name} ({reason})", name)


@dataclass(frozen=True)
class ToyDevice(OpenDevice):
    backend: Backend
    description: str
    short_name: str

    def open(self, graph: Graph) -> Session:
        from meganeura_toy.session import ToySession  # noqa: PLC0415

        return ToySession(graph)


BACKEND = ToyBackend()
