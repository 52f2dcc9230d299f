"""Inputs of a step, a function of its number: a run can begin, or be repeated, at any step."""

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.transforms.optimizers.schedules import Reduction
from meganeura_runtime.io.data.batches import order_of_pass
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.spec.session_inputs import feeds, without_rate
from meganeura_runtime.train.spec.train_job import TrainJob


class Feeder:
    """The feeds of every step of a job."""

    def __init__(self, job: TrainJob, own: Callable[[int], range] = range) -> None:
        """`own` says which of so many examples of a batch this process feeds."""
        self._job = job
        self._own = own
        self._reductions = [(0, (Reduction(),) * len(job.settings.all_schedules))]
        """Reductions of the rates by evaluations, each from a step on."""
        self._fed = -1
        """The step that was fed last."""
        self._order = lru_cache(maxsize=2)(partial(order_of_pass, job.settings, job.dataset.train))
        """All examples in the order of a pass; kept of this one and of the next."""

    @property
    def is_slow(self) -> bool:
        """True if gathering a batch takes computation."""
        return self._job.dataset.train.is_slow

    def feeds(self, step: int) -> dict[str, Array]:
        """Returns the inputs of this process: its examples, the counter and the learning rate.

        Steps are counted from 0.
        """
        batch = self._batch(step)
        is_again, self._fed = step == self._fed, step
        own = self._own(len(batch))
        taken = self._job.dataset.train.take_own(batch, own, is_again=is_again)
        return self._feeds(self._job.spec.compiled, step, taken)

    def rates(self, step: int) -> tuple[float, ...]:
        """The learning rates of a step: that of all paths, and of those that have their own."""
        *_, reductions = (found for first, found in self._reductions if first <= step)
        return self._job.settings.learning_rates(step, self._job.length, reductions)

    def reduce_rates(self, first: int, reductions: tuple[Reduction, ...]) -> None:
        """Reduce the rates from step `first` on, instead of as they were so far."""
        self._reductions.append((first, reductions))

    def whole(self, step: int) -> dict[str, Array]:
        """Returns the inputs of all processes together, for the step as the program says it."""
        taken = self._job.dataset.train.take_again(self._batch(step))
        return self._feeds(self._job.spec.step, step, taken)

    def _batch(self, step: int) -> NDArray[np.int64]:
        number, position = divmod(step, self._job.steps_per_pass)
        return self._order(number)[position * self._job.batch : (position + 1) * self._job.batch]

    def _feeds(self, graph: Graph, step: int, taken: dict[str, Array]) -> dict[str, Array]:
        job = self._job
        fed = feeds(graph, taken, job.settings.seed, step, *self.rates(step))
        return fed if job.spec.part_at(step).moves else without_rate(fed)
