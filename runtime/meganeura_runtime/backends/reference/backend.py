"""The backend `cpu`: NumPy computes the reference semantics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from meganeura_runtime.backends.backend import Backend, Capabilities, DeviceRow, OpenDevice

if TYPE_CHECKING:
    from meganeura_dsl.ir.graph import Graph
    from meganeura_runtime.backends.memory_roles import StepMemory
    from meganeura_runtime.backends.op_support import OpSupport
    from meganeura_runtime.backends.reference.device import ReferenceDevice


class ReferenceBackend(Backend):
    """Needs no driver, and is always there."""

    name = "cpu"
    title = "CPU"
    forms = ("cpu",)
    pattern = "cpu"
    capabilities = Capabilities(
        plans_memory=True, only_f32="it is the reference that other floats are compared with"
    )

    def devices(self) -> Sequence[DeviceRow]:
        """The CPU."""
        return (DeviceRow(self.name, "NumPy, the reference", "always there"),)

    def require(self, name: str) -> None:
        """Does nothing, as NumPy is always there."""

    def preferred(self) -> str:
        """The CPU, whatever it is."""
        return self.name

    def ops(self) -> OpSupport:
        """Every primitive."""
        from meganeura_runtime.backends.reference.session import SUPPORT

        return SUPPORT

    def memory(self, graph: Graph, device: OpenDevice | None) -> StepMemory:
        """The arrays of a step."""
        del device  # they are the same on every machine
        from meganeura_runtime.backends.reference.step_memory import step_memory

        return step_memory(graph)

    def open(self, name: str, reason: str) -> ReferenceDevice:
        """The CPU; there is nothing to open."""
        from meganeura_runtime.backends.reference.device import ReferenceDevice

        return ReferenceDevice(self, f"{name} ({reason})")
