"""`preprocessor_config.json`: what Hugging Face's checkpoints say about their inputs.

A step that is not implemented is refused, as it would change every output.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.support.limited_read import TooLongError, read_bytes
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.preprocess.images import Cover, Filter, ImageSteps, Middle, Stretch
from meganeura_runtime.io.preprocess.mel import HOP, RATE, WINDOW

NAME = "preprocessor_config.json"

HARMLESS = (
    "auto_map",
    "data_format",
    "default_to_square",
    "disable_grouping",
    "do_convert_rgb",
    "feature_extractor_type",
    "image_processor_type",
    "input_data_format",
    "mel_filters",
    "n_samples",
    "nb_max_frames",
    "processor_class",
    "return_attention_mask",
)
"""Keys that say nothing about what is done, or only repeat what other keys say."""

STRETCHED_FROM = 384
"""The edge from which transformers' `ConvNextImageProcessor`, the user of `crop_pct`, stretches."""

Positive = Annotated[int, Field(ge=1, le=100_000)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Spread = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Sizes(BaseModel):
    """A size of an image: of its shorter edge, or of both."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shortest_edge: Positive | None = None
    height: Positive | None = None
    width: Positive | None = None


class _Config(BaseModel):
    """A file whose unknown keys are checked afterwards."""

    model_config = ConfigDict(extra="allow", frozen=True)


class ImageConfig(_Config):
    """The keys that say what is done with an image."""

    do_resize: bool = True
    size: Positive | Sizes = 224
    crop_pct: Annotated[float, Field(gt=0, le=1)] | None = None
    resample: Filter = Filter.BILINEAR
    do_center_crop: bool = False
    crop_size: Positive | Sizes | None = None
    do_rescale: bool = True
    rescale_factor: Spread = 1 / 255
    do_normalize: bool = True
    image_mean: tuple[Number, ...] = (0.5, 0.5, 0.5)
    image_std: tuple[Spread, ...] = (0.5, 0.5, 0.5)

    def steps(self) -> ImageSteps:
        """Returns the steps. Raises `ValueError` if the file does not determine them."""
        return ImageSteps(
            resize=self._resize() if self.do_resize else None,
            crop=self._crop(),
            filter=self.resample,
            scale=self.rescale_factor if self.do_rescale else 1.0,
            mean=self.image_mean if self.do_normalize else (0.0,),
            std=self.image_std if self.do_normalize else (1.0,),
        )

    def _resize(self) -> Cover | Stretch:
        edge = self._shortest_edge()
        if edge is None:
            return Stretch(*_both(self.size))
        if self.crop_pct is None:
            return Cover(edge, edge)
        if edge >= STRETCHED_FROM:
            return Stretch(edge, edge)
        resized = int(edge / self.crop_pct)
        return Cover(resized, resized)

    def _shortest_edge(self) -> int | None:
        """The size an image's shorter edge gets, where its proportions are kept."""
        if not isinstance(self.size, int):
            return self.size.shortest_edge
        return self.size if self.do_center_crop or self.crop_pct is not None else None

    def _crop(self) -> Middle | None:
        edge = self._shortest_edge()
        if self.do_resize and self.crop_pct is not None and edge is not None:
            return Middle(edge, edge, rounds_down=True)
        if not self.do_center_crop:
            return None
        height, width = _both(self.size if self.crop_size is None else self.crop_size)
        return Middle(height, width, rounds_down=True)


def _both(size: int | Sizes) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    if size.height is None or size.width is None:
        raise ValueError("a size has neither a shortest edge nor a height and a width")
    return size.height, size.width


class SoundConfig(_Config):
    """The keys that say what is done with a sound; all but two can only be Whisper's."""

    feature_size: Positive = 80
    chunk_length: Annotated[int, Field(ge=1, le=3600)] = 30
    sampling_rate: int = RATE
    hop_length: int = HOP
    n_fft: int = WINDOW
    padding_side: str = "right"
    padding_value: float = 0.0

    def check(self) -> None:
        """Raise `ValueError` where the file asks for another spectrogram than ours."""
        ours = {
            "sampling_rate": RATE,
            "hop_length": HOP,
            "n_fft": WINDOW,
            "padding_side": "right",
            "padding_value": 0.0,
        }
        for key, value in ours.items():
            found = cast("object", getattr(self, key))
            if found != value:
                raise ValueError(f"`{key}` is {found}, and only {value} is done here")


def find(weights: Path) -> Path | None:
    """The file in the folder of some weights, if there is one."""
    folder = weights if weights.is_dir() else weights.parent
    path = folder / NAME
    return path if path.is_file() else None


def image_steps(path: Path) -> ImageSteps:
    """Returns the steps of a file for images. Raises `ProblemError`."""
    config = _read(path, ImageConfig)
    try:
        return config.steps()
    except ValueError as error:
        raise ProblemError(UnreadableFile(path, str(error))) from None


def sound_config(path: Path) -> SoundConfig:
    """Returns the config of a file for sounds. Raises `ProblemError`."""
    config = _read(path, SoundConfig)
    try:
        config.check()
    except ValueError as error:
        raise ProblemError(UnreadableFile(path, str(error))) from None
    return config


LONGEST = 1
"""Mebibytes of a file that says what is done with inputs."""

C = TypeVar("C", bound=_Config)


def _read(path: Path, kind: type[C]) -> C:
    try:
        content = cast("object", json.loads(read_bytes(path, LONGEST)))
        config = kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        raise ProblemError(UnreadableFile(path, f"`{location}`: {first['msg']}")) from None
    except TooLongError as error:
        raise ProblemError(UnreadableFile(path, str(error))) from None
    except OSError as error:
        raise ProblemError(UnreadableFile(path, error.strerror or str(error))) from None
    except (ValueError, RecursionError) as error:
        raise ProblemError(UnreadableFile(path, f"it is not JSON: {error}")) from None
    unknown = _asked_for(config.model_extra or {})
    if unknown:
        raise ProblemError(UnreadableFile(path, f"it asks for `{unknown}`, which is not done here"))
    return config


def _asked_for(extra: Mapping[str, object]) -> str:
    """The first key that is set and not known, if there is one."""
    unset = (None, False, 0.0)
    asked = (key for key, value in extra.items() if key not in HARMLESS and value not in unset)
    return next(asked, "")
