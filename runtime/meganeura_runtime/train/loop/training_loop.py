"""The training loop: epochs, log points, evaluations and checkpoints.

A step is handed to the device and not waited for. Its loss is read a few steps later where the
device runs behind; each loss stays with the record of its step.
"""

import math
from collections import deque
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.settings.declared_optimizers import declared_by
from meganeura_dsl.settings.not_finite_policy import NotFinitePolicy
from meganeura_dsl.transforms.loss_scale import LEAST
from meganeura_dsl.transforms.training_step import LOSS, LOSS_SCALE, SKIPPED
from meganeura_runtime.backends.base import OpenSession, Outputs
from meganeura_runtime.io.checkpoint import Progress, read_checkpoint, write_checkpoint
from meganeura_runtime.io.data.splits import Split
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.support.background import begin
from meganeura_runtime.train.events import (
    Compiled,
    Compiling,
    EpochEnded,
    Evaluated,
    Finished,
    Logged,
    LossScaled,
    NotFinite,
    Sampled,
    Saved,
    Stepped,
    Watch,
)
from meganeura_runtime.train.loop.anomaly import (
    Suspect,
    find_anomaly,
    loss_not_finite,
    may_be_saved,
)
from meganeura_runtime.train.loop.device_usage import UsageMeter
from meganeura_runtime.train.loop.early_stopping import EarlyStopping
from meganeura_runtime.train.loop.evaluation import held_batches
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.loop.speed import Clock, Speed
from meganeura_runtime.train.loop.start_event import start_event
from meganeura_runtime.train.loop.step_inputs import StepInputs
from meganeura_runtime.train.loop.step_record import Losses, StepRecord
from meganeura_runtime.train.loop.training_session import TrainingSession
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.records.run_logs import LogStart, logged
from meganeura_runtime.train.records.visual_log import VisualLog
from meganeura_runtime.train.report.report_writer import reported
from meganeura_runtime.train.spec.resume import (
    FROM_THE_START,
    Resumption,
    RunOptions,
    origins_of,
    restored,
)
from meganeura_runtime.train.spec.session_inputs import named_rates
from meganeura_runtime.train.spec.train_job import TrainJob
from meganeura_runtime.train.training_problems import LossNotFinite


def train(
    job: TrainJob,
    folder: RunFolder,
    open_session: OpenSession,
    watch: Watch,
    stop: Callable[[], bool],
    options: RunOptions = FROM_THE_START,
) -> Finished:
    """Run a job to its end, or until `stop` says so after a step; a checkpoint is kept either way.

    Raises `ProblemError` if the loss is no longer finite or a file cannot be written.
    """
    first = None if options.resumption else begin("values", job.spec.initial_values)
    with logged(LogStart(folder, job.settings, options.step), watch) as logging:
        # A log that refuses leaves no run behind.
        folder.write_settings(job.settings, origins_of(job.spec, options.resumption))
        if job.dataset.tokenizer is not None:
            folder.keep_tokenizer(job.dataset.tokenizer)
        with (
            reported(job, folder, options.device, logging, options.command) as watched,
            TrainingSession(job.spec, open_session, job.others, options.resumption) as trained,
        ):
            loop = TrainingLoop(job, folder, trained, watched, stop, options)
            if first is not None:
                loop.begin(first.result())
            elif options.resumption is not None:
                loop.go_on(options.resumption)
            return loop.run()


class TrainingLoop:
    """The loop over the steps of a run, and its progress."""

    def __init__(
        self,
        job: TrainJob,
        folder: RunFolder,
        trained: TrainingSession,
        watch: Watch,
        stop: Callable[[], bool],
        options: RunOptions,
    ) -> None:
        self.job = job
        self.folder = folder
        self.trained = trained
        self.session = trained.session
        self.watch = watch
        self.stop = stop
        self.options = options
        self.sampler = trained.sampler(job.sample)
        self.span = options.span
        self.last: StepRecord | None = None
        self.losses = Losses()
        self.unread: deque[StepRecord] = deque()
        self.epoch = 0
        """The epoch to begin with."""
        self.is_ended = False
        """True if all that is due in the middle of an epoch, where the run ends, is done."""
        self.finite = 0
        """The last step whose loss was seen to be finite."""
        self.stopping = EarlyStopping(job.settings)
        feeder, schedules = Feeder(job, self.session.own), len(job.settings.all_schedules)
        self.inputs = StepInputs(feeder, self.session, job.steps, schedules)
        self.clock = Clock()
        session = self.session
        self.meter = UsageMeter(lambda: session.is_busy, is_ahead=session.ahead > 0)
        self.opened = perf_counter()
        self.saving: Future[None] | None = None

    @property
    def step(self) -> int:
        """The steps made so far."""
        return self.trained.steps

    def begin(self, first: Mapping[str, Array]) -> None:
        """Load what a run starts with; the first checkpoint is written meanwhile."""
        self.saving = begin("checkpoint", self._write_checkpoint, first, 0, 0)
        self.session.load(first)

    def go_on(self, resumption: Resumption) -> None:
        """Load what a run goes on with."""
        progress = resumption.progress
        self.session.load(resumption.persistent)
        self.finite = progress.step
        self.losses = Losses(progress.loss_sum, progress.loss_examples)
        self.epoch = progress.epoch
        self.is_ended = progress.is_ended and progress.step == self.job.steps
        self.inputs.reduce_rates(self.step, progress.reductions_of(self.job.settings))
        self.folder.forget_after(progress.step)
        settings = self.job.settings
        self.stopping = EarlyStopping.resumed(progress, settings, self.folder, self.session)

    def run(self) -> Finished:
        """Run the remaining epochs, or as many as there is time for."""
        started = perf_counter()
        self.watch(start_event(self.job))
        self._finish_beginning()
        self.clock.start(self.step)
        self.meter.begin()
        if self.stopping.is_due:
            epoch = max(0, self.step - 1) // self.job.steps_per_epoch
            self.watch(self.stopping.event(self.step, epoch))
        is_over = self.is_ended or self.stopping.is_due or self.step > self.job.steps
        epochs = range(0) if is_over else range(self.epoch, self.job.epochs)
        try:
            interrupted = self._epochs(epochs)
        finally:
            self.inputs.close()
        if not epochs:
            self._save_weights(self.session.persistent())
        lasted = perf_counter() - started
        finished = Finished(self.step, lasted, interrupted, self.meter.usage())
        self.watch(finished)
        return finished

    def _epochs(self, epochs: range) -> bool:
        """Run the remaining epochs; returns True if the run was asked to stop before their end."""
        for epoch in epochs:
            if self._epoch(epoch):
                return True
            if self.stopping.is_due:
                return False
            if epoch + 1 < epochs.stop and self.options.hosts.count == 1 and self.stop():
                self._leave(epoch + 1, 0)
                return True
        return False

    def _leave(self, epoch: int, position: int) -> None:
        """Save all before the end that was asked for."""
        self._read()
        self.meter.pause()
        persistent = self.session.persistent()
        self._save_checkpoint(persistent, epoch, position)
        self._save_weights(persistent)

    def _finish_beginning(self) -> None:
        """Wait for the kernels and the first checkpoint; from here on there is one."""
        kernels = self.session.kernels
        if kernels:
            self.watch(Compiling(kernels))
            with self.span("compile"):
                self.session.ready()
            seconds = perf_counter() - self.opened
            self.watch(Compiled(kernels, seconds, self.session.memory()))
        if self.saving is not None:
            self.saving.result()

    def _epoch(self, epoch: int) -> bool:
        """Run one epoch; returns True if it was asked to be the last."""
        before = epoch * self.job.steps_per_epoch
        end = min(self.job.steps_per_epoch, self.job.steps - before)
        with self.span("train_epoch"):
            for position in range(self.step - before, end):
                self._step(epoch)
                if position + 1 < end and self._is_exhausted_within(epoch):
                    self.watch(self.stopping.event(self.step, epoch))
                    self._leave(epoch, position + 1)
                    return False
                if self._is_to_stop(position):
                    self._leave(epoch, position + 1)
                    return True
        self._end_epoch(epoch)
        return False

    def _is_to_stop(self, position: int) -> bool:
        """Returns True if the run is to end after this step.

        Several processes have to end after the same one: they agree, which waits for the devices,
        where a step is logged and at the end of an epoch.
        """
        if self.options.hosts.count == 1:
            return self.stop()
        every = self.job.settings.log_every
        is_asked = every > 0 and self.step % every == 0
        is_asked |= position + 1 == self.job.steps_per_epoch or self.step == self.job.steps
        return is_asked and self.session.agree(wish=self.stop())

    def _step(self, epoch: int) -> None:
        """Hand one step to the device, and read the losses that are there by now."""
        job, every = self.job, self.job.settings.log_every
        examples, began = job.examples_of(self.step), perf_counter()
        outputs = self._look() if self.options.detect_anomaly else self._run()
        self.clock.examples += examples
        rates = self.inputs.feeder.rates(self.step - 1)
        lasted = began, perf_counter()
        self.last = StepRecord(self.step, epoch, examples, rates, outputs, lasted)
        self.watch(Stepped(self.step, epoch))
        at_once = every > 0 and self.step in (1, job.steps)
        logged = at_once or (every > 0 and self.step % every == 0)
        if logged:
            self.last = replace(self.last, speed=self.clock.speed(self.step))
        if logged or job.is_last_of_its_size(self.step - 1):
            outputs.request()
        self.unread.append(self.last)
        self._read(0 if at_once else self.session.ahead)

    def _run(self) -> Outputs:
        self.meter.look()
        with self.span("feed"):
            inputs = self.inputs.take(self.step, self._look_for_inputs)
        self._look_for_inputs()
        outputs = self.trained.step(inputs)
        self.meter.stepped()
        return outputs

    def _look_for_inputs(self) -> None:
        self.meter.look(for_inputs=True)

    def _look(self) -> Outputs:
        """Make a step and check that all of its results are finite."""
        feeder = self.inputs.feeder
        suspect = Suspect(self.step, self.session.persistent(), feeder.whole(self.step))
        outputs = self.trained.step(feeder.feeds(self.step))
        anomaly = suspect.judge(self.job.step_at(self.step - 1, suspect.fed), self.session, outputs)
        if anomaly is not None:
            is_half = self.job.settings.scales_loss
            loss = float(outputs[LOSS])
            raise ProblemError(loss_not_finite(anomaly.step, loss, anomaly, is_half=is_half))
        return outputs

    def _explained(self, last: StepRecord) -> LossNotFinite:
        """Returns the cause of a loss that is not finite, by repeating steps since the checkpoint.

        They cannot be where the data comes in its own order.
        """
        loss, is_half = last.loss, self.job.settings.scales_loss
        if self.job.dataset.train.is_ordered:
            return loss_not_finite(last.step, loss, None, is_half=is_half)
        tensors, progress = read_checkpoint(self.folder.checkpoint, declared_by(self.job.settings))
        types = {name: each.dtype for name, each in self.session.parameters.items()}
        self.session.load(restored(tensors, types))
        steps = progress.step, last.step, self.finite - 1
        anomaly = find_anomaly(self.job, self.session, self.inputs.feeder, *steps)
        return loss_not_finite(last.step, loss, anomaly, is_half=is_half)

    def _read(self, behind: int = 0) -> None:
        """Read all steps but the last few, which the device may still compute."""
        while self.unread and self.unread[0].due(behind) <= self.step:
            self._take_in(self.unread.popleft())

    def _take_in(self, reading: StepRecord) -> None:
        """Read the outputs of a step, which waits for it, and report what is due."""
        with self.span("read loss"):
            loss = reading.loss
        self.meter.waited()
        if reading.speed is not None:
            self._log(reading, reading.speed)
        elif not math.isfinite(loss):
            self._record("step", reading.step, reading.epoch, {LOSS: loss})
        is_finite_loss, settings = math.isfinite(loss), self.job.settings
        stops = settings.not_finite == NotFinitePolicy.STOP
        if not is_finite_loss and stops:
            raise ProblemError(self._explained(reading))
        is_skipped = settings.skips and bool(reading.outputs[SKIPPED])
        if is_finite_loss and is_skipped and LOSS_SCALE in reading.outputs:
            self._take_in_overflow(reading, loss, stops=stops)
        elif not is_finite_loss or (is_skipped and settings.not_finite == NotFinitePolicy.SKIP):
            self.watch(NotFinite(reading.step, reading.epoch, loss, is_skipped))
        if is_finite_loss:
            self.finite = reading.step
            self.losses.add(reading, loss)
        is_whole = reading.step == (reading.epoch + 1) * self.job.steps_per_epoch
        if is_whole or reading.step == self.job.steps:
            self._report_epoch(reading)
        if is_whole:
            self.losses = Losses()

    def _take_in_overflow(self, reading: StepRecord, loss: float, *, stops: bool) -> None:
        """Report gradients that overflow, which halves the scale of the loss if it can be."""
        scale = float(reading.outputs[LOSS_SCALE])
        if scale > LEAST:
            self.watch(LossScaled(reading.step, reading.epoch, scale, scale / 2))
        elif stops:
            raise ProblemError(replace(self._explained(reading), is_left_out=True))
        else:
            self.watch(NotFinite(reading.step, reading.epoch, loss, is_skipped=True))

    def _log(self, reading: StepRecord, speed: Speed) -> None:
        """Record and report the loss and the metrics of a step."""
        loss, metrics = reading.loss, reading.metrics
        rates = named_rates(self.job.settings, reading.rates)
        speeds = {**rates, "steps_per_second": speed.steps}
        self._record("step", reading.step, reading.epoch, {LOSS: loss, **metrics, **speeds})
        if math.isfinite(loss):
            rate, speeds = reading.rates[0], (speed.steps, speed.examples)
            self.watch(Logged(reading.step, reading.epoch, loss, metrics, rate, *speeds))

    def _report_epoch(self, last: StepRecord) -> None:
        """Report the mean loss of an epoch, or of the part of it that the run ends with."""
        steps = last.step - last.epoch * self.job.steps_per_epoch
        loss, seconds = self.losses.mean, self.losses.seconds(last)
        numbers = {LOSS: loss, "steps": steps, "seconds": seconds}
        self._record("epoch", last.step, last.epoch, numbers)
        self.watch(EpochEnded(last.step, last.epoch, steps, loss, seconds))

    def _is_exhausted_within(self, epoch: int) -> bool:
        """Evaluate within an epoch if it is due; returns True if the run ends by that."""
        held_out = self.job.dataset.test
        if held_out is None or not self._is_due():
            return False
        with self._between_steps():
            persistent = self.session.persistent()
            self._evaluate(held_out, persistent, epoch)
            self._write_sample(persistent, epoch)
        return self.stopping.is_due

    @contextmanager
    def _between_steps(self) -> Generator[None]:
        """Finish the steps so far; the speed leaves out the time until the next one."""
        started = perf_counter()
        self._read()
        self.meter.pause()
        yield
        self.clock.leave_out(perf_counter() - started)
        self.meter.begin()

    def _is_due(self) -> bool:
        """Returns True after every `eval_every_steps`-th step of the run."""
        every = self.job.settings.eval_every_steps
        return every is not None and self.step % every == 0

    def _end_epoch(self, epoch: int) -> None:
        """Evaluate and save as is due after an epoch; after the last, both."""
        settings, held_out = self.job.settings, self.job.dataset.test
        last = self.step == self.job.steps
        due = last or self._is_due() or (epoch + 1) % settings.eval_every == 0
        evaluate = held_out is not None and due
        sample = self.sampler is not None and due
        save = last or (epoch + 1) % settings.save_every == 0
        if not (evaluate or sample or save):
            return
        with self._between_steps():
            persistent = self.session.persistent()
            if held_out is not None and evaluate:
                self._evaluate(held_out, persistent, epoch)
            if sample:
                self._write_sample(persistent, epoch)
            if self.stopping.is_due:
                last = save = True
                self.watch(self.stopping.event(self.step, epoch))
            if save:
                position = self.step - epoch * self.job.steps_per_epoch
                is_whole = position == self.job.steps_per_epoch
                self.is_ended = not is_whole
                where = (epoch + 1, 0) if is_whole else (epoch, position)
                self._save_checkpoint(persistent, *where)
            if last:
                self._save_weights(persistent)

    def _evaluate(self, held_out: Split, persistent: Mapping[str, Array], epoch: int) -> None:
        """Measure the held-out examples, and keep the weights if none were better."""
        shown = VisualLog()
        with self.span("evaluation"):
            batches = held_batches(self.job.spec, held_out)
            metrics = self.trained.measure(batches, persistent, shown)
        missing = self.trained.evaluator.without_value
        known = {name: each for name, each in metrics.items() if name not in missing}
        reductions = self.job.settings.reduced(self.inputs.reductions, known)
        rate = self.inputs.reduce_rates(self.step, reductions)
        best = self.stopping.is_best(metrics, missing)
        loss = metrics.pop(LOSS)
        self._record("held_out", self.step, epoch, {LOSS: loss, **metrics})
        self.folder.add_shown(shown, self.step, epoch)
        end = min((epoch + 1) * self.job.steps_per_epoch, self.job.steps)
        none, within = tuple(sorted(missing)), self.step < end
        self.watch(Evaluated(self.step, epoch, loss, metrics, best, rate, none, within))
        if best:
            self._write_weights(self.folder.best, persistent)

    def _write_sample(self, persistent: Mapping[str, Array], epoch: int) -> None:
        """Let a language model write a text, where the settings ask for one."""
        sample = self.job.sample
        if self.sampler is None or sample is None:
            return
        with self.span("sample"):
            text = self.sampler(self.trained.averaged(persistent))
        record = {"kind": "sample", "step": self.step, "epoch": epoch}
        self.folder.add_metrics({**record, "prompt": sample.prompt, "text": text})
        self.watch(Sampled(self.step, epoch, sample.prompt, text))

    def _save_weights(self, persistent: Mapping[str, Array]) -> None:
        self._write_weights(self.folder.weights, persistent)
        self.watch(Saved(self.folder.weights))

    def _write_weights(self, path: Path, persistent: Mapping[str, Array]) -> None:
        if self.folder.writes:
            self.trained.write_weights(path, persistent)

    def _save_checkpoint(self, persistent: Mapping[str, Array], epoch: int, position: int) -> None:
        """Save everything; the next step will be number `position` of `epoch`.

        What is not finite never takes the place of what is.
        """
        is_sound = may_be_saved(persistent, self.job.settings)
        if self.last is not None and not is_sound:
            raise ProblemError(self._explained(self.last))
        with self.span("checkpoint"):
            self._write_checkpoint(persistent, epoch, position)
        self.watch(Saved(self.folder.checkpoint))

    def _write_checkpoint(self, persistent: Mapping[str, Array], epoch: int, position: int) -> None:
        if not self.folder.writes:
            return
        reductions = self.inputs.reductions
        progress = Progress(
            program=self.job.spec.program_hash,
            step=self.step,
            epoch=epoch,
            position=position,
            best_value=self.stopping.best,
            stale=self.stopping.stale,
            settings=self.job.settings,
            weights=self.trained.origins,
            data=self.job.fingerprints,
            loss_sum=self.losses.sum,
            loss_examples=self.losses.examples,
            is_ended=self.is_ended,
            reduction=reductions[0],
            reductions=dict(zip(self.job.settings.schedules, reductions[1:], strict=True)),
        )
        write_checkpoint(self.folder.checkpoint, persistent, progress)

    def _record(self, kind: str, step: int, epoch: int, numbers: Mapping[str, float]) -> None:
        self.folder.add_metrics({"kind": kind, "step": step, "epoch": epoch, **numbers})
