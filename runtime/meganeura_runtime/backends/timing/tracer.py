"""A device's part of a trace: the memory and the kernels of each traced step."""

from collections.abc import Mapping

from meganeura_dsl.ir.graph import Array
from meganeura_runtime.backends.base import Outputs, Session, Uploaded
from meganeura_runtime.backends.timing.timeline import Timeline

MEBI = 1 << 20


class Tracer:
    """Runs the steps that are traced. This one adds nothing to the timeline."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline

    def step(self, session: Session, feeds: Mapping[str, Array] | Uploaded, number: int) -> Outputs:
        """Run a step, counted from 0, on a session that the device opened."""
        del number
        return session.step(feeds)

    def finish(self) -> None:
        """Add what was not known before the run was over, and stop observing the device."""


def with_line(name: str, origin: str) -> str:
    """A kernel or op with its line in the program."""
    line = origin.partition(" ")[0]
    return f"{name}  [{line}]" if line else name
