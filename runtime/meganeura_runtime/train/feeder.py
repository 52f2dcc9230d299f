"""What a step is fed, which its number decides: so a run can begin, or be repeated, at any step."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.ir.graph import Graph
from meganeura_runtime.io.data.batches import order_of_epoch
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.job import Job
from meganeura_runtime.train.session_inputs import feeds


class Feeder:
    """The feeds of every step of a job."""

    def __init__(self, job: Job, own: Callable[[int], range] = range) -> None:
        """`own` says which of so many examples of a batch this process feeds."""
        self._job = job
        self._own = own
        self._order = lru_cache(maxsize=1)(self._order_of)

    def feeds(self, step: int) -> dict[str, Array]:
        """What this process feeds: its examples, the counter and the learning rate of a step.

        Steps are counted from 0.
        """
        batch = self._batch(step)
        own = self._own(len(batch))
        return self._feeds(self._job.compiled, step, batch[own.start : own.stop])

    def whole(self, step: int) -> dict[str, Array]:
        """What all processes together feed to the step as the program says it."""
        return self._feeds(self._job.step, step, self._batch(step))

    def _batch(self, step: int) -> NDArray[np.int64]:
        epoch, position = divmod(step, self._job.steps_per_epoch)
        return self._order(epoch)[position * self._job.batch : (position + 1) * self._job.batch]

    def _feeds(self, graph: Graph, step: int, examples: NDArray[np.int64]) -> dict[str, Array]:
        job = self._job
        rate = job.settings.learning_rate(step, job.steps)
        return feeds(graph, job.dataset.train.take(examples), job.settings.seed, step, rate)

    def _order_of(self, epoch: int) -> NDArray[np.int64]:
        settings, examples = self._job.settings, self._job.dataset.train.examples
        return order_of_epoch(settings.seed, epoch, examples, shuffle=settings.shuffle)
