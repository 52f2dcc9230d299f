"""Checkpoints: everything that an interrupted run needs to go on as if it had not been.

A checkpoint is one safetensors file. Its tensors are all that a session keeps between steps:
parameters, states and the moments of the optimizer. Its metadata is a `Progress`.
"""

from collections.abc import Iterable, Mapping
from hashlib import file_digest
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.settings.settings_context import NONE_DECLARED, Declared, SettingsContext
from meganeura_dsl.transforms.optimizers.schedules import Reduction
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.tensors.safetensors_file import open_tensors, write_tensors
from meganeura_runtime.io.tensors.stored_tensor import Array, StoredTensor

KEY = "meganeura"
"""The entry of the metadata that holds a `Progress`."""

Count = Annotated[int, Field(ge=0, lt=1 << 53)]
"""A count that every program can hold exactly."""


class Origin(BaseModel):
    """A file of weights that a run started from, and what it held then."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str
    sha256: str


class Fingerprint(BaseModel):
    """One tensor that feeds a run: where it is does not matter, only what it holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tensor: str
    """The split and the input: `train.image`."""
    type: str
    """Element type and shape, as the file has them: `u8[60000, 28, 28]`."""
    examples: Count
    digest: str
    """BLAKE2b of the elements in C order, little-endian, as hexadecimal digits."""

    def __str__(self) -> str:
        return f"{self.type}, {self.examples:,} examples, {self.digest[:12]}"


class Progress(BaseModel):
    """The progress of a run. Together with the tensors it decides every later step."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    program: str
    """Hash of the training step's graph."""
    step: Count
    """Steps made since the start; the counter of everything random in the graph."""
    epoch: Count
    """The epoch of the next step, from 0; with the seed it decides the order of examples."""
    position: Count
    """Batches of that epoch already used."""
    best_value: float | None = None
    """The best held-out loss or metric so far, if there was an evaluation."""
    stale: Count = 0
    """Evaluations since then."""
    settings: RunSettings
    weights: tuple[Origin, ...] = ()
    """The weights that the run started from instead of its initial values."""
    data: tuple[Fingerprint, ...] = ()
    """The fingerprints of the run's data."""
    loss_sum: float = 0.0
    """The losses of that epoch so far, each counted as often as its batch had examples."""
    loss_examples: Count = 0
    """The number of these examples."""
    is_ended: bool = False
    """True if the run ended with this step in the middle of an epoch, and was evaluated there."""
    is_by_hand: bool = False
    """True if Python gave the batches; then `data` is empty, and `epoch` is 0."""
    learning_rate: float | None = None
    """The learning rate that was set by hand, which ended the schedule."""
    reduction: Reduction = Reduction()
    """The effect of held-out examples on the learning rate."""
    reductions: dict[str, Reduction] = Field(default_factory=dict[str, Reduction])
    """The same of the paths that have their own schedules, by their globs."""

    def reductions_of(self, settings: RunSettings) -> tuple[Reduction, ...]:
        """Returns the effect of held-out examples on each of `all_schedules` of settings.

        Nothing to one that follows another measurement than `schedule` did.
        """
        by_path = (self.reductions.get(glob, Reduction()) for glob in settings.schedules)
        is_same = self.settings.schedule.follows == settings.schedule.follows
        return (self.reduction if is_same else Reduction(), *by_path)

    def chooses_as(self, settings: RunSettings) -> bool:
        """True if settings choose the best weights by the metric that chose them so far."""
        return self.settings.best_metric == settings.best_metric


def origins(files: Iterable[Path]) -> tuple[Origin, ...]:
    """Files of weights with the hashes of what they hold."""
    found: list[Origin] = []
    for file in sorted(set(files)):
        with file.open("rb") as opened:
            digest = file_digest(opened, "sha256").hexdigest()
        found.append(Origin(file=str(file.resolve()), sha256=digest))
    return tuple(found)


def write_checkpoint(path: Path, persistent: Mapping[str, Array], progress: Progress) -> None:
    """Save what the session keeps, at once; raises `ProblemError` where it cannot be."""
    write_tensors(path, persistent, {KEY: progress.model_dump_json()})


def read_checkpoint(
    path: Path, declared: Declared = NONE_DECLARED
) -> tuple[dict[str, StoredTensor], Progress]:
    """The tensors and the progress of a checkpoint; raises `ProblemError`.

    `declared` has the optimizers of its program.
    """
    tensors, metadata = open_tensors(path)
    if KEY not in metadata:
        raise ProblemError(UnreadableFile(path, "it holds tensors, but is no checkpoint of a run"))
    try:
        return tensors, Progress.model_validate_json(
            metadata[KEY], context=SettingsContext(declared)
        )
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        reason = f"its progress cannot be read: {location}: {first['msg']}"
        raise ProblemError(UnreadableFile(path, reason)) from None
