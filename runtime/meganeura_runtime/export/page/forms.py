"""The form of each input in a page: a picture, a sound, a text or numbers.

The steps from a picture or a sound to a tensor are those of `meganeura run`, as data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from meganeura_dsl.ir.index_checks import Bound
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_runtime.io.preprocess.images import Cover, ImageSteps, Middle
from meganeura_runtime.io.preprocess.input_transforms import Choices, usual_steps

BYTES = 256
"""The number of values of an integer input that is taken for the bytes of a text."""
MELS = (80, 128)
"""Heights of the spectrograms that a sound becomes."""


@dataclass(frozen=True)
class Size:
    """Pixels of a picture that is resized to cover them, or stretched to them."""

    height: int
    width: int
    covers: bool


@dataclass(frozen=True)
class Crop:
    """The middle of a picture that is kept; half a pixel goes down, or to the even side."""

    height: int
    width: int
    roundsDown: bool  # noqa: N815 - a name of the page


@dataclass(frozen=True)
class PictureForm:
    """A picture, and its way to a tensor."""

    colors: int
    resize: Size | None
    crop: Crop
    filter: str
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    kind: Literal["picture"] = "picture"


@dataclass(frozen=True)
class SoundForm:
    """A sound, as a log-mel spectrogram."""

    mels: int
    frames: int
    kind: Literal["sound"] = "sound"


@dataclass(frozen=True)
class BytesForm:
    """A text, as its bytes."""

    kind: Literal["bytes"] = "bytes"


@dataclass(frozen=True)
class TokensForm:
    """A text, as the tokens of the page's tokenizer."""

    kind: Literal["tokens"] = "tokens"


@dataclass(frozen=True)
class MaskForm:
    """The mask of the tokens of another input that are those of a text."""

    of: str
    kind: Literal["mask"] = "mask"


@dataclass(frozen=True)
class NumbersForm:
    """Numbers that are typed, or come from a file."""

    kind: Literal["numbers"] = "numbers"


InputForm = PictureForm | SoundForm | BytesForm | TokensForm | MaskForm | NumbersForm


def input_forms(
    inputs: Mapping[str, TensorType],
    bounds: Mapping[str, Bound],
    choices: Choices,
    white: float | None = None,
    *,
    tokens: int = 0,
    batches: bool = False,
) -> dict[str, InputForm]:
    """The form of each input; a text is read by a tokenizer that has so many `tokens`.

    `white` is what a white pixel becomes before it is normalised, 1 where nothing is said. Inputs
    of one example are given by hand; with `batches` those of a batch are, one example at a time.
    """
    forms = {
        name: _form(wanted, bounds.get(name), choices, white, batches)
        for name, wanted in inputs.items()
    }
    return forms | (_of_text(inputs, bounds, tokens) if tokens else {})


def _of_text(
    inputs: Mapping[str, TensorType], bounds: Mapping[str, Bound], tokens: int
) -> dict[str, InputForm]:
    """The forms of the input that takes tokens and of its mask; none where there is no mask."""
    for mask, of in inputs.items():
        if of.dtype is not DType.BOOL or of.rank != 2 or of.shape[0] != 1:
            continue
        for name, wanted in inputs.items():
            bound = bounds.get(name)
            if wanted.shape == of.shape and bound is not None and bound.count >= tokens:
                return {name: TokensForm(), mask: MaskForm(name)}
    return {}


def _form(
    wanted: TensorType,
    bound: Bound | None,
    choices: Choices,
    white: float | None,
    batches: bool,  # noqa: FBT001 - passed through
) -> InputForm:
    sizes = [size for size in wanted.shape if isinstance(size, int)]
    if len(sizes) < len(wanted.shape) or not sizes or (sizes[0] != 1 and not batches):
        return NumbersForm()
    picture = choices.image_steps(wanted)
    if picture is not None:
        _, _, height, width = sizes
        return _picture(picture.colors, picture.steps, height, width, white)
    sound = choices.sound_form(wanted)
    if sound is not None and sound.mels in MELS:
        return SoundForm(sound.mels, sound.frames)
    is_text = wanted.dtype.is_integer and wanted.rank == 2
    if is_text and bound is not None and bound.count == BYTES:
        return BytesForm()
    return NumbersForm()


def _picture(
    colors: int, steps: ImageSteps, height: int, width: int, white: float | None
) -> PictureForm:
    """The steps to a picture of the size that a plan has, whatever size the steps are for."""
    if white is not None:
        steps = replace(steps, scale=white / 255)
    shown = steps.crop or steps.resize
    if shown is None or (shown.height, shown.width) != (height, width):
        usual = usual_steps(height, width, colors)
        steps = replace(steps, resize=usual.resize, crop=usual.crop)
    resize, crop = steps.resize, steps.crop or Middle(height, width)
    return PictureForm(
        colors,
        None
        if resize is None
        else Size(resize.height, resize.width, covers=isinstance(resize, Cover)),
        Crop(crop.height, crop.width, crop.rounds_down),
        steps.filter.name.lower(),
        steps.scale,
        steps.mean,
        steps.std,
    )
