"""Images as networks are fed them: resized, cropped to the middle, scaled and normalised.

The order and the roundings are those of torchvision's presets, which Pillow carries out. No image
takes more memory than its own pixels and `MOST_RESIZED` of a resized one.
"""

import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from math import ceil, floor
from pathlib import Path
from typing import BinaryIO, Protocol, assert_never, cast

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.support.regular_files import opened
from meganeura_runtime.io.files.file_problems import NoSuchFile, UnreadableFile
from meganeura_runtime.support.optional_imports import load

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
"""Pillow's names of their formats, whichever of the suffixes a file has. Pillow has others, and
starts Ghostscript to read one of them."""
NO_FORMAT = f"it is no {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"

MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
"""Pillow's kinds of images whose colours are bytes; the others would be cut off at 255."""

LONGEST_SIDE = 65_535
"""Pixels of the longest side an image may have, which is the longest of a JPEG."""
MOST_RESIZED = 1 << 24
"""Pixels of the largest resized image that is made whole when only its middle is kept."""
MOST_FED = 1 << 26
"""Pixels of the largest resized image that is kept whole."""
WIDEST_FILTER = 3
"""Pixels that a filter reads to each side of a point, at most: those of Lanczos."""

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class Filter(Enum):
    """The filter of resampling an image, with Pillow's number of it."""

    NEAREST = 0
    LANCZOS = 1
    BILINEAR = 2
    BICUBIC = 3
    BOX = 4
    HAMMING = 5


@dataclass(frozen=True)
class Cover:
    """Keep the proportions, and be as small as covers a rectangle."""

    height: int
    width: int

    def size(self, height: int, width: int) -> tuple[int, int]:
        """The new size; the longer side is rounded down."""
        if self.height * width >= self.width * height:  # the height decides
            return self.height, self.height * width // height
        return self.width * height // width, self.width

    def __str__(self) -> str:
        return f"resized to cover {self.height} x {self.width}"


@dataclass(frozen=True)
class Stretch:
    """Fill a rectangle, whatever that does to the proportions."""

    height: int
    width: int

    def size(self, _height: int, _width: int) -> tuple[int, int]:
        """The new size."""
        return self.height, self.width

    def __str__(self) -> str:
        return f"stretched to {self.height} x {self.width}"


@dataclass(frozen=True)
class Middle:
    """Keep a rectangle in the middle; what lies outside of the image is black."""

    height: int
    width: int
    rounds_down: bool = False
    """True if half a pixel rounds down, as in transformers; else to even, as in torchvision."""

    def corner(self, height: int, width: int) -> tuple[int, int]:
        """Its top and left."""
        spare = (height - self.height, width - self.width)
        if self.rounds_down:
            return spare[0] // 2, spare[1] // 2
        return round(spare[0] / 2), round(spare[1] / 2)

    def __str__(self) -> str:
        return f"cropped to {self.height} x {self.width}"


@dataclass(frozen=True)
class ImageSteps:
    """The steps of preparing an image, in this order."""

    resize: Cover | Stretch | None
    crop: Middle | None
    filter: Filter
    scale: float
    """The factor of the bytes 0 to 255."""
    mean: tuple[float, ...]
    """Taken away from each colour after that, or from all of them if it is one number."""
    std: tuple[float, ...]
    """The divisor of each colour, applied last."""

    def __str__(self) -> str:
        parts = [] if self.resize is None else [f"{self.resize} ({self.filter.name.lower()})"]
        parts += [] if self.crop is None else [str(self.crop)]
        parts += ["/ 255" if self.scale == 1 / 255 else f"* {self.scale:g}"]
        if any(self.mean) or any(each != 1 for each in self.std):
            parts.append(f"mean {_listed(self.mean)}, std {_listed(self.std)}")
        return ", ".join(parts)


def _listed(numbers: tuple[float, ...]) -> str:
    return " ".join(f"{each:g}" for each in numbers)


class PilImage(Protocol):
    """The part of `PIL.Image.Image` that is used here."""

    mode: str
    size: tuple[int, int]

    def convert(self, mode: str) -> "PilImage":
        """Returns the image in other colours."""
        ...

    def resize(
        self,
        size: tuple[int, int],
        resample: int,
        box: tuple[float, float, float, float] | None = None,
    ) -> "PilImage":
        """The part between left, top, right and bottom, or all, at another width and height."""
        ...

    def crop(self, box: tuple[int, int, int, int]) -> "PilImage":
        """The part between left, top, right and bottom; black outside of the image."""
        ...


@dataclass(frozen=True, eq=False)
class ReadImage:
    """An image as floats [colors, height, width], and the size it had."""

    values: NDArray[np.float32]
    height: int
    width: int


def read_image(path: Path, colors: int, steps: ImageSteps) -> ReadImage:
    """Read an image and prepare it; raises `ProblemError`."""
    image = _open(path, "L" if colors == 1 else "RGB")
    width, height = image.size
    with _explained(path):
        pixels = np.asarray(_fitted(image, steps))
    return ReadImage(_normalised(pixels, colors, steps), height, width)


def _normalised(pixels: NDArray[np.uint8], colors: int, steps: ImageSteps) -> NDArray[np.float32]:
    """Bytes [height, width, colors] as floats [colors, height, width], plane by plane."""
    by_color = pixels.reshape(*pixels.shape[:2], colors)
    found = np.empty((colors, *pixels.shape[:2]), np.float32)
    scale, mean, std = (np.array(each, np.float32) for each in (steps.scale, steps.mean, steps.std))
    for color in range(colors):
        np.multiply(by_color[:, :, color], scale, out=found[color])
        found[color] -= mean[color % len(mean)]
        found[color] /= std[color % len(std)]
    return found


def _open(path: Path, mode: str) -> PilImage:
    """The image, decoded, turned by its EXIF orientation, converted to `mode`."""
    pil = load("PIL.Image", "images", "read images")
    turned = load("PIL.ImageOps", "images", "read images").exif_transpose
    decode = cast("Callable[[BinaryIO, str, Sequence[str]], PilImage]", pil.open)
    upright = cast("Callable[[PilImage], PilImage]", turned)
    if not path.exists():
        raise ProblemError(NoSuchFile(path))
    with _explained(path), opened(path) as file, _refusing_bombs():
        image = decode(file, "r", FORMATS)
        if image.mode not in MODES:
            reason = f"its colours are of Pillow's mode {image.mode}, not bytes"
            raise ProblemError(UnreadableFile(path, reason))
        if max(image.size) > LONGEST_SIDE:
            width, height = image.size
            reason = f"it is {height} pixels high and {width} wide, more than {LONGEST_SIDE}"
            raise ProblemError(UnreadableFile(path, reason))
        return upright(image).convert(mode)


@contextmanager
def _refusing_bombs() -> Generator[None]:
    """Pillow's warning that an image unpacks to far too much counts as an error."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Image size")
        yield


@contextmanager
def _explained(path: Path) -> Generator[None]:
    """Whatever a decoder says of a damaged file becomes `ProblemError`."""
    try:
        yield
    except (OSError, ValueError, SyntaxError, EOFError, Warning) as error:
        reason = NO_FORMAT if "cannot identify" in str(error) else str(error)
        raise ProblemError(UnreadableFile(path, reason)) from None
    except Exception as error:
        if type(error).__name__ != "DecompressionBombError":
            raise
        raise ProblemError(UnreadableFile(path, str(error))) from None


def _fitted(image: PilImage, steps: ImageSteps) -> PilImage:
    """The image resized and cropped. Raises `ValueError` if it would be too large."""
    width, height = image.size
    match steps.resize:
        case None:
            return _cut(image, steps.crop)
        case Cover() | Stretch() as resize:
            new_height, new_width = resize.size(height, width)
        case _:
            assert_never(steps.resize)
    if steps.crop is not None and new_height * new_width > MOST_RESIZED:
        return _resized_middle(image, (new_height, new_width), steps.crop, steps.filter)
    if new_height * new_width > MOST_FED:
        raise ValueError(
            f"{height} x {width} pixels would become {new_height} x {new_width}, which is too many"
        )
    return _cut(image.resize((new_width, new_height), steps.filter.value), steps.crop)


@dataclass(frozen=True)
class Part:
    """The part of one resized side that a crop shows, and the pixels that it depends on.

    Of the old side, `first` to `last` are read, and `start` to `stop` within those become `pixels`
    new ones. They begin at `offset` of the crop, which is negative where the crop begins later.
    """

    first: int
    last: int
    start: float
    stop: float
    pixels: int
    offset: int


def part_of_side(old: int, new: int, corner: int, length: int) -> Part:
    """Returns the part that a crop of `length` from `corner` shows of a side resized to `new`."""
    low, high = max(corner, 0), min(corner + length, new)
    scale = old / new
    reach = ceil(WIDEST_FILTER * max(scale, 1)) + 1
    start, stop = low * scale, min(high * scale, old)
    first, last = max(floor(start) - reach, 0), min(ceil(stop) + reach, old)
    return Part(first, last, start - first, stop - first, high - low, corner - low)


def _resized_middle(
    image: PilImage, new: tuple[int, int], crop: Middle, resample: Filter
) -> PilImage:
    """Returns the crop of a resized image, without computing the rest of it.

    The pixels are those of `_cut` after `resize`, but for roundings of where a pixel lies.
    """
    width, height = image.size
    top, left = crop.corner(*new)
    down = part_of_side(height, new[0], top, crop.height)
    across = part_of_side(width, new[1], left, crop.width)
    part = image.crop((across.first, down.first, across.last, down.last))
    box = (across.start, down.start, across.stop, down.stop)
    resized = part.resize((across.pixels, down.pixels), resample.value, box)
    top, left = down.offset, across.offset
    return resized.crop((left, top, left + crop.width, top + crop.height))


def _cut(image: PilImage, crop: Middle | None) -> PilImage:
    if crop is None:
        return image
    width, height = image.size
    top, left = crop.corner(height, width)
    return image.crop((left, top, left + crop.width, top + crop.height))
