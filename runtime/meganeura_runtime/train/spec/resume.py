"""Resuming a run: its checkpoint, compared with the program and the settings of now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.ir.types import DType
from meganeura_dsl.pipeline import Program
from meganeura_dsl.settings.declared_optimizers import declared_optimizers
from meganeura_dsl.settings.run_settings import SETTINGS, ReaderOptions, RunSettings
from meganeura_dsl.transforms.loss_scale import SCALES
from meganeura_dsl.transforms.optimizers.schedules import RunLength
from meganeura_runtime.backends.backend import ALONE, Hosts, OpenDevice
from meganeura_runtime.io.checkpoint import Origin, Progress, origins, read_checkpoint
from meganeura_runtime.io.files.file_problems import DamagedFile, UnreadableFile
from meganeura_runtime.io.tensors.safetensors_file import read_tensors
from meganeura_runtime.io.tensors.stored_tensor import NUMPY, Array, StoredTensor
from meganeura_runtime.support.tracing import Span, unobserved
from meganeura_runtime.train.data.data_fingerprint import changes
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.spec.run_request import RunRequest
from meganeura_runtime.train.spec.session_inputs import leaves
from meganeura_runtime.train.spec.train_job import TrainJob, prepare_with
from meganeura_runtime.train.spec.train_spec import TrainSpec, manual_spec, settings_of
from meganeura_runtime.train.training_problems import CannotResume, DataChanged

RESUMABLE = tuple(name for name, setting in SETTINGS.items() if setting.is_resumable)
"""Settings that a resumed run may be given anew; data may be elsewhere, but not other data."""


@dataclass(frozen=True)
class Resumption:
    """The progress of a run, and the values of its persistent leaves."""

    progress: Progress
    persistent: Mapping[str, Array]


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that no setting asks for."""

    resumption: Resumption | None = None
    detect_anomaly: bool = False
    """True checks the results of each step, and ends at the first that is not finite."""
    span: Span = unobserved
    """A tracer of what the host does."""
    hosts: Hosts = ALONE
    """The processes that run it together."""
    device: OpenDevice | None = None
    """The device that the page of the run describes; `None` describes none."""
    command: str = ""
    """The command line of the run; empty from Python."""

    @property
    def step(self) -> int:
        """Steps that were made before."""
        return 0 if self.resumption is None else self.resumption.progress.step


FROM_THE_START = RunOptions()
"""A run from the start, checked only now and then."""


def resume_job(
    request: RunRequest, folder: RunFolder, *, tuned: bool = True
) -> tuple[TrainJob, Resumption]:
    """Returns the job of an earlier run with the settings it began with, and its progress.

    Raises what `prepare_new` raises, and `ProblemError` if it is not the same run.
    """
    tensors, progress = _found(folder, request.program)
    if progress.learning_rate is not None:
        raise ProblemError(CannotResume("its learning rate was set by hand, and so is the next"))
    settings = _settings(request, progress)
    job = prepare_with(request, settings, run=folder.path, tuned=tuned)
    persistent = _persistent(tensors, job.spec, progress)
    if progress.is_by_hand:
        epoch, position = divmod(progress.step, job.steps_per_epoch)
        progress = progress.model_copy(update={"epoch": epoch, "position": position})
    else:
        _require_same_data(job, progress)
    if progress.step != progress.epoch * job.steps_per_epoch + progress.position:
        raise ProblemError(CannotResume("its checkpoint contradicts itself about its step"))
    return job, Resumption(progress, persistent)


def _settings(request: RunRequest, progress: Progress) -> RunSettings:
    """Returns the settings of a resumed run, which must name its data."""
    settings = _revised(progress.settings, request.overrides, request.settings)
    if settings.data:
        return settings
    return _revised(progress.settings, request.overrides, request.settings_with_data)


def resumed_device(request: RunRequest, folder: RunFolder) -> str:
    """Returns the device of a resumed run: the one given anew, or that of its checkpoint, if any.

    Raises `ProblemError` or `ProblemsError` for settings and for a checkpoint that cannot be read.
    """
    now = request.settings
    if "device" in _names(request.overrides) or not folder.checkpoint.is_file():
        return now.device
    return _checkpoint(folder, request.program)[1].settings.device


def resume_manual(
    program: Program,
    train: str,
    overrides: Sequence[str],
    folder: RunFolder,
    *,
    gradients: bool = False,
) -> tuple[TrainSpec, Resumption]:
    """Returns the specification of a manual loop that goes on with a run, and its progress.

    Raises `ProblemError` or `ProblemsError` as `manual_spec`, and if it is not the same run.
    """
    tensors, progress = _found(folder, program)
    now = settings_of(program, train, overrides)
    settings = _revised(progress.settings, overrides, now)
    spec = manual_spec(program, train, settings, gradients=gradients)
    return spec, Resumption(progress, _persistent(tensors, spec, progress))


def compares_anew(progress: Progress, settings: RunSettings, folder: RunFolder | None) -> bool:
    """Returns True if no evaluation so far counts for the best weights.

    Those of another metric do not, nor those whose best weights lie elsewhere.
    """
    is_elsewhere = folder is not None and not folder.best.is_file()
    return not progress.chooses_as(settings) or (is_elsewhere and progress.best_value is not None)


@dataclass(frozen=True)
class OtherRates:
    """A learning rate that differs from that of the run before it was resumed."""

    schedule: str
    before: str
    """The schedule as it was."""
    updates: int
    updates_before: int
    """Updates of the whole run, now and before."""
    rates: tuple[float, float]
    """The rates of the last step that was made and of the next."""
    step: int
    """The last step that was made."""

    def __str__(self) -> str:
        """Returns a sentence with the setting that keeps the rates as they were."""
        last, following = self.rates
        change = f"learning rate: {last:.4g} in step {self.step:,}, {following:.4g} in the next, as"
        if self.schedule != self.before:
            return f"{change} the schedule is {self.schedule} and was {self.before}"
        word, _, given = self.schedule.removesuffix(")").partition("(")
        kept = ", ".join(filter(None, [given, f"steps={self.updates_before}"]))
        return (
            f"{change} {self.schedule} spreads over {self.updates:,} updates, and no longer over "
            f"{self.updates_before:,}; {word}({kept}) does that still"
        )


def other_rates(job: TrainJob, progress: Progress) -> tuple[OtherRates, ...]:
    """Returns the learning rates that differ from those of the run before it was resumed."""
    step, was = progress.step, progress.settings
    if progress.is_by_hand or step >= job.steps:
        return ()
    length = RunLength(
        job.steps_per_epoch * was.epochs if was.steps is None else was.steps, job.steps_per_epoch
    )
    before = was.learning_rates(max(0, step - 1), length, progress.reductions_of(was))
    now = job.settings.learning_rates(step, job.length, progress.reductions_of(job.settings))
    counts = [max(1, steps // was.accumulate) for steps in (job.steps, length.steps)]
    schedules = zip(was.all_schedules, job.settings.all_schedules, before, now, strict=True)
    return tuple(
        OtherRates(str(new), str(old), counts[0], counts[1], (last, following), step)
        for old, new, last, following in schedules
        if new != old or (new.spans_run and counts[0] != counts[1])
    )


def origins_of(spec: TrainSpec, resumption: Resumption | None) -> tuple[Origin, ...]:
    """Returns the files of the weights that a run started from, also if it is resumed."""
    if resumption is not None:
        return resumption.progress.weights
    return () if spec.start is None else origins(tensor.file for _, tensor in spec.start.matched)


def _found(folder: RunFolder, program: Program) -> tuple[dict[str, StoredTensor], Progress]:
    if not folder.checkpoint.is_file():
        raise ProblemError(CannotResume(f"`{folder.path}` holds no checkpoint"))
    return _checkpoint(folder, program)


def _checkpoint(folder: RunFolder, program: Program) -> tuple[dict[str, StoredTensor], Progress]:
    """Reads the checkpoint; the message of a damaged one names weights that are whole."""
    try:
        return read_checkpoint(folder.checkpoint, declared_optimizers(program.module))
    except ProblemError as error:
        match error.problem:
            case DamagedFile() | UnreadableFile() as problem:
                raise ProblemError(replace(problem, instead=_instead(folder))) from None
            case _:
                raise


def _instead(folder: RunFolder) -> Help | None:
    """Returns advice to start from the latest weights of a run that are not damaged."""
    for path in (folder.weights, folder.best):
        try:
            read_tensors(path)
        except ProblemError:
            continue
        return Help("begin a new run with weights of this one:", f"--weights {path}")
    return None


def _require_same_data(job: TrainJob, progress: Progress) -> None:
    """Raise `ProblemError` unless the run is fed what it was fed when it began."""
    if not progress.data:
        raise ProblemError(CannotResume("its checkpoint does not say what data it was fed"))
    changed = tuple(changes(progress.data, job.fingerprints))
    if changed:
        raise ProblemError(DataChanged(job.dataset.path, changed))


def _revised(stored: RunSettings, overrides: Sequence[str], now: RunSettings) -> RunSettings:
    """Returns the settings a run began with, with those given anew; raises `ProblemError`."""
    names = _names(overrides)
    late = [name for name in names if name not in RESUMABLE]
    if late:
        raise ProblemError(CannotResume(f"`{late[0]}` was decided when it began", RESUMABLE))
    return with_given(stored, overrides, now)


def with_given(stored: RunSettings, overrides: Sequence[str], now: RunSettings) -> RunSettings:
    """Returns the settings of a run with those that `overrides` gives anew, which `now` has."""
    names = _names(overrides)
    if "epochs" in names:
        names.append("steps")  # which `epochs` takes the place of
    if "data" in names:
        names.append("source")
        said = {"tensors": now.tensors, "reading": now.reading != ReaderOptions()}
        names += [name for name, is_said in said.items() if is_said]
    return stored.model_copy(update={name: getattr(now, name) for name in names})


def _names(overrides: Sequence[str]) -> list[str]:
    """Returns the names of the settings that are given anew."""
    return [text.partition("=")[0].strip() for text in overrides]


def _persistent(
    tensors: Mapping[str, StoredTensor], spec: TrainSpec, progress: Progress
) -> dict[str, Array]:
    """Returns the tensors of a checkpoint; raises `ProblemError` if the step has others."""
    if progress.program != spec.program_hash:
        raise ProblemError(CannotResume("the program, or what it is built of, has changed"))
    wanted = {leaf.name: leaf for leaf in leaves(spec.compiled) if leaf.is_persistent}
    if set(tensors) - SCALES != set(wanted) - SCALES:
        raise ProblemError(CannotResume("its checkpoint holds other tensors than the program"))
    for name in wanted.keys() & tensors.keys():
        leaf, found = wanted[name], tensors[name]
        if found.shape != leaf.shape or found.content.dtype != NUMPY[leaf.dtype]:
            raise ProblemError(CannotResume(f"`{name}` is {found} in its checkpoint"))
    return restored(tensors, {name: leaf.dtype for name, leaf in wanted.items()})


def restored(tensors: Mapping[str, StoredTensor], wanted: Mapping[str, DType]) -> dict[str, Array]:
    """Returns the parameters and states of a step from a checkpoint.

    A checkpoint of a run in f32 has no states of the loss scale, which begin with 0.
    """
    return {
        name: np.array(tensors[name].bits) if name in tensors else np.zeros((), NUMPY[dtype])
        for name, dtype in wanted.items()
    }
