"""The CPU as a device of the registry."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.quantization import Quantization
from meganeura_runtime.backends.backend import Backend, OpenDevice
from meganeura_runtime.backends.reference.session import ReferenceSession

if TYPE_CHECKING:
    from meganeura_runtime.backends.timing.profile import Profile
    from meganeura_runtime.backends.timing.timeline import Timeline
    from meganeura_runtime.backends.timing.tracer import Tracer
    from meganeura_runtime.support.tracing import Span


@dataclass(frozen=True)
class ReferenceDevice(OpenDevice):
    """The CPU."""

    backend: Backend
    description: str
    short_name: str = "cpu"

    def open(self, graph: Graph) -> ReferenceSession:
        """A session of the reference interpreter; raises `MemoryExceededError`."""
        return ReferenceSession(graph)

    def packs(self, levels: Mapping[str, Quantization]) -> Mapping[str, Quantization]:
        """None: NumPy would unpack all weights anew in each step."""
        del levels
        return {}

    def profile(self, graph: Graph) -> "Profile":
        """Time each op by the host's clock."""
        from meganeura_runtime.backends.reference.profile import profile_of

        return profile_of(graph)

    def tracer(self, timeline: "Timeline", span: "Span") -> "Tracer":
        """Trace each op."""
        del span
        from meganeura_runtime.backends.reference.trace import OpTracer

        return OpTracer(timeline)
