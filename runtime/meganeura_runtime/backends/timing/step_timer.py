"""The time of a step, and the time that the host is busy with it."""

import statistics
from time import perf_counter

from meganeura_runtime.backends.base import Session
from meganeura_runtime.backends.timing.example_inputs import Example

REPETITIONS = 5
REPETITION_SECONDS = 0.05
"""Seconds of the steps that are timed together."""
MOST_STEPS = 100
WARM_SECONDS = 0.15
"""Seconds of steps before any is timed."""


def step_seconds(session: Session, example: Example) -> float:
    """The time of a step on inputs that stay on the device, in seconds; a median of repetitions."""
    with session.upload(example.feeds) as uploaded:
        session.step(uploaded)
        session.wait()
        count, start = 0, perf_counter()
        while count < 1 or perf_counter() - start < WARM_SECONDS:
            session.step(uploaded)
            session.wait()
            count += 1
        once = (perf_counter() - start) / count
        steps = max(1, min(MOST_STEPS, int(REPETITION_SECONDS / once)))
        times: list[float] = []
        for _ in range(REPETITIONS):
            start = perf_counter()
            for _ in range(steps):
                session.step(uploaded)
            session.wait()
            times.append((perf_counter() - start) / steps)
    return statistics.median(times)


def host_seconds(session: Session, example: Example) -> dict[str, float]:
    """Returns the seconds of the host's tasks for one step that is not waited for."""
    feeding: list[float] = []
    handing: list[float] = []
    with session.upload(example.feeds) as uploaded:
        for times, given in ((feeding, example.feeds), (handing, uploaded)) * (REPETITIONS + 1):
            start = perf_counter()
            session.step(given)
            times.append(perf_counter() - start)
            session.wait()
    # The first repetition made ready what all others use.
    fed, handed = statistics.median(feeding[1:]), statistics.median(handing[1:])
    return {"feed": max(0.0, fed - handed), "encode and submit": handed}
