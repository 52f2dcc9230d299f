"""NumPy's formats .npy and .npz, read without pickle and without trusting their headers."""

from dataclasses import replace
from io import BytesIO
from lzma import LZMAError
from pathlib import Path
from struct import error as StructError  # noqa: N812 - as below
from tokenize import TokenError
from typing import BinaryIO
from warnings import catch_warnings
from zipfile import BadZipFile, ZipFile, ZipInfo
from zlib import error as ZlibError  # noqa: N812 - zlib names its exception like a function

import numpy as np
from numpy.lib import format as npy

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.support.regular_files import opened
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.tensors.open_file import OpenFile
from meganeura_runtime.io.tensors.shape_mismatch import claimed_elements
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor, stored_array, stored_in_file

LARGEST_UNPACKED = 8 << 30
"""Bytes of the largest .npz, unpacked: it has to fit into memory, and might be made to hurt."""

LONGEST_HEADER = 1 << 16
"""Bytes of a header: a type, which is one word, and sizes."""

DAMAGED = (BadZipFile, LZMAError, NotImplementedError, RuntimeError, StructError, ZlibError)
"""Errors of the readers for an archive that is damaged, encrypted, or packed differently."""


def read_npy(path: Path) -> StoredTensor:
    """The one tensor of a .npy file, named like the file; raises `ProblemError`.

    Its values stay in the file. If columns come first, all of them are read, as rows lie scattered.
    """
    try:
        file = OpenFile(path)
        shape, fortran, dtype, offset = _header_of(file)
        _check_size(shape, dtype, file.size - offset)
        if not fortran or len(shape) < 2:
            return stored_in_file(file, path.stem, dtype, shape, offset)
        _check_unpacked(file.size)
        columns = stored_in_file(file, path.stem, dtype, shape[::-1], offset)
        return replace(columns, content=np.ascontiguousarray(columns.bits.T))
    except (ValueError, EOFError, OSError) as error:
        raise ProblemError(UnreadableFile(path, _reason(error))) from None


def read_npz(path: Path) -> list[StoredTensor]:
    """All tensors of a .npz file, unpacked into memory."""
    try:
        with opened(path) as file, ZipFile(file) as archive:
            members = [each for each in archive.infolist() if each.filename.endswith(".npy")]
            _check_unpacked(sum(member.file_size for member in members))
            return [_member(path, archive, member) for member in members]
    except DAMAGED as error:
        raise ProblemError(UnreadableFile(path, f"the archive is damaged: {error}")) from None
    except (ValueError, EOFError, OSError) as error:
        raise ProblemError(UnreadableFile(path, _reason(error))) from None


def _check_unpacked(size: int) -> None:
    if size > LARGEST_UNPACKED:
        raise ValueError(f"it unpacks to {size:,} bytes; a .safetensors file is read in place")


def _member(path: Path, archive: ZipFile, member: ZipInfo) -> StoredTensor:
    file = BytesIO(archive.read(member))
    shape, fortran, dtype = _header(file)
    content = file.read()
    _check_size(shape, dtype, len(content))
    values = np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")
    return stored_array(path, member.filename.removesuffix(".npy"), values)


def _header_of(file: OpenFile) -> tuple[tuple[int, ...], bool, np.dtype[np.generic], int]:
    """Shape, whether columns come first, type, and where the first value is."""
    start = BytesIO(file.read(0, min(file.size, LONGEST_HEADER + 12)))
    return *_header(start), start.tell()


def _header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Shape, whether columns come first, and type; the file is left at its first value."""
    version = npy.read_magic(file)
    _check_header(file, 2 if version == (1, 0) else 4)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    try:
        with catch_warnings(action="ignore"):  # of headers that Python 2 wrote
            shape, fortran, dtype = read(file)
    except (SyntaxError, TokenError, RecursionError, TypeError) as error:
        raise ValueError("its header cannot be read") from error
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"its header claims the shape {str(list(shape))[:80]}")
    return shape, fortran, dtype


def _check_header(file: BinaryIO, width: int) -> None:
    """The bytes that hold the length of a header, which are read again afterwards."""
    start = file.tell()
    length = int.from_bytes(file.read(width), "little")
    if length > LONGEST_HEADER:
        raise ValueError(f"its header claims to have {length:,} bytes")
    file.seek(start)


def _check_size(shape: tuple[int, ...], dtype: np.dtype[np.generic], available: int) -> None:
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which could run code")
    try:
        claimed = claimed_elements(shape) * dtype.itemsize
    except ValueError as error:
        raise ValueError(f"its header {error}") from None
    if claimed != available:
        raise ValueError(f"its header claims {claimed:,} bytes, and {available:,} follow")


def _reason(error: Exception) -> str:
    """Returns the text of an exception, or its kind if it has none."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).partition("\n")[0] or type(error).__name__
