"""The transforms of images and sounds, from all sources of settings.

The command line comes first, then what the weights say of their training, then
`preprocessor_config.json` beside them, then the sizes that the model demands, then what is usual
for ImageNet and Whisper.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.size import Size
from meganeura_runtime.io.preprocess import preprocessor_config
from meganeura_runtime.io.preprocess.images import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Cover,
    Filter,
    ImageSteps,
    Middle,
    Stretch,
)
from meganeura_runtime.io.preprocess.mel import HOP, RATE
from meganeura_runtime.io.preprocess.preparation import NOTHING, Preparation

IMAGE_SIZE = 224
CROP = 0.875
"""The share of a resized image's edge that ImageNet's networks are shown."""

TRAINED = "prepared as in training, which the weights say"

MELS = 80
CHUNK_SECONDS = 30.0


@dataclass(frozen=True)
class ImageInput:
    """The conversion of images for one input."""

    colors: int
    steps: ImageSteps


@dataclass(frozen=True)
class Sounds:
    """The size of the spectrograms for one input."""

    mels: int
    frames: int


@dataclass(frozen=True)
class Choices:
    """Choices of the command line, `None` if not given, and the file beside the weights."""

    size: int | None = None
    crop: float | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    filter: Filter | None = None
    seconds: float | None = None
    config: Path | None = None
    prepared: Preparation = NOTHING
    """The preparation in the weights, which comes before `config`."""

    @property
    def for_images(self) -> tuple[str, ...]:
        """The options given that say how images are read."""
        said = {
            "--image-size": self.size,
            "--crop": self.crop,
            "--mean": self.mean,
            "--std": self.std,
            "--resample": self.filter,
        }
        return tuple(option for option, value in said.items() if value is not None)

    @property
    def for_sounds(self) -> tuple[str, ...]:
        """The options given that say how sounds are read."""
        return () if self.seconds is None else ("--seconds",)

    def image_steps(self, wanted: TensorType) -> ImageInput | None:
        """Returns the conversion of an image to the type of an input; `None` if there is none."""
        if not wanted.dtype.is_float or len(wanted.shape) != 4:
            return None
        _, first, height, width = wanted.shape
        colors = first if isinstance(first, int) else 3
        if colors not in (1, 3):
            return None
        recorded = self._recorded_steps(colors)
        steps = recorded or usual_steps(height, width, colors)
        if self.size is not None and self.crop is None and recorded is not None:
            steps = scaled(steps, self.size)
        elif self.size is not None:
            steps = resized(steps, self.size, self.size, self.crop or CROP)
        elif self.crop is not None:
            steps = resized(steps, *shown_size(steps), self.crop)
        chosen = replace(
            steps,
            mean=self.mean or steps.mean,
            std=self.std or steps.std,
            filter=self.filter or steps.filter,
        )
        return ImageInput(colors, chosen)

    def _recorded_steps(self, colors: int) -> ImageSteps | None:
        """The steps that the weights say, or else the file beside them."""
        prepared = self.prepared.image
        if prepared is not None and prepared.colors == colors:
            return prepared.steps
        return None if self.config is None else preprocessor_config.image_steps(self.config)

    def image_source(self, colors: int) -> str:
        """The origin of the steps of an image, and the options that differ, as text."""
        prepared = self.prepared.image
        if prepared is not None and prepared.colors == colors:
            origin = TRAINED
        elif self.config is not None:
            origin = f"as told by {self.config}"
        else:
            origin = "the weights do not say how images were prepared: taken as usual"
        return f"{origin}, but for {' '.join(self.for_images)}" if self.for_images else origin

    @property
    def sound_source(self) -> str | None:
        """The origin of the size of spectrograms, as text; `None` if it is the usual one."""
        if self.prepared.sound is not None:
            return TRAINED
        return None if self.config is None else f"as told by {self.config}"

    def sound_form(self, wanted: TensorType) -> Sounds | None:
        """The spectrogram an input wants; `None` if it wants none."""
        if not wanted.dtype.is_float or len(wanted.shape) != 3:
            return None
        config = None if self.config is None else preprocessor_config.sound_config(self.config)
        _, mels, frames = wanted.shape
        prepared = self.prepared.sound
        if not isinstance(mels, int):
            usual = MELS if config is None else config.feature_size
            mels = usual if prepared is None else prepared.mels
        if isinstance(frames, int):
            return Sounds(mels, frames)
        if prepared is not None and prepared.mels == mels and self.seconds is None:
            return Sounds(mels, prepared.frames)
        length = CHUNK_SECONDS if config is None else config.chunk_length
        seconds = length if self.seconds is None else self.seconds
        return Sounds(mels, max(1, round(seconds * RATE) // HOP))


def usual_steps(height: Size, width: Size, colors: int) -> ImageSteps:
    """Returns torchvision's steps for ImageNet, or the whole image in a required size."""
    mean, std = (IMAGENET_MEAN, IMAGENET_STD) if colors == 3 else ((0.0,), (1.0,))
    steps = ImageSteps(None, None, Filter.BILINEAR, 1 / 255, mean, std)
    if isinstance(height, int) and isinstance(width, int):
        return resized(steps, height, width, 1.0)
    return resized(steps, IMAGE_SIZE, IMAGE_SIZE, CROP)


def resized(steps: ImageSteps, height: int, width: int, crop: float) -> ImageSteps:
    """The same steps for another crop, which is a share of the resized image."""
    cover = Cover(int(height / crop), int(width / crop))
    return replace(steps, resize=cover, crop=Middle(height, width))


def scaled(steps: ImageSteps, edge: int) -> ImageSteps:
    """The same steps for a square of `edge` pixels, of which the crop keeps the same share."""
    resize, crop = steps.resize, steps.crop
    if isinstance(resize, Stretch) and crop is None:
        return replace(steps, resize=Stretch(edge, edge))
    if resize is None or crop is None:
        return resized(steps, edge, edge, 1.0)
    height, width = resize.height * edge / crop.height, resize.width * edge / crop.width
    resize = replace(resize, height=round(height), width=round(width))
    return replace(steps, resize=resize, crop=replace(crop, height=edge, width=edge))


def shown_size(steps: ImageSteps) -> tuple[int, int]:
    """Returns the height and width in pixels that the network is shown."""
    shown = steps.crop or steps.resize
    return (IMAGE_SIZE, IMAGE_SIZE) if shown is None else (shown.height, shown.width)
