"""A trace of a run: what the host did, when each kernel ran, and the memory taken.

Only a few steps are traced, after some that warm up, so that the file stays small; evaluations and
checkpoints are traced whenever they happen. What happens on the device is the device's to add.
"""

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from time import perf_counter

from meganeura_dsl.ir.graph import Array, Graph
from meganeura_runtime.backends.backend import OpenDevice
from meganeura_runtime.backends.base import OpenSession, Outputs, Session, Uploaded
from meganeura_runtime.backends.session_proxy import SessionProxy
from meganeura_runtime.backends.timing.timeline import HOST_TRACK, Moment, Timeline

WARM = 3
"""Steps before the first that is traced: kernels are compiled, and clocks are up."""
STEPS = 5
"""Steps that are traced."""
ENOUGH = WARM + STEPS
"""Steps of a run that is made for the sake of its trace."""
ALWAYS = ("compile", "train_epoch", "evaluation", "checkpoint")
"""Spans that are traced whenever they happen."""


class Trace:
    """Collects what happens during a run; `finish` gives it as a timeline."""

    def __init__(self, device: OpenDevice, steps: int = ENOUGH) -> None:
        """Trace a run of so many steps. Raises `ProblemError` where the device has no clock."""
        self.is_on = False
        self.timeline = Timeline(device.short_name, perf_counter())
        self.tracer = device.tracer(self.timeline, self.span)
        self._first = max(0, min(WARM, steps - STEPS))
        self._is_open = False

    @contextmanager
    def span(self, name: str) -> Generator[None]:
        """Trace what the host does inside, if it is time."""
        start = perf_counter()
        try:
            yield
        finally:
            if self.is_on or name in ALWAYS:
                thread = threading.current_thread()
                track = HOST_TRACK if thread is threading.main_thread() else thread.name
                self.timeline.host.append(Moment(track, name, start, perf_counter()))

    def opening(self, open_session: OpenSession) -> OpenSession:
        """Opens sessions as that does; the first of them is traced."""

        def begin(graph: Graph) -> Session:
            session = open_session(graph)
            if self._is_open:
                return session
            self._is_open = True
            return TracedSession(graph, session, self)

        return begin

    def is_due(self, step: int) -> bool:
        """True if a step, counted from 0, is one of those that are traced."""
        return self._first <= step < self._first + STEPS

    def finish(self) -> Timeline:
        """All that was collected, once the kernels that are traced are done."""
        self.is_on = False
        self.tracer.finish()
        return self.timeline


class TracedSession(SessionProxy):
    """A session that reports some of its steps to a trace."""

    def __init__(self, graph: Graph, inner: Session, trace: Trace) -> None:
        super().__init__(graph, inner)
        self._trace = trace
        self._count = 0

    def persistent(self) -> dict[str, Array]:
        """Read all parameters and states."""
        return self._inner.persistent()

    def _put(self, name: str, array: Array) -> None:
        self._inner.write(name, array)

    def _get(self, name: str) -> Array:
        return self._inner.read(name)

    def _run(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        number, self._count = self._count, self._count + 1
        self._trace.is_on = self._trace.is_due(number)
        if not self._trace.is_on:
            return self._inner.step(feeds)
        with self._trace.span(f"step {number + 1}"):
            return self._trace.tracer.step(self._inner, feeds, number)
