"""A loop of one's own: the steps of a `train` block on batches that Python gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import cached_property, wraps
from pathlib import Path
from threading import RLock
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

from numpy.typing import ArrayLike

from meganeura.trainer_results import StepResult, Tensors, fitting, unknown
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.outputs import Gradient
from meganeura_dsl.ir.reserved_names import LEARNING_RATE
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.transforms.optimizers.schedules import Reduction
from meganeura_runtime.backends.backend import OpenDevice
from meganeura_runtime.backends.base import Closing, Session
from meganeura_runtime.backends.device_failures import explained_failures
from meganeura_runtime.io.checkpoint import Progress, write_checkpoint
from meganeura_runtime.io.data.batches import even_batch, runs
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.data.batch_arrays import Batch, BatchReader
from meganeura_runtime.train.loop.anomaly import may_be_saved
from meganeura_runtime.train.loop.early_stopping import EarlyStopping
from meganeura_runtime.train.loop.evaluation import HeldBatch
from meganeura_runtime.train.loop.step_log import StepLog, manual_step_log
from meganeura_runtime.train.loop.training_session import TrainingSession
from meganeura_runtime.train.records.run_folder import RunFolder, saved_folder
from meganeura_runtime.train.records.visual_log import VisualLog
from meganeura_runtime.train.spec.resume import Resumption
from meganeura_runtime.train.spec.session_inputs import (
    clock_names,
    clock_values,
    fed_rates,
    without_rate,
)
from meganeura_runtime.train.spec.train_spec import TrainSpec
from meganeura_runtime.train.training_problems import LossNotFinite

if TYPE_CHECKING:
    from collections.abc import Callable

    from meganeura.model import Model

P = ParamSpec("P")
R = TypeVar("R")


def _alone(
    method: Callable[Concatenate[Trainer, P], R],
) -> Callable[Concatenate[Trainer, P], R]:
    """A method that one thread at a time runs: what a trainer counts goes with what it moves."""

    @wraps(method)
    def alone(self: Trainer, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.lock:
            return method(self, *args, **kwargs)

    return alone


Batches = Mapping[str, object] | Iterable[Mapping[str, object]]
"""One dict of arrays, or any number of them."""


class Trainer(Closing):
    """A `train` block on a device, which makes a step when it is given a batch.

        with program.trainer(device="auto", settings={"batch": 64}) as trainer:
            for batch in loader:
                result = trainer.step(batch)

    Made by `Program.trainer`. Any number of them may be open at a time. Several threads may use
    one: a step waits for that of another thread. `close`, which the end of a `with` calls, gives
    the memory of the device back.
    """

    def __init__(
        self,
        spec: TrainSpec,
        device: OpenDevice,
        resumption: Resumption | None,
        make_model: Callable[[str | None, Mapping[str, Array]], Model],
        folder: AbstractContextManager[RunFolder] | None = None,
    ) -> None:
        self._spec = spec
        self._device = device
        self._make_model = make_model
        self._batch = spec.input_spec.counter or "batch", spec.batch
        self._reader = BatchReader(spec.name, spec.input_spec.inputs)
        self._log: StepLog | None = None
        progress = None if resumption is None else resumption.progress
        settings = spec.settings
        self._reductions = (Reduction(),) * len(settings.all_schedules)
        if progress is not None:
            self._reductions = progress.reductions_of(settings)
        self._stopping = EarlyStopping(settings)
        with explained_failures(self._batch), ExitStack() as opened:
            run_folder = None if folder is None else opened.enter_context(folder)
            trained = opened.enter_context(
                TrainingSession(spec, device.open, resumption=resumption, any_size=True)
            )
            if resumption is None:
                trained.session.load(spec.initial_values())
            else:
                trained.session.load(resumption.persistent)
            if run_folder is not None:
                run_folder.write_settings(settings, trained.origins)
                run_folder.forget_after(trained.steps)
            if progress is not None:
                self._stopping = EarlyStopping.resumed(
                    progress, settings, run_folder, trained.session
                )
            if run_folder is not None:
                log = manual_step_log(spec, run_folder, device, trained)
                self._log = opened.enter_context(log)
            self._held = opened.pop_all()
        self._trained = trained
        self._clock = clock_names(spec.compiled)
        self._is_closed = False
        self.lock = RLock()
        """Held by the thread that uses it."""

    @property
    def trained(self) -> TrainingSession:
        """The session that is trained; raises `ValueError` once the trainer is closed."""
        if self._is_closed:
            raise ValueError("the trainer is closed")
        return self._trained

    @property
    def steps(self) -> int:
        """The steps made, of all runs together that went on from each other."""
        return self._trained.steps

    @property
    def inputs(self) -> Mapping[str, TensorType]:
        """The inputs of the `train` block that a batch has, with free sizes as symbols."""
        return self._spec.input_spec.inputs

    @property
    def device(self) -> str:
        """The device, and why it was chosen, for people."""
        return self._device.description

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step: what it was set to, or as the schedule has it.

        Setting it ends all schedules. Optimizers of paths keep their ratio to it. The schedule
        `plateau` follows `evaluate`.
        """
        return self._rates_of(self.steps)[0]

    @learning_rate.setter
    @_alone
    def learning_rate(self, rate: float) -> None:
        rate = float(rate)
        if not 0 <= rate < float("inf"):
            raise ValueError(f"a learning rate is finite and at least 0, and not {rate}")
        self.trained.learning_rate = rate

    @property
    def should_stop(self) -> bool:
        """True if as many evaluations gave nothing better as the setting `stop_after` says."""
        return self._stopping.is_due

    @property
    def folder(self) -> Path | None:
        """The folder of the run, if it has one."""
        return None if self._log is None else self._log.folder.path

    @property
    def weights(self) -> Tensors:
        """The trained parameters by path; `trainer.weights["fc.bias"] = array` sets one."""
        return self._tensors(states=False)

    @property
    def states(self) -> Tensors:
        """The other tensors kept between steps, by path.

        Running means, moments of the optimizer.
        """
        return self._tensors(states=True)

    @_alone
    def step(self, batch: Mapping[str, object]) -> StepResult:
        """Make one step on a batch: a dict with an array for each input.

        An array is one of NumPy, a tensor of PyTorch or JAX on the host, or numbers in lists; the
        step copies it. The first step of a batch of another size takes as long as compiling does.
        Raises `ProblemError` for a batch that does not fit the inputs, indices out of range, sizes
        the program refuses and failures of the device.
        """
        moves = self._spec.part_at(self.steps).moves
        return self._step(batch, moves=moves)

    @_alone
    def gradients(self, batch: Mapping[str, object]) -> StepResult:
        """Compute the gradients of a batch, and leave the weights as they are.

        They are in `gradients` of the result, and `apply` makes the update. It is a step in all
        else: it is counted, and the states of the program, such as running means, move. Raises as
        `step`, and `ValueError` where a step is not one update: with `accumulate`, and where the
        program computes something from the weights that it moved.
        """
        self._require_parts()
        return self._step(batch, moves=False)

    @_alone
    def apply(self, gradients: Mapping[str, ArrayLike]) -> None:
        """Move the weights by gradients: one for each that `gradients` gave, by path.

        What the settings say is done to them, as by a step: clipping, the optimizers, averages. The
        learning rate is that of the last step. Raises `KeyError` for another name, `ValueError` for
        a gradient that is missing or of another shape, and as `gradients`.
        """
        self._require_parts()
        types = self._moved
        for name in gradients:
            if name not in types:
                raise KeyError(unknown(name, types))
        missing = next((name for name in types if name not in gradients), None)
        if missing is not None:
            raise ValueError(f"there is no gradient for `{missing}`")
        fed = {
            Gradient(name): fitting(name, gradients[name], wanted) for name, wanted in types.items()
        }
        if fed:
            rates = fed_rates(self._rates_of(max(0, self.steps - 1)))
            with explained_failures(self._batch):
                self.trained.session.step({**fed, LEARNING_RATE: rates})

    @_alone
    def evaluate(self, data: Batches, *, counts: bool = True) -> dict[str, float]:
        """The mean loss and metrics over examples, in evaluation mode, with the weights of now.

        `data` is a dict of arrays, which is cut into batches, or dicts of arrays one after the
        other, each a batch. Every example counts the same. The schedule `plateau` and `should_stop`
        follow these measurements, and the folder of the run records them, unless `counts` is false.
        Raises `ProblemError` as `step`, and `ValueError` if there is no example.
        """
        trained, shown, started = self.trained, VisualLog(), perf_counter()
        with explained_failures(self._batch):
            persistent = trained.session.persistent()
            found = trained.measure(self._given(data), persistent, shown)
        if not found:
            raise ValueError("there is no example to evaluate on")
        if counts:
            self._follow(found, persistent, shown)
        if self._log is not None:
            self._log.leave_out(perf_counter() - started)
        return found

    @_alone
    def save(self, folder: Path | str | None = None) -> None:
        """Save the run in a folder, which is made where there is none, or in its own.

        `checkpoint.safetensors` is what `resume` and `meganeura train --resume` go on with,
        `weights.safetensors` what `Program.model` reads, `settings.json` the settings; older ones
        are replaced. Raises `ProblemError` where a file cannot be written, and for weights that are
        not finite: what is there stays as it is. Raises `ValueError` if there is no folder.
        """
        trained, spec = self.trained, self._spec
        with explained_failures():
            persistent = trained.session.persistent()
        if not may_be_saved(persistent, spec.settings):
            raise ProblemError(LossNotFinite(self.steps, ""))
        progress = Progress(
            program=spec.program_hash,
            step=self.steps,
            epoch=0,
            position=self.steps,
            settings=spec.settings,
            weights=trained.origins,
            is_by_hand=True,
            learning_rate=trained.learning_rate,
            best_value=self._stopping.best,
            stale=self._stopping.stale,
            reduction=self._reductions[0],
            reductions=dict(zip(spec.settings.schedules, self._reductions[1:], strict=True)),
        )
        with self._run_folder(folder) as run_folder:
            run_folder.write_settings(spec.settings, trained.origins)
            if run_folder.writes:
                trained.write_weights(run_folder.weights, persistent)
                write_checkpoint(run_folder.checkpoint, persistent, progress)

    @_alone
    def model(self, name: str | None = None) -> Model:
        """A model of the program with the weights of now, which later steps do not change.

        With `ema` they are the averages, which `weights` are not.

        Raises `ProblemError` for a name that no model has, and if the `train` block does not train
        all of its parameters.
        """
        with explained_failures():
            persistent = self.trained.session.persistent()
        return self._make_model(name, self.trained.averaged(persistent))

    def close(self) -> None:
        """Give the memory of the device back and complete the page of the run; nothing is saved."""
        self.__exit__(None, None, None)

    @_alone
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it; the page of a run that an error ended says so."""
        if not self._is_closed:
            self._is_closed = True
            with explained_failures():
                self._held.__exit__(kind, error, trace)

    def _rates_of(self, step: int) -> tuple[float, ...]:
        """The rates of a step: that of all paths, and of those that have their own schedules."""
        by_hand = self._trained.learning_rate
        if by_hand is not None:
            return (by_hand,) * len(self._spec.settings.all_schedules)
        return self._spec.scheduled_rates(step, self._reductions)

    @cached_property
    def _moved(self) -> dict[str, TensorType]:
        """The types of the gradients that move something, by path."""
        spec = self._spec
        moved = spec.compiled.updates
        persistent = self.trained.session.parameters
        params = (each.name for each in spec.parameters if each.kind == "param")
        return {name: persistent[name] for name in params if name in moved}

    def _require_parts(self) -> None:
        """Raise `ValueError` unless the update can be parted from the gradients."""
        if self._spec.settings.accumulate > 1:
            raise ValueError("with `accumulate` the gradients of several batches make an update")
        if not self._spec.is_divisible:
            raise ValueError("the program computes something from the weights that a step moved")

    def _step(self, batch: Mapping[str, object], *, moves: bool) -> StepResult:
        """Make a step, or one that moves no weights, and count it."""
        trained, spec = self.trained, self._spec
        given = self._read(batch)
        rates = self._rates_of(self.steps)
        with explained_failures(self._batch):
            data = self._own(given, trained.session.own(self._examples(given)))
            clock = clock_values(self._clock, spec.settings.seed, trained.steps, rates)
            outputs = trained.step({**data, **(clock if moves else without_rate(clock))})
            if self._log is not None:
                ahead = trained.session.ahead
                self._log.stepped(trained.steps, self._examples(given), rates, outputs, ahead)
        weights = (each.name for each in spec.parameters)
        return StepResult(trained.steps, rates[0], outputs, weights)

    def _follow(
        self, found: Mapping[str, float], persistent: Mapping[str, Array], shown: VisualLog
    ) -> None:
        """Let schedules, the best weights and the records follow an evaluation."""
        settings = self._spec.settings
        missing = self._trained.evaluator.without_value
        known = {name: each for name, each in found.items() if name not in missing}
        self._reductions = settings.reduced(self._reductions, known)
        is_best = self._stopping.is_best(found, missing)
        if self._log is None:
            return
        with explained_failures():
            self._log.evaluated(self.steps, found, shown, best=is_best)
        if is_best and self._log.folder.writes:
            self._trained.write_weights(self._log.folder.best, persistent)

    def _run_folder(self, folder: Path | str | None) -> AbstractContextManager[RunFolder]:
        """The folder to save the run in, locked."""
        own = None if self._log is None else self._log.folder
        if own is not None and (folder is None or own.path.resolve() == Path(folder).resolve()):
            return nullcontext(own)
        if folder is None:
            raise ValueError("say where to save it: the trainer was made without `out`")
        return saved_folder(Path(folder), self._device.hosts)

    def _session(self) -> Session:
        return self.trained.session

    def _read(self, batch: object) -> Batch:
        """The arrays of a batch, in the types of the inputs."""
        if not isinstance(batch, Mapping):
            kind = type(batch).__name__
            raise TypeError(f"a batch is a dict with an array for each input, and not a {kind}")
        return self._reader.read(cast("Mapping[str, object]", batch))

    def _tensors(self, *, states: bool) -> Tensors:
        weights = {each.name for each in self._spec.parameters if each.kind != "state"}
        types = self.trained.session.parameters
        chosen = {name: each for name, each in types.items() if (name not in weights) == states}
        return Tensors(self._session, chosen)

    def _examples(self, batch: Batch) -> int:
        counter = self._spec.input_spec.counter
        return 1 if counter is None else batch.sizes[counter]

    def _own(self, batch: Batch, own: range) -> dict[str, Array]:
        """Returns the part of a batch for this process: on one host all of it."""
        if len(own) == self._examples(batch):
            return batch.arrays
        return self._part(batch, slice(own.start, own.stop))

    def _part(self, batch: Batch, examples: slice) -> dict[str, Array]:
        """Some examples of a batch; what is fed whole stays so."""
        rows = self._spec.input_spec.rows
        return {
            name: array[examples.start * rows[name] : examples.stop * rows[name]]
            if name in rows
            else array
            for name, array in batch.arrays.items()
        }

    def _given(self, data: Batches) -> Iterator[HeldBatch]:
        """Yields the batches to evaluate on."""
        if isinstance(data, Mapping):
            batch = self._read(cast("object", data))
            yield from self._cut(batch)
            return
        for given in data:
            batch = self._read(given)
            yield HeldBatch(
                self._examples(batch),
                batch.sizes,
                lambda own, batch=batch: self._own(batch, own),
            )

    def _cut(self, batch: Batch) -> Iterator[HeldBatch]:
        """Examples in batches as large as those of a step, or a little smaller."""
        spec, examples = self._spec, self._examples(batch)
        counter = spec.input_spec.counter
        for run in runs(examples, even_batch(examples, spec.batch, spec.settings.devices)):

            def part(own: range, start: int = run.start) -> dict[str, Array]:
                return self._part(batch, slice(start + own.start, start + own.stop))

            count = run.stop - run.start
            sizes = batch.sizes if counter is None else {**batch.sizes, counter: count}
            yield HeldBatch(count, sizes, part, is_cut=True)
