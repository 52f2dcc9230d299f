"""A program in Python: its models, and its training."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, cast
from warnings import warn

import numpy as np

from meganeura.model import Model
from meganeura.notebook.live_run import live_run
from meganeura.notebook.views import measures, program_html, run_html
from meganeura.trainer import Trainer
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, Report
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.settings.setting_values import whole
from meganeura_dsl.settings.settings_problems import WrongSettingType
from meganeura_dsl.support.byte_sizes import parsed_bytes
from meganeura_runtime.backends.device_failures import explained_failures
from meganeura_runtime.backends.registry import choose_device, meet_hosts
from meganeura_runtime.io.weight_names import Names
from meganeura_runtime.io.weights import (
    Allowed,
    initial_values,
    of_values,
)
from meganeura_runtime.train.data.run_data import PythonData
from meganeura_runtime.train.events import (
    DeviceUsage,
    EpochEnded,
    Evaluated,
    Event,
    Logged,
    Sampled,
    StopTraining,
    Watch,
)
from meganeura_runtime.train.loop.measurement import measure
from meganeura_runtime.train.loop.training_loop import train
from meganeura_runtime.train.records.run_folder import RunFolder, folder_of, resumed_folder
from meganeura_runtime.train.spec.memory_fit import Fit, MemoryProbe, fit
from meganeura_runtime.train.spec.resume import (
    RunOptions,
    resume_job,
    resume_manual,
    resumed_device,
)
from meganeura_runtime.train.spec.run_request import RunRequest
from meganeura_runtime.train.spec.train_job import prepare_new
from meganeura_runtime.train.spec.train_spec import Start, manual_spec, settings_of

Files = Path | str | Sequence[Path | str]
"""A file of weights, an index of shards, a folder of either, or all shards one by one."""


@dataclass(frozen=True)
class Weights:
    r"""Files of weights whose tensors have other names in the model.

    `rename` has patterns for whole names in the files and what they become: a teacher that was
    trained with its student is `Weights(files, rename={r"teacher\.(.*)": r"\1"})`. All are then
    put below `prefix`: `Weights(files, prefix="teacher.")` is a part of the model.
    """

    files: Files
    rename: Mapping[str, str] = field(default_factory=dict[str, str])
    prefix: str = ""


@dataclass(frozen=True)
class Run:
    """A finished training run: its folder, and what was measured."""

    program: "Program" = field(repr=False)
    train: str
    """The `train` block it is of."""
    folder: Path
    steps: int
    losses: tuple[tuple[int, float], ...]
    """The loss at each step that was logged."""
    held_out: tuple[Mapping[str, float], ...]
    """The loss and metrics on the held-out examples after each epoch that was evaluated."""
    epochs: tuple[float, ...] = ()
    """The mean training loss of each epoch, over all of its examples."""
    samples: tuple[tuple[int, str], ...] = ()
    """The step and the text of each sample that `sample_prompt` asks for."""
    usage: DeviceUsage | None = None
    """The utilization of the devices; `None` where no step was run."""

    def __repr__(self) -> str:
        """`<Run fit in runs/fit-1: 528 steps, held out loss 0.026, accuracy 0.986>`."""
        measured = {"loss": self.final_loss} if not self.held_out else self.held_out[-1]
        numbers = ", ".join(
            f"{name} {value:.4g}" for name, value in measured.items() if value is not None
        )
        held = " held out" if self.held_out else ""
        said = f",{held} {numbers}" if numbers else ""
        return f"<Run {self.train} in {self.folder}: {self.steps:,} steps{said}>"

    def _repr_html_(self) -> str:
        """The last measurements, the files and the curves, for a notebook."""
        held_out = self.held_out[-1].items() if self.held_out else ()
        training = () if self.final_loss is None else (("loss", self.final_loss),)
        facts = [
            ("steps", f"{self.steps:,}"),
            ("held out", measures(held_out)),
            ("last epoch", measures(training)),
            ("weights", str(self.weights)),
            ("page", str(self.report)),
        ]
        return run_html(self.train, self.folder, facts)

    @property
    def final_loss(self) -> float | None:
        """The mean training loss of the last epoch; `None` if there was none."""
        return self.epochs[-1] if self.epochs else None

    @property
    def report(self) -> Path:
        """The page that shows the run, a file that a browser opens."""
        return self.folder / "report.html"

    @property
    def weights(self) -> Path:
        """The trained weights."""
        return self.folder / "weights.safetensors"

    def model(self, name: str | None = None) -> Model:
        """A model of the program with the trained weights; raises as `Program.model`."""
        return self.program.model(name, weights=self.weights)

    def trainer(self, *, device: str | None = None, gradients: bool = False) -> Trainer:
        """A trainer that goes on where the run ended; raises as `Program.trainer`."""
        return self.program.trainer(
            self.train, device=device, resume=self.folder, gradients=gradients
        )


class Program:
    """A proved .mgn file."""

    def __init__(self, target: str, program: pipeline.Program, folder: Path) -> None:
        self._target = target
        self._program = program
        self._folder = folder
        """The folder that relative paths of the program start at."""

    @classmethod
    def load(cls, target: str) -> Self:
        """See `meganeura.load`."""
        return cls(target, pipeline.load(target), pipeline.find(target).path.parent)

    @classmethod
    def from_text(cls, text: str, name: str) -> Self:
        """See `meganeura.loads`."""
        return cls(name, pipeline.load_text(Source(name, text)), Path(name).parent)

    def __repr__(self) -> str:
        """`<Program digits_mlp: models digits_mlp; train fit>`."""
        models = f"models {', '.join(self.models)}" if self.models else "no models"
        trains = self._program.trains
        return (
            f"<Program {self._target}: {models}{'; train ' + ', '.join(trains) if trains else ''}>"
        )

    def _repr_html_(self) -> str:
        """The declarations, the notes and the text, for a notebook."""
        facts = [
            ("models", ", ".join(self.models)),
            ("train", ", ".join(self._program.trains)),
            ("blocks", ", ".join(self._program.module.blocks)),
        ]
        return program_html(self._target, self._program.source.text, facts, self.notes)

    @property
    def notes(self) -> tuple[Report, ...]:
        """The notes of its proof, as `meganeura check` prints them."""
        return self._program.notes

    @property
    def models(self) -> tuple[str, ...]:
        """The names of its models."""
        return self._program.models

    def model(
        self,
        name: str | None = None,
        *,
        weights: Files | Weights | None = None,
        allow_missing: Sequence[str] = (),
        allow_unexpected: Sequence[str] = (),
        seed: int | None = None,
        config: Mapping[str, StaticValue] | None = None,
        optional: Sequence[str] = (),
    ) -> Model:
        """One of its models, with the weights of files, or random ones that a seed gives.

        Loading is strict: globs such as `"fc.*"` name the parameters that may be missing, which
        start as `seed` (or 0) says, and the tensors that may be unexpected. Without weights and
        without a seed the model has no values yet. `config` replaces arguments of the model, such
        as `{"classes": 10}`; `optional` names inputs with a default that are fed as well. Raises
        `ProblemError` for a name that no model has and for everything that does not fit;
        `ValueError` if globs are given without weights, or for an input that is not optional.
        """
        model = Model(self._program, name, config or {}, frozenset(optional))
        allowed = Allowed(tuple(allow_missing), tuple(allow_unexpected))
        if weights is not None:
            model.load(_start(weights, allowed), seed or 0)
        elif allowed != Allowed():
            raise ValueError("there are no weights of which something may be missing")
        elif seed is not None:
            model.values = initial_values(model.parameters, seed)
        return model

    def train(
        self,
        name: str | None = None,
        *,
        data: object = None,
        validation: object = None,
        device: str | None = None,
        out: Path | str | None = None,
        settings: Mapping[str, object] | None = None,
        weights: Files | Weights | None = None,
        allow_missing: Sequence[str] = (),
        allow_unexpected: Sequence[str] = (),
        watch: Watch | Sequence[Watch] | None = None,
        live: bool = True,
        resume: Path | str | None = None,
    ) -> Run:
        """Train as its `train` block of that name says, with some settings replaced.

        `data` and `validation` take the place of the files that the settings name: a dictionary of
        arrays, a data set whose `len()` and `[i]` give examples, or an iterable of batches, such as
        a `DataLoader`; each may also be a file, and `validation` a share of the examples.

        A setting is a number, a text, or for a choice the text of a call: `"adam(lr=1e-3)"`; the
        setting `data` is the path of a file or folder, or the name of an embedded data set. Where
        several processes train together, as `jax.distributed` has them, all call this with the same
        `out`. `device` is a name that `meganeura devices` lists, or `auto`; without it the settings
        say which. Training starts from `weights` if there are any, which `allow_missing` and
        `allow_unexpected` may excuse as `model` says. `watch` is called with each event of
        `meganeura_runtime.train.events`, from the thread that trains, and may be several. What it
        raises ends the run; `StopTraining` ends it after the current step, and all is saved.
        In a notebook the cell shows the run while it goes on, unless `live` is False.
        `resume` is the folder of a run that goes on, on the same data, as `--resume` has it: to the
        bit, also where the data is given from Python.
        Losses and metrics are means over examples, in the units of the program. Raises
        `ProblemError` or `ProblemsError` for everything that is wrong with settings, data, weights
        or the device, and for a loss that is not finite; `ValueError` for a run that goes on and is
        given weights or another folder.
        """
        name = self._program.train(name)
        start = _start_of(weights, allow_missing, allow_unexpected)
        overrides = _overrides(settings, device)
        if isinstance(validation, int | float | str | Path):
            overrides += [f"validation={_written('validation', validation)}"]
            validation = None
        if isinstance(data, str | Path):
            overrides += [f"data={data}"]
            data = None
        given = PythonData(data, validation)
        request = RunRequest(self._program, name, self._folder, overrides, given)
        shown = live_run() if live else None
        record = _Record([*_several(watch), *([] if shown is None else [shown])])
        with ExitStack() as held:
            if resume is None:
                job = prepare_new(request, start)
                resumed, run_folder = None, None
            elif out is None and start is None:
                with explained_failures():
                    earlier = RunFolder(Path(resume))
                    where = resumed_device(request, earlier)
                    hosts = meet_hosts(where, None)
                run_folder = held.enter_context(resumed_folder(earlier.path, hosts))
                job, resumed = resume_job(request, run_folder)
            else:
                raise ValueError("a run that goes on has its folder, and weights of its own")
            held.enter_context(
                explained_failures((job.spec.input_spec.counter or "batch", job.batch))
            )
            chosen = job.spec.spread_over(
                choose_device(job.settings.device, precision=job.settings.precision)
            )
            if run_folder is None:
                wanted = None if out is None else Path(out)
                run_folder = held.enter_context(folder_of(name, wanted, chosen.hosts))
            options = RunOptions(resumed, hosts=chosen.hosts, device=chosen)
            finished = train(job, run_folder, chosen.open, record, record.is_asked, options)
        return Run(
            self,
            name,
            run_folder.path,
            finished.steps,
            tuple(record.losses),
            tuple(record.held_out),
            tuple(record.epochs),
            tuple(record.samples),
            finished.usage,
        )

    def trainer(
        self,
        name: str | None = None,
        *,
        device: str | None = None,
        settings: Mapping[str, object] | None = None,
        weights: Files | Weights | None = None,
        allow_missing: Sequence[str] = (),
        allow_unexpected: Sequence[str] = (),
        out: Path | str | None = None,
        resume: Path | str | None = None,
        gradients: bool = False,
    ) -> Trainer:
        """A loop of one's own: a `train` block on a device, which is given batches one by one.

        Settings, weights and errors are those of `train`; no data is read, and the run has no
        epochs, so a schedule that spreads over the run needs `settings={"steps": 1000}`. `resume`
        is a folder that `Trainer.save`, `train` or `meganeura train` wrote: the trainer goes on
        there, to the bit where the batches are the same. With `gradients` each step gives them.

        `out` is a new folder, or that of `resume`: steps are recorded there as `log_every` says,
        evaluations too, and `report.html` shows them, as in the folder of `train`.
        """
        name = self._program.train(name)
        overrides = _overrides(settings, device)
        start = _start_of(weights, allow_missing, allow_unexpected)
        resumed = None
        if resume is None:
            wanted = settings_of(self._program, name, overrides)
            spec = manual_spec(self._program, name, wanted, start, gradients=gradients)
        elif start is None:
            run_folder = RunFolder(Path(resume))
            spec, resumed = resume_manual(
                self._program, name, overrides, run_folder, gradients=gradients
            )
        else:
            raise ValueError("weights are for the start of a run; `resume` has weights of its own")
        with explained_failures((spec.input_spec.counter or "batch", spec.batch)):
            chosen = spec.spread_over(
                choose_device(spec.settings.device, precision=spec.settings.precision)
            )
        folder = None
        if out is not None and resume is not None and Path(out).resolve() == Path(resume).resolve():
            folder = resumed_folder(Path(out), chosen.hosts)
        elif out is not None:
            folder = folder_of(name, Path(out), chosen.hosts)
        return Trainer(spec, chosen, resumed, self._with_values, folder)

    def _with_values(self, name: str | None, values: Mapping[str, Array]) -> Model:
        """A model with the values of its parameters among some; raises `ProblemError`."""
        model = Model(self._program, name, {}, frozenset())
        model.values = of_values(values, model.parameters)
        return model

    def evaluate(
        self,
        name: str | None = None,
        *,
        weights: Files | Weights,
        data: object = None,
        device: str | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> dict[str, float]:
        """The loss and the metrics of a `train` block with these weights, as means over examples.

        Measured are the examples held out, or all where the data holds none out: those that the
        settings name, or those of `data`, which is what `train` takes, and of which `validation` of
        the program holds nothing out. Nothing is trained. Raises as `train` does.
        """
        name = self._program.train(name)
        overrides = [] if data is None else ["validation=none"]
        overrides += _overrides(settings, device)
        if isinstance(data, str | Path):
            overrides += [f"data={data}"]
            data = None
        start = _start(weights, Allowed())
        found = measure(self._program, name, self._folder, overrides, start, data)
        for difference in found.differences:
            warn(f"the weights were trained on other inputs: {difference}", stacklevel=2)
        return dict(found.values)

    def fit(
        self,
        *,
        memory: int | str | None = None,
        device: str | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> Fit:
        """Returns the memory of a training step by role, and the batch that fits on a device.

        `memory` is a number of bytes or a text such as `"8GiB"`; without it no batch is looked for.
        `device` and `settings` are those of `train`. Nothing runs, and the data need not be there.
        Raises `ProblemError` or `ProblemsError` for settings, sizes and devices that are wrong, and
        `ValueError` for a text that is no amount of memory.
        """
        available = parsed_bytes(memory) if isinstance(memory, str) else memory
        name = self._program.train()
        overrides = _overrides(settings, device)
        wanted = settings_of(self._program, name, overrides)
        with explained_failures():
            return fit(MemoryProbe.of(self._program, name, wanted, wanted.device), available)


@dataclass
class _Record:
    """Keeps what was measured, and passes every event on."""

    watches: Sequence[Watch]
    asked: bool = False
    """True if an observer asked for the end."""
    losses: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    held_out: list[Mapping[str, float]] = field(default_factory=list[Mapping[str, float]])
    epochs: list[float] = field(default_factory=list[float])
    samples: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def __call__(self, event: Event) -> None:
        match event:
            case Logged():
                self.losses.append((event.step, event.loss))
            case EpochEnded():
                self.epochs.append(event.loss)
            case Evaluated():
                self.held_out.append({"loss": event.loss, **event.metrics})
            case Sampled():
                self.samples.append((event.step, event.text))
            case _:
                pass
        for watch in self.watches:
            try:
                watch(event)
            except StopTraining:
                self.asked = True

    def is_asked(self) -> bool:
        """True if the run is to end after the current step."""
        return self.asked


def _several(watch: Watch | Sequence[Watch] | None) -> Sequence[Watch]:
    """The observers, whether there is none, one, or several."""
    if watch is None:
        return ()
    return (watch,) if callable(watch) else watch


def _start(weights: Files | Weights, allowed: Allowed) -> Start:
    """The files as a model takes them; raises `ProblemError` for what is no pattern."""
    if not isinstance(weights, Weights):
        return Start(_paths(weights), allowed)
    return Start(_paths(weights.files), allowed, Names.of(weights.rename, weights.prefix))


def _paths(files: Files) -> tuple[Path, ...]:
    return (Path(files),) if isinstance(files, str | Path) else tuple(map(Path, files))


def _start_of(
    weights: Files | Weights | None, missing: Sequence[str], unexpected: Sequence[str]
) -> Start | None:
    """The weights a training starts from, if there are any."""
    allowed = Allowed(tuple(missing), tuple(unexpected))
    return None if weights is None else _start(weights, allowed)


def _overrides(settings: Mapping[str, object] | None, device: str | None) -> list[str]:
    """Settings as they are written on the command line; raises `ProblemError` for what is none."""
    given = [f"{key}={_written(key, value)}" for key, value in (settings or {}).items()]
    return given if device is None else [*given, f"device={device}"]


def _written(name: str, value: object) -> str:
    """A setting as it is written on the command line; raises `ProblemError` for what is none."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | str | Path):
        return str(value)
    if isinstance(value, np.generic):
        return _written(name, cast("object", value.item()))
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        words = [f'"{item}"' if isinstance(item, str) else _written(name, item) for item in items]
        return f"[{', '.join(words)}]"
    expected = "the path of a file or folder" if name == "data" else "a number or a text"
    kind = type(value).__name__
    raise ProblemError(WrongSettingType(whole(name), name, expected, f"a value of type {kind}"))
