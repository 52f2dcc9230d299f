"""The first number that is not finite: its step, and its value in the graph.

A step depends only on its number and on the parameters and states before it, so it can be repeated:
on the device to find the step, and by the reference, which has every intermediate value, to find
the line.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.ir.graph import Graph, Leaf, Value
from meganeura_dsl.ir.interpreter import Interpreter
from meganeura_dsl.settings.not_finite_policy import NotFinitePolicy
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.transforms.loss_scale import SCALE
from meganeura_dsl.transforms.optimizers.update import sum_of
from meganeura_dsl.transforms.training_step import LOSS, SKIPPED
from meganeura_runtime.backends.base import Session
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.spec.train_job import TrainJob
from meganeura_runtime.train.training_problems import LossNotFinite


@dataclass(frozen=True)
class Anomaly:
    """The first step whose results are not finite, and in it the first value that is not.

    Steps count from 1. The value is None if the reference finds all of them finite.
    """

    step: int
    value: Value | None


@dataclass(frozen=True)
class Suspect:
    """A step before it runs: its number from 0, its inputs, and the parameters and states."""

    step: int
    persistent: Mapping[str, Array]
    fed: Mapping[str, Array]

    def judge(self, graph: Graph, session: Session, outputs: Mapping[str, Array]) -> Anomaly | None:
        """Returns the first value that is not finite, if a result of the step is not.

        A step in f16 may leave its update out because its scaled gradients overflow, which is no
        anomaly where the results of the reference are finite.
        """
        is_left_out = SCALE in self.persistent and bool(outputs[SKIPPED])
        if not is_left_out and is_finite(outputs) and is_finite(session.persistent()):
            return None
        interpreter = Interpreter(graph)
        feeds = {**self._kept(interpreter), **self.fed}
        if is_left_out and is_finite({LOSS: outputs[LOSS]}):
            results = interpreter.run(feeds)
            if is_finite(results.outputs) and is_finite(results.updates):
                return None
        return Anomaly(self.step + 1, interpreter.find(feeds, _is_not_finite))

    def _kept(self, reference: Interpreter) -> dict[str, Array]:
        """Returns the parameters and states of the step as the program says it, without a scale.

        Sums to which an earlier batch added gradients that overflowed begin anew.
        """
        kept = {name: each for name, each in self.persistent.items() if name in reference.leaves}
        sums = {sum_of(name) for name in kept} if SCALE in self.persistent else set[str]()
        return {
            name: np.zeros_like(each) if name in sums and _is_not_finite(each) else each
            for name, each in kept.items()
        }


def is_finite(arrays: Mapping[str, Array]) -> bool:
    """Returns True if all numbers are finite."""
    return all(not _is_not_finite(arrays[name]) for name in arrays)


def may_be_saved(persistent: Mapping[str, Array], settings: RunSettings) -> bool:
    """Returns True if parameters and states are as finite as the setting `not_finite` demands.

    A batch that is skipped may have spoilt sums of gradients, of which no update is made.
    """
    if settings.not_finite == NotFinitePolicy.IGNORE:
        return True
    sums = {sum_of(name) for name in persistent} if settings.skips else set[str]()
    return is_finite({name: each for name, each in persistent.items() if name not in sums})


def find_anomaly(
    job: TrainJob, session: Session, feeder: Feeder, first: int, last: int, good: int
) -> Anomaly | None:
    """Make steps `first` up to `last` again, and look at each from number `good` on."""
    for step in range(first, last):
        fed = feeder.feeds(step)
        if step < good:
            session.step(fed)
            continue
        suspect = Suspect(step, session.persistent(), feeder.whole(step))
        anomaly = suspect.judge(job.step_at(step, suspect.fed), session, dict(session.step(fed)))
        if anomaly is not None:
            return anomaly
    return None


def _is_not_finite(array: Array) -> bool:
    return np.issubdtype(array.dtype, np.floating) and not bool(np.isfinite(array).all())


def loss_not_finite(
    step: int, loss: float, anomaly: Anomaly | None, *, is_half: bool
) -> LossNotFinite:
    """Returns the problem of a step, with the line of the program where it began, if known."""
    shown = "" if math.isfinite(loss) else str(loss)
    if anomaly is None or anomaly.value is None:
        first = "" if anomaly is None else f"step {anomaly.step:,}"
        return LossNotFinite(step, shown, first, is_half=is_half)
    op, origin = anomaly.value.op, anomaly.value.origin
    what = f"`{op.name}`" if isinstance(op, Leaf) else f"`{type(op).__name__}`"
    first = f"{what}, {anomaly.value.type}, of step {anomaly.step:,}"
    return LossNotFinite(step, shown, first, origin.span, origin.path)
