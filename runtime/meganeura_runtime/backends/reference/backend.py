"""The backend `cpu`: NumPy computes the reference semantics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meganeura_runtime.backends.backend import Backend, DeviceRow, OpenDevice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meganeura_dsl.ir.graph import Graph
    from meganeura_runtime.backends.base import Session
    from meganeura_runtime.backends.op_support import OpSupport
    from meganeura_runtime.backends.timing.profile import Profile
    from meganeura_runtime.backends.timing.timeline import Timeline
    from meganeura_runtime.backends.timing.tracer import Tracer
    from meganeura_runtime.support.tracing import Span


class ReferenceBackend(Backend):
    """Needs no driver, and is always there."""

    name = "cpu"
    title = "CPU"
    forms = ("cpu",)
    pattern = "cpu"

    def devices(self) -> Sequence[DeviceRow]:
        """The CPU."""
        return (DeviceRow(self.name, "NumPy, the reference", "always there"),)

    def require(self, name: str) -> None:
        """It is always there."""

    def preferred(self) -> str:
        """The CPU, whatever it is."""
        return self.name

    def ops(self) -> OpSupport:
        """Every primitive."""
        from meganeura_runtime.backends.reference.session import SUPPORT

        return SUPPORT

    def open(self, name: str, reason: str) -> ReferenceDevice:
        """The CPU; there is nothing to open."""
        return ReferenceDevice(self, f"{name} ({reason})")


@dataclass(frozen=True)
class ReferenceDevice(OpenDevice):
    """The CPU."""

    backend: Backend
    description: str
    short_name: str = ReferenceBackend.name

    def open(self, graph: Graph) -> Session:
        """A session of the reference interpreter; raises `MemoryExceededError`."""
        from meganeura_runtime.backends.reference.session import ReferenceSession

        return ReferenceSession(graph)

    def profile(self, graph: Graph) -> Profile:
        """Time each op by the host's clock."""
        from meganeura_runtime.backends.reference.profile import profile_of

        return profile_of(graph)

    def tracer(self, timeline: Timeline, span: Span) -> Tracer:
        """Trace each op."""
        del span
        from meganeura_runtime.backends.reference.trace import OpTracer

        return OpTracer(timeline)
