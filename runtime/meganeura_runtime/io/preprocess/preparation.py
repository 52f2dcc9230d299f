"""The preparation of trained weights' inputs, and their classes.

Training writes it into the metadata of its weights, and whatever uses the weights reads it there:
`meganeura run`, pages, compiled models, ONNX files and Python. Each entry is a JSON text:

    meganeura.classes    ["cat", "dog"], the names of the classes by number
    meganeura.image      colors, height, width, resize, crop, filter, scale, mean and std
    meganeura.sound      sample_rate in Hz, mels and frames of the log-mel spectrogram
    meganeura.tokenizer  "bytes", or the SHA-256 of a tokenizer.json
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.preprocess.images import Cover, Filter, ImageSteps, Middle, Stretch
from meganeura_runtime.io.preprocess.mel import RATE
from meganeura_runtime.io.tensors.safetensors_file import read_metadata

CLASSES = "meganeura.classes"
IMAGE = "meganeura.image"
SOUND = "meganeura.sound"
TOKENIZER = "meganeura.tokenizer"
ENTRIES = (CLASSES, IMAGE, SOUND, TOKENIZER)
BYTES = "bytes"
"""The entry of a tokenizer where each byte of a text is a token."""

MOST_CLASSES = 1_000_000
LARGEST = 65_535
"""Pixels of a side, and frames of a spectrogram."""

Length = Annotated[int, Field(ge=1, le=LARGEST)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Spread = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Colors = Annotated[tuple[Number, ...], Field(min_length=1, max_length=3)]
Spreads = Annotated[tuple[Spread, ...], Field(min_length=1, max_length=3)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Resize(_Entry):
    """Keep the proportions and cover these pixels, or stretch to them."""

    height: Length
    width: Length
    keeps_proportions: bool


class _Crop(_Entry):
    height: Length
    width: Length
    rounds_down: bool = False


class ImagePreparation(_Entry):
    """The preparation of an image file as floats [colors, height, width]."""

    colors: Literal[1, 3]
    height: Length
    width: Length
    resize: _Resize | None
    crop: _Crop | None
    filter: Literal["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]
    scale: Spread
    mean: Colors
    std: Spreads

    @staticmethod
    def of(colors: int, height: int, width: int, steps: ImageSteps) -> "ImagePreparation":
        """The entry for images of one size that are prepared by these steps."""
        resize, crop = steps.resize, steps.crop
        return ImagePreparation.model_validate(
            {
                "colors": colors,
                "height": height,
                "width": width,
                "resize": resize
                and {
                    "height": resize.height,
                    "width": resize.width,
                    "keeps_proportions": isinstance(resize, Cover),
                },
                "crop": crop
                and {
                    "height": crop.height,
                    "width": crop.width,
                    "rounds_down": crop.rounds_down,
                },
                "filter": steps.filter.name.lower(),
                "scale": steps.scale,
                "mean": steps.mean,
                "std": steps.std,
            }
        )

    @property
    def steps(self) -> ImageSteps:
        """The steps of preparing an image."""
        resize = None
        if self.resize is not None:
            kind = Cover if self.resize.keeps_proportions else Stretch
            resize = kind(self.resize.height, self.resize.width)
        crop = self.crop and Middle(self.crop.height, self.crop.width, self.crop.rounds_down)
        name = Filter[self.filter.upper()]
        return ImageSteps(resize, crop, name, self.scale, self.mean, self.std)


class SoundPreparation(_Entry):
    """The preparation of a sound file as a log-mel spectrogram, floats [mels, frames]."""

    sample_rate: Literal[16_000] = RATE
    mels: Annotated[int, Field(ge=1, le=4096)]
    frames: Length

    @property
    def shape(self) -> str:
        """The size that sounds become, as text: `80 x 3,000` mels and frames."""
        return f"{self.mels} x {self.frames:,}"


@dataclass(frozen=True)
class Preparation:
    """The inputs and classes that weights were trained on, as stored in them.

    Empty fields if not.
    """

    classes: tuple[str, ...] = ()
    image: ImagePreparation | None = None
    sound: SoundPreparation | None = None
    tokenizer: str | None = None
    """`bytes`, or the SHA-256 of a tokenizer.json in hexadecimal digits."""

    @property
    def entries(self) -> dict[str, str]:
        """The entries of the metadata of weights."""
        found = {
            CLASSES: _NAMES.dump_json(self.classes).decode() if self.classes else None,
            IMAGE: self.image and self.image.model_dump_json(),
            SOUND: self.sound and self.sound.model_dump_json(),
            TOKENIZER: self.tokenizer and _TEXT.dump_json(self.tokenizer).decode(),
        }
        return {key: text for key, text in found.items() if text}

    def differences(self, other: "Preparation") -> Iterator[str]:
        """Yields the differences of two preparations, as far as both are stored."""
        if self.image and other.image and self.image != other.image:
            yield f"images {self.image.steps}, and here {other.image.steps}"
        if self.sound and other.sound and self.sound != other.sound:
            yield f"sounds as log-mel {self.sound.shape}, and here {other.sound.shape}"
        if self.tokenizer and other.tokenizer and self.tokenizer != other.tokenizer:
            yield "texts of another tokenizer"

    @staticmethod
    def of(file: Path, metadata: Mapping[str, str]) -> "Preparation":
        """Returns the preparation in a file's metadata.

        Raises `ProblemError` if it cannot be read.
        """
        found: dict[str, object] = {}
        adapters: Mapping[str, TypeAdapter[object]] = {
            CLASSES: _NAMES,
            IMAGE: _IMAGE,
            SOUND: _SOUND,
            TOKENIZER: _TEXT,
        }
        for key, adapter in adapters.items():
            if key not in metadata:
                continue
            try:
                found[key.rpartition(".")[2]] = adapter.validate_json(metadata[key])
            except ValidationError as error:
                first = error.errors()[0]
                location = ".".join(map(str, (key, *first["loc"])))
                reason = f"`{location}` of its metadata: {first['msg']}"
                raise ProblemError(UnreadableFile(file, reason)) from None
        return Preparation(**found)  # pyright: ignore[reportArgumentType] - as the adapters say


NOTHING = Preparation()
_NAMES: TypeAdapter[object] = TypeAdapter(
    Annotated[tuple[str, ...], Field(min_length=1, max_length=MOST_CLASSES)]
)
_IMAGE: TypeAdapter[object] = TypeAdapter(ImagePreparation)
_SOUND: TypeAdapter[object] = TypeAdapter(SoundPreparation)
_TEXT: TypeAdapter[object] = TypeAdapter(Annotated[str, Field(pattern="^(bytes|[0-9a-f]{64})$")])


def preparation_of(files: Iterable[Path]) -> Preparation:
    """Returns the preparation of the first file that has one. Raises `ProblemError`."""
    for file in files:
        for path in _tensor_files(file):
            found = Preparation.of(path, read_metadata(path))
            if found != NOTHING:
                return found
    return NOTHING


def _tensor_files(path: Path) -> Sequence[Path]:
    """The file itself, or those of a folder that weights are looked for in."""
    names = ("model.safetensors", "weights.safetensors")
    candidates = [path / name for name in names] if path.is_dir() else [path]
    return [each for each in candidates if each.suffix == ".safetensors" and each.is_file()][:1]


def tokenizer_digest(content: bytes) -> str:
    """The entry for a tokenizer.json with this content."""
    return sha256(content).hexdigest()
