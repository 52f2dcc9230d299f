"""The times of the phases of a build, reported to listeners for traces."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter


@dataclass(frozen=True)
class Phase:
    """A phase that is over; its times are seconds of the clock `perf_counter`."""

    name: str
    thread: str
    """The thread it ran in; empty for the main one."""
    start: float
    end: float


_listeners: list[list[Phase]] = []


@contextmanager
def recorded() -> Generator[list[Phase]]:
    """All phases that end inside, in that order, whichever thread they run in."""
    found: list[Phase] = []
    _listeners.append(found)
    try:
        yield found
    finally:
        _listeners[:] = [each for each in _listeners if each is not found]


@contextmanager
def phase(name: str) -> Generator[None]:
    """Report the time of the block inside as a phase."""
    start = perf_counter()
    try:
        yield
    finally:
        thread = threading.current_thread()
        where = "" if thread is threading.main_thread() else thread.name
        report_phase(Phase(name, where, start, perf_counter()))


def report_phase(ended: Phase) -> None:
    """Report a phase that was timed elsewhere."""
    for each in _listeners:
        each.append(ended)
