"""Tensors as one picture: a batch of images in rows, the elements 0 black and 1 white."""

from math import ceil, isqrt
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import numpy as np

from meganeura_runtime.io.files.atomic_write import replacing
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.support.optional_imports import load

SUFFIX = ".png"
SMALLEST_SIDE = 32
"""Pixels of the shorter side of an image; a smaller one is enlarged by a whole number."""
GAP = 4
"""Grey pixels around each image."""
GREY = 128


class _Picture(Protocol):
    """The part of `PIL.Image.Image` that is used here."""

    def save(self, file: BinaryIO, format: str, *, optimize: bool) -> None: ...  # noqa: A002


class _Pictures(Protocol):
    """The part of `PIL.Image` that is used here."""

    def fromarray(self, array: Array) -> _Picture: ...


def is_pictures(values: Array) -> bool:
    """True if a tensor is a batch of images in grey or colour: floats [n, 1, h, w] or [n, 3, h, w].

    Booleans are black and white, whole numbers are no images.
    """
    kinds = np.issubdtype(values.dtype, np.floating) or values.dtype == np.bool_
    return bool(kinds) and values.ndim == 4 and values.shape[1] in (1, 3)


def picture_grid(values: Array) -> Array:
    """A batch [n, c, h, w] as u8[height, width, c]; elements below 0 or above 1 are cut off.

    There are as many columns as rows, or up to two more.
    """
    count, colors, height, width = values.shape
    scale = ceil(SMALLEST_SIDE / min(height, width))
    rows = isqrt(count)
    columns = ceil(count / rows)
    shades = np.rint(np.clip(np.nan_to_num(values.astype(np.float64)), 0, 1) * 255).astype(np.uint8)
    large = np.moveaxis(shades, 1, 3).repeat(scale, axis=1).repeat(scale, axis=2)
    tall, wide = height * scale + GAP, width * scale + GAP
    grid = np.full((rows * tall + GAP, columns * wide + GAP, colors), GREY, np.uint8)
    for number in range(count):
        top, left = GAP + number // columns * tall, GAP + number % columns * wide
        grid[top : top + tall - GAP, left : left + wide - GAP] = large[number]
    return grid


def write_pictures(path: Path, values: Array) -> None:
    """Write a batch of images as one PNG; raises `ProblemError`, as without the extra `images`."""
    pil = cast("_Pictures", load("PIL.Image", "images", "write pictures"))
    grid = picture_grid(values)
    picture = pil.fromarray(grid[:, :, 0] if grid.shape[2] == 1 else grid)
    with replacing(path) as partial, partial.open("wb") as file:
        picture.save(file, "PNG", optimize=True)
