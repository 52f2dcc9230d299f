"""IDX, the format of MNIST and its kin, as it is or packed by gzip.

Two zero bytes, a byte for the type, one for the rank, then each size and all values, the first byte
of each the most significant. Format: http://yann.lecun.com/exdb/mnist/ ("the IDX file format")
"""

import gzip
import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import BinaryIO
from zlib import error as ZlibError  # noqa: N812 - zlib names its exception like a function

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.support.regular_files import opened
from meganeura_runtime.io.data.numpy_files import LARGEST_UNPACKED
from meganeura_runtime.io.files.file_problems import NoSuchFile, UnreadableFile
from meganeura_runtime.io.tensors.open_file import OpenFile
from meganeura_runtime.io.tensors.shape_mismatch import claimed_elements
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor, stored_array, stored_in_file

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""The type byte, and NumPy's name of the type."""

LONGEST_HEADER = 4 + 4 * 255
"""Bytes of the type, the rank and the sizes."""

IDX_NAME = re.compile(r"(?P<stem>.+?)[-.]idx\d*(-[a-z]+)?(\.gz)?")

MNIST_NAME = re.compile(r"(?:.*-)?(?P<split>train|t10k|test)-(?P<kind>images|labels)")
SPLITS = {"train": "train", "t10k": "test", "test": "test"}
KINDS = {"images": "image", "labels": "label"}


def is_idx(path: Path) -> bool:
    """True if a name is one that IDX files have, such as `train-images-idx3-ubyte.gz`."""
    return IDX_NAME.fullmatch(path.name) is not None


def read_idx(path: Path) -> StoredTensor:
    """The tensor of a file; MNIST's four are called `train.image`, `train.label` and so on.

    Raises `ProblemError`.
    """
    try:
        return _unpack(path) if path.suffix == ".gz" else _in_place(path)
    except FileNotFoundError:
        raise ProblemError(NoSuchFile(path)) from None
    except (OSError, EOFError, ZlibError, ValueError) as error:
        raise ProblemError(UnreadableFile(path, str(error))) from None


def tensor_name(path: Path) -> str:
    """Returns the name of the tensor of a file."""
    named = IDX_NAME.fullmatch(path.name)
    stem = path.stem if named is None else named["stem"]
    known = MNIST_NAME.fullmatch(stem)
    return stem if known is None else f"{SPLITS[known['split']]}.{KINDS[known['kind']]}"


def _in_place(path: Path) -> StoredTensor:
    file = OpenFile(path)
    start = BytesIO(file.read(0, min(file.size, LONGEST_HEADER)))
    dtype, shape = _header(start)
    _check_length(_claimed(shape, dtype), file.size - start.tell())
    return stored_in_file(file, tensor_name(path), dtype, shape, start.tell())


def _unpack(path: Path) -> StoredTensor:
    with opened(path) as packed, gzip.open(packed) as file:
        dtype, shape = _header(file)
        claimed = _claimed(shape, dtype)
        if claimed > LARGEST_UNPACKED:
            raise ValueError(f"it claims to unpack to {claimed:,} bytes")
        content = file.read(claimed + 1)
    _check_length(claimed, len(content))
    return stored_array(path, tensor_name(path), np.frombuffer(content, dtype).reshape(shape))


def _header(file: BinaryIO | gzip.GzipFile) -> tuple[np.dtype[np.generic], tuple[int, ...]]:
    """The type and the shape; the file is left at its first value."""
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in TYPES or not magic[3]:
        raise ValueError(f"it starts with {magic.hex(' ') or 'nothing'}; this is no IDX file")
    sizes = file.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise ValueError("it ends inside its header: it was cut short")
    shape = tuple(int(size) for size in np.frombuffer(sizes, ">u4"))
    return np.dtype(TYPES[magic[2]]), shape


def _claimed(shape: Sequence[int], dtype: np.dtype[np.generic]) -> int:
    """Bytes of all values; raises `ValueError` for a shape that no array can have."""
    try:
        return claimed_elements(shape) * dtype.itemsize
    except ValueError as error:
        raise ValueError(f"its header {error}") from None


def _check_length(claimed: int, available: int) -> None:
    if claimed != available:
        more = "more" if available > claimed else f"{available:,}"
        raise ValueError(f"its header claims {claimed:,} bytes, and {more} follow")
