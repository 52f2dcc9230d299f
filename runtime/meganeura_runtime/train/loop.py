"""The training loop: epochs, log points, evaluations and checkpoints.

A step is handed to the device and not waited for; the loss is read at log points only.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import closing
from time import perf_counter

from meganeura_dsl.diagnostics import ProblemError
from meganeura_dsl.training import LEARNING_RATE, LOSS
from meganeura_runtime.checkpoint import Progress, write_checkpoint
from meganeura_runtime.data.batches import order_of_epoch
from meganeura_runtime.data.dataset import Split
from meganeura_runtime.session import OpenSession, Outputs, Session
from meganeura_runtime.tensors.stored import Array
from meganeura_runtime.train.evaluation import Evaluator
from meganeura_runtime.train.events import (
    Evaluated,
    Finished,
    Logged,
    Saved,
    Started,
    Stepped,
    Watch,
)
from meganeura_runtime.train.folder import RunFolder
from meganeura_runtime.train.job import Job, concrete
from meganeura_runtime.train.problems import LossNotFinite
from meganeura_runtime.train.schedule import learning_rate
from meganeura_runtime.train.sessions import feeds
from meganeura_runtime.weights import write_weights


def train(
    job: Job,
    folder: RunFolder,
    open_session: OpenSession,
    watch: Watch,
    stop: Callable[[], bool],
) -> Finished:
    """Run a job to its end, or until `stop` says so after a step; a checkpoint is kept either way.

    Raises `ProblemError` if the loss is no longer finite or a file cannot be written.
    """
    folder.write_settings(job.settings)
    with open_session(job.compiled) as session, closing(Evaluator(job, open_session)) as evaluator:
        session.load(job.initial_values())
        return Trainer(job, folder, session, evaluator, watch, stop).run()


class Trainer:
    """A run and how far it has come."""

    def __init__(
        self,
        job: Job,
        folder: RunFolder,
        session: Session,
        evaluator: Evaluator,
        watch: Watch,
        stop: Callable[[], bool],
    ) -> None:
        self.job = job
        self.folder = folder
        self.session = session
        self.evaluator = evaluator
        self.watch = watch
        self.stop = stop
        self.outputs: Outputs = {}
        self.step = 0
        self.lowest = math.inf
        self.clock = Clock()

    def run(self) -> Finished:
        """All epochs, or as many as there is time for."""
        started = perf_counter()
        self.watch(_started(self.job))
        self.clock.start(self.step)
        interrupted = any(self._epoch(epoch) for epoch in range(self.job.settings.epochs))
        finished = Finished(self.step, perf_counter() - started, interrupted)
        self.watch(finished)
        return finished

    def _epoch(self, epoch: int) -> bool:
        """One epoch, and whether it was asked to be the last."""
        job, settings = self.job, self.job.settings
        examples = job.dataset.train.examples
        order = order_of_epoch(settings.seed, epoch, examples, shuffle=settings.shuffle)
        for position in range(job.steps_per_epoch):
            batch = order[position * job.batch : (position + 1) * job.batch]
            self._step(epoch, job.dataset.train.take(batch))
            if self.stop():
                kept = self.session.kept()
                self._save_checkpoint(kept, epoch, position + 1)
                self._save_weights(kept)
                return True
        self._end_epoch(epoch)
        return False

    def _step(self, epoch: int, data: Mapping[str, Array]) -> None:
        """Hand one step to the device, and read the loss if it is time."""
        job = self.job
        rate = learning_rate(job.settings, self.step, job.steps)
        fed = feeds(job.step, data, job.settings.seed, self.step, rate)
        self.outputs = self.session.step(fed)
        self.step += 1
        self.watch(Stepped(self.step, epoch))
        if self.step in (1, job.steps) or self.step % job.settings.log_every == 0:
            self._log(epoch, rate)

    def _log(self, epoch: int, rate: float) -> None:
        """Read the loss and the metrics of the last step; this waits for the device."""
        metrics = {name: float(value) for name, value in self.outputs.items()}
        loss = metrics.pop(LOSS)
        speed = self.clock.steps_per_second(self.step)
        rates = {LEARNING_RATE: rate, "steps_per_second": speed}
        self._record("step", epoch, loss, {**metrics, **rates})
        if not math.isfinite(loss):
            raise ProblemError(LossNotFinite(self.step, str(loss)))
        self.watch(Logged(self.step, epoch, loss, metrics, rate, speed))

    def _end_epoch(self, epoch: int) -> None:
        """Evaluate and save what is due after an epoch, and all of it after the last."""
        started = perf_counter()
        settings, held_out = self.job.settings, self.job.dataset.test
        last = epoch + 1 == settings.epochs
        evaluate = held_out is not None and (last or (epoch + 1) % settings.eval_every == 0)
        save = last or (epoch + 1) % settings.save_every == 0
        if not (evaluate or save):
            return
        kept = self.session.kept()
        if held_out is not None and evaluate:
            self._evaluate(held_out, kept, epoch)
        if save:
            self._save_checkpoint(kept, epoch + 1, 0)
        if last:
            self._save_weights(kept)
        self.clock.leave_out(perf_counter() - started)

    def _evaluate(self, held_out: Split, kept: Mapping[str, Array], epoch: int) -> None:
        """Measure the held-out examples, and keep the weights if no loss was lower."""
        metrics = self.evaluator.measure(held_out, kept)
        loss = metrics.pop(LOSS)
        best = loss < self.lowest
        self._record("held_out", epoch, loss, metrics)
        self.watch(Evaluated(self.step, epoch, loss, metrics, best))
        if best:
            self.lowest = loss
            write_weights(self.folder.best, self.job.parameters, kept, self._metadata())

    def _save_weights(self, kept: Mapping[str, Array]) -> None:
        write_weights(self.folder.weights, self.job.parameters, kept, self._metadata())
        self.watch(Saved(self.folder.weights))

    def _save_checkpoint(self, kept: Mapping[str, Array], epoch: int, position: int) -> None:
        """Save everything; the next step will be number `position` of `epoch`."""
        progress = Progress(
            program=self.job.program_hash,
            step=self.step,
            epoch=epoch,
            position=position,
            lowest_loss=self.lowest if math.isfinite(self.lowest) else None,
            settings=self.job.settings,
        )
        write_checkpoint(self.folder.checkpoint, kept, progress)
        self.watch(Saved(self.folder.checkpoint))

    def _record(self, kind: str, epoch: int, loss: float, numbers: Mapping[str, float]) -> None:
        place = {"kind": kind, "step": self.step, "epoch": epoch}
        self.folder.add_metrics({**place, LOSS: loss, **numbers})

    def _metadata(self) -> dict[str, str]:
        """What a weights file says of itself. `format` is what other readers look for."""
        return {"format": "pt", "train": self.job.name, "step": str(self.step)}


class Clock:
    """Steps per second between two log points, evaluations and checkpoints left out."""

    def __init__(self) -> None:
        self._since = perf_counter()
        self._step = 0

    def start(self, step: int) -> None:
        """Count from this step and this moment."""
        self._since, self._step = perf_counter(), step

    def leave_out(self, seconds: float) -> None:
        """Do not count this time."""
        self._since += seconds

    def steps_per_second(self, step: int) -> float:
        """The speed since the last time this was asked."""
        speed = (step - self._step) / max(perf_counter() - self._since, 1e-9)
        self.start(step)
        return speed


def _started(job: Job) -> Started:
    trained = [each for each in job.parameters if each.kind == "param"]
    return Started(
        name=job.name,
        epochs=job.settings.epochs,
        steps_per_epoch=job.steps_per_epoch,
        examples=job.dataset.train.examples,
        held_out=0 if job.dataset.test is None else job.dataset.test.examples,
        parameters=len(trained),
        weights=sum(math.prod(concrete(each.type.shape)) for each in trained),
    )
