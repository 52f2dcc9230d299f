"""Arrays as pictures: a sheet of several, and the bytes of a PNG file."""

import struct
import zlib
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from meganeura_runtime.io.tensors.stored_tensor import Array

GAP = 1
"""Pixels between two pictures."""


def sheet(pictures: list[Array]) -> NDArray[np.uint8]:
    """Pictures of one size side by side, in rows: `[height, width, 3]`.

    Each is `[h, w]`, `[c, h, w]` or `[h, w, c]` with 1 or 3 channels, from 0 to 1.
    """
    drawn = [colours(each) for each in pictures]
    height, width, _ = drawn[0].shape
    columns = ceil(sqrt(len(drawn)))
    rows = ceil(len(drawn) / columns)
    size = (rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, 3)
    found = np.full(size, 128, np.uint8)
    for number, each in enumerate(drawn):
        top, left = number // columns * (height + GAP), number % columns * (width + GAP)
        found[top : top + height, left : left + width] = each
    return found


def colours(picture: Array) -> NDArray[np.uint8]:
    """A picture as bytes, `[h, w, 3]`; what is beyond 0 and 1 is black or white."""
    if picture.ndim == 2:
        picture = picture[:, :, None]
    elif picture.shape[0] in (1, 3):
        picture = picture.transpose(1, 2, 0)
    scaled = np.clip(np.nan_to_num(picture.astype(np.float64)), 0, 1) * 255
    colours = np.rint(scaled).astype(np.uint8)
    return np.broadcast_to(colours, (*colours.shape[:2], 3))


def png(pixels: NDArray[np.uint8]) -> bytes:
    """An image `[height, width, 3]` as a PNG file (W3C, 2003: 8 bits, truecolour, no filter)."""
    height, width, _ = pixels.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )
