"""`run.json`: what a run is, beside its settings: its device, shapes, memory, and how it ended."""

from datetime import UTC, datetime
from enum import StrEnum
from math import prod
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from meganeura_dsl import __version__
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.support.limited_read import TooLongError, read_bytes
from meganeura_runtime.backends.backend import OpenDevice
from meganeura_runtime.backends.base import leaf_types
from meganeura_runtime.backends.errors import DeviceError, LimitError
from meganeura_runtime.train.report.report_problems import DamagedRun
from meganeura_runtime.train.report.run_origin import RunOrigin, texts_of
from meganeura_runtime.train.spec.train_job import TrainJob
from meganeura_runtime.train.spec.train_spec import TrainSpec

LARGEST = 16
"""MiB of a `run.json` that is read."""


MOST_SECONDS = 1e12
"""The most seconds of a run: 30,000 years."""


class Status(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    """Ended by its user before its last step."""
    STOPPED_EARLY = "stopped early"
    """Ended by its setting `stop_after`."""
    FAILED = "failed"
    LOST = "lost"
    """Its process ended without a word."""


class DescribedTensor(BaseModel):
    """An input, a parameter or a state."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    name: str
    type: str
    """The type with the sizes of the run: `f32[32, 1, 8, 8]`."""
    kind: str = ""
    """`input`, `param` or `state`."""
    declared: str = ""
    """The type of an input with free sizes."""
    moves: bool = True
    """True if a step changes it."""
    elements: int = 0


class RunDescription(BaseModel):
    """The facts of a run at its start, with those that are added at its end."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    version: int = 1
    train: str
    """The name of the `train` block."""
    status: Status = Status.RUNNING
    error: str = ""
    """The message of what it failed by, in a line."""
    ended: str = ""
    """The reason for which it stopped early, in a line."""
    device: str = ""
    started: datetime
    seconds: Annotated[float, Field(ge=0, le=MOST_SECONDS)] = 0.0
    """The time of all processes of the run; 0 before the first of them ended."""
    batch: int
    epochs: int
    steps_per_epoch: int
    examples: int
    held_out: int
    inputs: tuple[DescribedTensor, ...]
    parameters: tuple[DescribedTensor, ...]
    classes: tuple[str, ...] = ()
    """The names of the classes by number, where the data says them."""
    memory: dict[str, int] | None = None
    """Bytes of a step by role; `None` where the backend does not say."""
    origin: RunOrigin = RunOrigin()


def describe(
    spec: TrainSpec,
    job: TrainJob | None,
    device: OpenDevice | None,
    before: float,
    commands: tuple[str, ...] = (),
) -> RunDescription:
    """Returns the description of a run that begins now and took `before` seconds already.

    A manual loop has no job: its examples are not known. The repository is looked at later.
    """
    fed = leaf_types(spec.compiled)[1]
    epochs, steps_per_epoch, examples, held_out = _extent(spec, job)
    return RunDescription(
        train=spec.name,
        device="" if device is None else device.short_name,
        started=datetime.now(UTC),
        seconds=before,
        batch=spec.batch,
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        examples=examples,
        held_out=held_out,
        inputs=tuple(
            DescribedTensor(
                name=name,
                type=str(each),
                kind="input",
                declared=str(spec.input_spec.inputs[name]),
                elements=prod(concrete_shape(each.shape)),
            )
            for name, each in fed.items()
            if name in spec.input_spec.inputs
        ),
        parameters=tuple(
            DescribedTensor(
                name=each.name,
                type=str(each.type),
                kind=each.kind,
                moves=each.name in spec.compiled.updates,
                elements=prod(concrete_shape(each.type.shape)),
            )
            for each in spec.parameters
        ),
        classes=spec.preparation.classes,
        origin=_origin(spec, commands),
    )


def _origin(spec: TrainSpec, commands: tuple[str, ...]) -> RunOrigin:
    texts, left_out = texts_of(spec.sources)
    return RunOrigin(commands=commands, texts=texts, left_out=left_out, version=__version__)


def _extent(spec: TrainSpec, job: TrainJob | None) -> tuple[int, int, int, int]:
    """Returns epochs, steps of one, examples to train on and held out; 0 if they are not known."""
    if job is not None:
        test = job.dataset.test
        held_out = 0 if test is None else test.examples
        return job.epochs, job.steps_per_epoch, job.dataset.train.examples, held_out
    steps, of_epoch = spec.settings.steps or 0, spec.settings.steps_per_epoch or 0
    return (-(-steps // of_epoch) if of_epoch else 0), of_epoch, 0, 0


def memory_of(spec: TrainSpec, device: OpenDevice) -> dict[str, int] | None:
    """Returns the bytes of a step by role; `None` if the backend does not plan its memory."""
    if not device.backend.capabilities.plans_memory:
        return None
    try:
        found = device.backend.memory(spec.compiled, device)
    except (DeviceError, LimitError, ProblemError):  # the session that is opened says what is wrong
        return None
    return None if found is None else {str(role): size for role, size in found.roles.items()}


def read_description(path: Path) -> RunDescription | None:
    """Reads a file; `None` where there is none, as of older runs. Raises `ProblemError`."""
    if not path.is_file():
        return None
    try:
        return RunDescription.model_validate_json(read_bytes(path, LARGEST))
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']}"
    except TooLongError as error:
        reason = str(error)
    except OSError as error:
        reason = error.strerror or str(error)
    raise ProblemError(DamagedRun(path, 0, reason))
