"""The ops of traced steps, by the host's clock."""

from collections.abc import Mapping
from time import perf_counter

from meganeura_dsl.ir.cost_model import size_in_bytes
from meganeura_dsl.ir.graph import Array, Value
from meganeura_runtime.backends.base import Outputs, Session, Uploaded
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.timing.op_names import op_name
from meganeura_runtime.backends.timing.timeline import Level, Moment
from meganeura_runtime.backends.timing.tracer import MEBI, Tracer, with_line

OPS = "ops"


class OpTracer(Tracer):
    """Times each op of the reference interpreter."""

    def step(self, session: Session, feeds: Mapping[str, Array] | Uploaded, number: int) -> Outputs:
        """Run a step whose interpreter reports when each op began and ended."""
        if not isinstance(session, ReferenceSession):
            raise TypeError(f"{session} is of another device")
        kernels = self.timeline.kernels

        def record(results: tuple[Value, ...], start: float, end: float) -> None:
            value = results[0]
            name = op_name(value.op, [each.type for each in value.operands], value.type)
            line = with_line(name, str(value.origin))
            kernels.append(Moment(OPS, line, start, end))

        before, start = len(kernels), perf_counter()
        types = {"parameters": session.parameters, "inputs": session.inputs}
        amounts = {
            name: sum(map(size_in_bytes, each.values())) / MEBI for name, each in types.items()
        }
        self.timeline.levels.append(Level("memory, MiB", start, amounts))
        session.watch = record
        try:
            return session.step(feeds)
        finally:
            session.watch = None
            kernels.insert(before, Moment(OPS, f"step {number + 1}", start, perf_counter()))
