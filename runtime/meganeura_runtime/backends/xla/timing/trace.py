"""Traces of steps: each instruction by JAX's profiler, at the host's time."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from jax import profiler

from meganeura_dsl.ir.graph import Array, Value
from meganeura_runtime.backends.base import Outputs, Session, Uploaded
from meganeura_runtime.backends.timing.op_names import op_name
from meganeura_runtime.backends.timing.timeline import Moment, Timeline
from meganeura_runtime.backends.timing.tracer import Tracer, with_line
from meganeura_runtime.backends.xla.session import XlaSession
from meganeura_runtime.backends.xla.timing.device_events import device_events, options
from meganeura_runtime.backends.xla.timing.hlo_text import instructions

INSTRUCTIONS = "instructions"


class InstructionTracer(Tracer):
    """Traces steps by JAX's profiler, and waits for each of them."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(timeline)
        self._names: dict[str, str] = {}

    def step(self, session: Session, feeds: Mapping[str, Array] | Uploaded, number: int) -> Outputs:
        """Run a step and add its instructions to the timeline."""
        if not isinstance(session, XlaSession):
            raise TypeError(f"{session} is of another device")
        if not self._names:
            self._names = _names(session)
        session.wait()
        with TemporaryDirectory() as folder:
            start = perf_counter()
            with profiler.trace(folder, profiler_options=options()):
                outputs = session.step(feeds)
                session.wait()
            events = device_events(Path(folder))
        moments = [
            Moment(
                INSTRUCTIONS,
                self._names.get(each.name, each.name),
                start + each.start,
                start + each.end,
            )
            for each in events
        ]
        if moments:
            end = max(each.end for each in moments)
            whole = Moment(INSTRUCTIONS, f"step {number + 1}", moments[0].start, end)
            self.timeline.kernels += [whole, *moments]
        return outputs


def _names(session: XlaSession) -> dict[str, str]:
    """Returns the op that each instruction computes, with its line in the program."""
    values = {value.id: value for value in session.program.graph.values}
    return {
        name: _shown(values[each.sources[-1]])
        for name, each in instructions(session.compiled.as_text()).items()
        if each.sources and each.sources[-1] in values
    }


def _shown(value: Value) -> str:
    name = op_name(value.op, [each.type for each in value.operands], value.type)
    return with_line(name, str(value.origin))
