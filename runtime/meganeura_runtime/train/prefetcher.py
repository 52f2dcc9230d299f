"""Inputs of the next step, put where the device takes them from while earlier steps run."""

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from meganeura_dsl.transforms.training_step import LEARNING_RATE
from meganeura_runtime.backends.base import Session, Uploaded
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.feeder import Feeder

WORTH_A_THREAD = 1 << 20
"""Bytes of inputs that take longer to gather and copy than to hand them to another thread."""


class Prefetcher:
    """A thread that stages the inputs of each step during the one before."""

    def __init__(self, feeder: Feeder, session: Session, end: int) -> None:
        self._feeder = feeder
        self._session = session
        self._end = end
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="inputs")
        self._next: Future[Uploaded] | None = None
        self._fed: dict[str, Array] = {}
        """What that is, before it is staged."""

    def take(self, step: int) -> Uploaded:
        """The inputs of a step; steps have to come in order."""
        begun = self._next or self._thread.submit(self._staged, step)
        staged = begun.result()
        self._next = None
        if step + 1 < self._end:
            self._next = self._thread.submit(self._staged, step + 1)
        return staged

    def refresh(self, rate: float) -> None:
        """Stage the inputs of the next step once more, with another learning rate."""
        if self._next is None or self._next.exception() is not None:
            return
        self._next.result().close()
        fed = self._fed | {LEARNING_RATE: np.array(rate, np.float32)}
        self._next = self._thread.submit(self._session.stage, fed)

    def close(self) -> None:
        """Stop, and give back what no step took."""
        self._thread.shutdown()
        if self._next is not None and self._next.exception() is None:
            self._next.result().close()

    def _staged(self, step: int) -> Uploaded:
        self._fed = self._feeder.feeds(step)
        return self._session.stage(self._fed)


def is_worthwhile(session: Session, fed: dict[str, Array]) -> bool:
    """Whether inputs as large as these are better staged by a thread."""
    return session.ahead > 0 and sum(array.nbytes for array in fed.values()) >= WORTH_A_THREAD
