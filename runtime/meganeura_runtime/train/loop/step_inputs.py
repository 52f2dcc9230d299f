"""Inputs and learning rates of each step, gathered at once or by threads during earlier steps."""

from collections.abc import Callable, Mapping

from meganeura_dsl.transforms.optimizers.schedules import Reduction
from meganeura_runtime.backends.base import Session, Uploaded
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.loop.prefetcher import Prefetcher, is_worthwhile


class StepInputs:
    """The inputs of the steps of a run, in order, and their learning rates."""

    def __init__(self, feeder: Feeder, session: Session, end: int, schedules: int) -> None:
        """`end` is the number of the last step, from 1; `schedules` is the number of rates."""
        self.feeder = feeder
        self.reductions = (Reduction(),) * schedules
        """The effect of evaluations on each rate so far."""
        self._session = session
        self._end = end
        self._prefetcher: Prefetcher | None = None

    def take(self, step: int, look: Callable[[], None]) -> Mapping[str, Array] | Uploaded:
        """Returns the inputs of a step, staged by a thread where they are large.

        Calls `look` while it waits for that.
        """
        if self._prefetcher is not None:
            return self._prefetcher.take(step, look)
        fed = self.feeder.feeds(step)
        if is_worthwhile(self.feeder, self._session, fed):
            self._prefetcher = Prefetcher(self.feeder, self._session, self._end)
        return fed

    def reduce_rates(self, step: int, reductions: tuple[Reduction, ...]) -> float | None:
        """Change the rates from a step on; returns the first of them if it is another one."""
        pairs = list(zip(reductions, self.reductions, strict=True))
        if any(after.scale != before.scale for after, before in pairs):
            self.feeder.reduce_rates(step, reductions)
            if self._prefetcher is not None:
                self._prefetcher.refresh(self.feeder.rates(step))
        is_same = reductions[0].scale == self.reductions[0].scale
        self.reductions = reductions
        return None if is_same else self.feeder.rates(step)[0]

    def close(self) -> None:
        """Stop the threads."""
        if self._prefetcher is not None:
            self._prefetcher.close()
