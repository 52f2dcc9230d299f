"""A snapshot as a folder of weights: the names of the model, the preprocessing and the classes.

The preprocessing and the classes of the repository become entries of the metadata, as training
writes them, and what is read beside weights is copied.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import filter as filter_names
from pathlib import Path
from shutil import copyfile
from typing import Annotated, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_dsl.support.limited_read import TooLongError, read_bytes
from meganeura_runtime.io.files.atomic_write import replacing
from meganeura_runtime.io.files.file_problems import CannotWrite, UnreadableFile
from meganeura_runtime.io.hub.snapshot import BESIDE, CONFIG, PREPROCESSOR, WEIGHTS, Snapshot
from meganeura_runtime.io.preprocess import preprocessor_config
from meganeura_runtime.io.preprocess.images import Cover, Filter, ImageSteps, Middle, Stretch
from meganeura_runtime.io.preprocess.input_transforms import shown_size
from meganeura_runtime.io.preprocess.preparation import (
    ImagePreparation,
    Preparation,
    SoundPreparation,
    tokenizer_digest,
)
from meganeura_runtime.io.tensors.safetensors_file import read_tensors, write_stored
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor
from meganeura_runtime.io.weight_names import Names
from meganeura_runtime.io.weights import Allowed, Comparison, Declared, compare

SOURCE = "meganeura.source"
"""The entry of the metadata that says which file of which commit the weights are of."""
TOKENIZER = BESIDE[0]
FRAMES_A_SECOND = 100
MOST = 16
"""Mebibytes of a config or a tokenizer."""

Side = Annotated[int, Field(ge=1, le=65_535)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Spread = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _TimmImages(BaseModel):
    """The keys of timm that say how images are prepared."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    input_size: tuple[int, Side, Side]
    interpolation: str = "bilinear"
    crop_pct: Annotated[float, Field(gt=0, le=1)] = 0.875
    crop_mode: str = "center"
    mean: tuple[Number, ...]
    std: tuple[Spread, ...]

    def steps(self) -> ImageSteps:
        """Returns the steps of timm's evaluation; raises `ValueError` for others than known."""
        _, height, width = self.input_size
        resized = int(height / self.crop_pct), int(width / self.crop_pct)
        if self.crop_mode not in ("center", "squash"):
            raise ValueError(f"`crop_mode` is {self.crop_mode!r}, which is not done here")
        if self.interpolation.upper() not in Filter.__members__:
            raise ValueError(f"`interpolation` is {self.interpolation!r}, which is not done here")
        kind = Cover if self.crop_mode == "center" else Stretch
        return ImageSteps(
            kind(*resized), Middle(height, width), Filter[self.interpolation.upper()],
            1 / 255, self.mean, self.std,
        )  # fmt: skip


class _Config(BaseModel):
    """The keys of a config.json that are used; it may have any others."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    pretrained_cfg: _TimmImages | None = None
    label_names: tuple[str, ...] | None = None
    id2label: Mapping[int, str] | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes by number; none where they are only numbered."""
        if self.label_names:
            return self.label_names
        numbered = self.id2label or {}
        names = [numbered.get(number, "") for number in range(len(numbered))]
        is_named = all(names) and any(each != f"LABEL_{n}" for n, each in enumerate(names))
        return tuple(names) if is_named else ()


def preparation_of(snapshot: Snapshot) -> Preparation:
    """Returns how inputs are prepared, and the classes; raises `ProblemError`."""
    found = Preparation()
    if CONFIG in snapshot.files:
        found = _of_config(snapshot.files[CONFIG])
    if PREPROCESSOR in snapshot.files:
        path = snapshot.files[PREPROCESSOR]
        if "feature_size" in _json(path):
            config = preprocessor_config.sound_config(path)
            frames = config.chunk_length * FRAMES_A_SECOND
            found = replace(found, sound=SoundPreparation(mels=config.feature_size, frames=frames))
        else:
            steps = preprocessor_config.image_steps(path)
            image = ImagePreparation.of(3, *shown_size(steps), steps)
            found = replace(found, image=image)
    if TOKENIZER in snapshot.files:
        content = _content(snapshot.files[TOKENIZER])
        found = replace(found, tokenizer=tokenizer_digest(content))
    return found


def _of_config(path: Path) -> Preparation:
    try:
        config = _Config.model_validate(_json(path))
        found = Preparation(classes=config.classes)
        if config.pretrained_cfg is None:
            return found
        colors, height, width = config.pretrained_cfg.input_size
        image = ImagePreparation.of(colors, height, width, config.pretrained_cfg.steps())
        return replace(found, image=image)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        raise ProblemError(UnreadableFile(path, f"`{location}`: {first['msg']}")) from None
    except ValueError as error:
        raise ProblemError(UnreadableFile(path, str(error))) from None


def _json(path: Path) -> dict[str, object]:
    try:
        content = cast("object", json.loads(_content(path)))
    except (ValueError, RecursionError) as error:
        raise ProblemError(UnreadableFile(path, f"it is not JSON: {error}")) from None
    if not isinstance(content, dict):
        raise ProblemError(UnreadableFile(path, "it is no JSON object"))
    return cast("dict[str, object]", content)


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path, MOST)
    except TooLongError as error:
        raise ProblemError(UnreadableFile(path, str(error))) from None
    except OSError as error:
        raise ProblemError(UnreadableFile(path, error.strerror or str(error))) from None


def fitted(
    snapshot: Snapshot, parameters: Sequence[Declared] | None
) -> tuple[dict[str, StoredTensor], Comparison | None]:
    """Returns the tensors by their names in a model, and how they compare with its parameters.

    Without parameters all tensors are as they are. Raises `ProblemsError` with all that does not
    fit.
    """
    source, path = snapshot.source, snapshot.weights
    if parameters is None:
        return read_tensors(path), None
    names = [f"{source.prefix}{each}" for each in read_tensors(path)]
    unused = tuple(glob for glob in source.unused if filter_names(names, glob))
    found = compare([path], parameters, Allowed((), unused), Names((), source.prefix))
    mismatch = found.mismatch()
    problems = (*(() if mismatch is None else (mismatch,)), *found.faults())
    if problems:
        raise ProblemsError(problems)
    return {each.name: tensor for each, tensor in found.matched}, found


def write_folder(
    folder: Path, snapshot: Snapshot, tensors: Mapping[str, StoredTensor], prepared: Preparation
) -> None:
    """Write the weights with their metadata, and what is read beside them; raises `ProblemError`.

    `tensors` are those of the snapshot by their names in the model.
    """
    source = snapshot.source
    origin = {
        "repository": source.repository,
        "commit": source.revision,
        "file": WEIGHTS,
        "sha256": source.sha256,
    }
    entries = {"format": "pt", **prepared.entries, SOURCE: json.dumps(origin)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProblemError(CannotWrite(folder, error.strerror or str(error))) from None
    for name in BESIDE:
        if name in snapshot.files:
            with replacing(folder / name) as partial:
                copyfile(snapshot.files[name], partial)
    write_stored(folder / WEIGHTS, tensors, entries)
