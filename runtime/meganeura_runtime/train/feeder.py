"""What a step is fed, which its number decides: so a run can begin, or be repeated, at any step."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from meganeura_runtime.io.data.batches import order_of_epoch
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.job import Job
from meganeura_runtime.train.session_inputs import feeds


class Feeder:
    """The feeds of every step of a job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._order = lru_cache(maxsize=1)(self._order_of)

    def feeds(self, step: int) -> dict[str, Array]:
        """The examples, the counter and the learning rate of a step, counted from 0."""
        job = self._job
        epoch, position = divmod(step, job.steps_per_epoch)
        batch = self._order(epoch)[position * job.batch : (position + 1) * job.batch]
        rate = job.settings.learning_rate(step, job.steps)
        return feeds(job.compiled, job.dataset.train.take(batch), job.settings.seed, step, rate)

    def _order_of(self, epoch: int) -> NDArray[np.int64]:
        settings, examples = self._job.settings, self._job.dataset.train.examples
        return order_of_epoch(settings.seed, epoch, examples, shuffle=settings.shuffle)
