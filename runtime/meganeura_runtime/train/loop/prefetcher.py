"""Inputs of the next step, put where the device takes them from while earlier steps run."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from meganeura_dsl.ir.reserved_names import LEARNING_RATE
from meganeura_runtime.backends.base import Session, Uploaded
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.spec.session_inputs import fed_rates

WORTH_A_THREAD = 1 << 20
"""Bytes of inputs that take longer to gather and copy than to hand them to another thread."""


LOOK_SECONDS = 0.002
"""Longest wait for inputs between two polls of the device."""
AT_A_TIME = 3
"""Batches that are gathered at a time where that takes computation: no process waits for work."""


class Prefetcher:
    """A thread that stages the inputs of each step during the one before.

    Where gathering them is slow, other threads do so for the next few steps; they come in order.
    """

    def __init__(self, feeder: Feeder, session: Session, end: int) -> None:
        self._feeder = feeder
        self._session = session
        self._end = end
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="inputs")
        self._next: Future[Uploaded] | None = None
        self._fed: dict[str, Array] = {}
        """The inputs of the next step before they are staged."""
        self._gatherers = (
            ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="gather") if feeder.is_slow else None
        )
        self._gathering: dict[int, Future[dict[str, Array]]] = {}

    def take(self, step: int, look: Callable[[], None]) -> Uploaded:
        """The inputs of a step; steps have to come in order. Calls `look` while it waits."""
        begun = self._next or self._thread.submit(self._staged, step)
        while not begun.done():
            wait((begun,), LOOK_SECONDS)
            look()
        staged = begun.result()
        self._next = None
        if step + 1 < self._end:
            self._next = self._thread.submit(self._staged, step + 1)
        return staged

    def refresh(self, rates: Sequence[float]) -> None:
        """Stage the inputs of the next step once more, with other learning rates."""
        if self._next is None or self._next.exception() is not None:
            return
        staged = self._next.result()
        if LEARNING_RATE not in self._fed:
            return
        staged.close()
        fed = self._fed | {LEARNING_RATE: fed_rates(rates)}
        self._next = self._thread.submit(self._session.stage, fed)

    def close(self) -> None:
        """Stop, and give back what no step took."""
        self._thread.shutdown()
        if self._gatherers is not None:
            self._gatherers.shutdown(cancel_futures=True)
        if self._next is not None and self._next.exception() is None:
            self._next.result().close()

    def _staged(self, step: int) -> Uploaded:
        fed = self._gathered(step)
        if LEARNING_RATE in fed:  # it may have changed since they were gathered
            fed[LEARNING_RATE] = fed_rates(self._feeder.rates(step))
        self._fed = fed
        return self._session.stage(fed)

    def _gathered(self, step: int) -> dict[str, Array]:
        """The feeds of a step; those of the next ones are begun."""
        if self._gatherers is None:
            return self._feeder.feeds(step)
        for ahead in range(step, min(step + AT_A_TIME, self._end)):
            if ahead not in self._gathering:
                begun = self._gatherers.submit(self._feeder.feeds, ahead)
                self._gathering[ahead] = begun
        return self._gathering.pop(step).result()


def is_worthwhile(feeder: Feeder, session: Session, fed: dict[str, Array]) -> bool:
    """Returns True if threads should gather and stage inputs such as these."""
    is_large = sum(array.nbytes for array in fed.values()) >= WORTH_A_THREAD
    return feeder.is_slow or (session.ahead > 0 and is_large)
