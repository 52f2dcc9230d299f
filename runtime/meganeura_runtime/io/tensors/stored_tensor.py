"""A tensor of a file and its way to a type that graphs compute with.

Files hold more types than graphs do. A stored value is read exactly (integers), rounded to the
nearest (floats), or refused with its index.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.quantization import Quantization
from meganeura_dsl.ir.types import DType
from meganeura_runtime.io.files.file_problems import NotFinite, OutOfRange
from meganeura_runtime.io.tensors.file_array import Array, InFile, Rows, RowSource
from meganeura_runtime.io.tensors.open_file import OpenFile

BITS: dict[str, np.dtype[np.generic]] = {
    "f64": np.dtype("<f8"),
    "f32": np.dtype("<f4"),
    "f16": np.dtype("<f2"),
    "bf16": np.dtype("<u2"),
    "i64": np.dtype("<i8"),
    "i32": np.dtype("<i4"),
    "i16": np.dtype("<i2"),
    "i8": np.dtype("i1"),
    "u64": np.dtype("<u8"),
    "u32": np.dtype("<u4"),
    "u16": np.dtype("<u2"),
    "u8": np.dtype("u1"),
    "bool": np.dtype("u1"),
}
"""The encoding of each type in a file; bf16 is the upper half of an f32; a bool is one byte."""

KINDS = {"f8": "f64", "f4": "f32", "f2": "f16", "b1": "bool"} | {
    f"{kind}{width}": f"{kind}{8 * width}" for kind in "iu" for width in (1, 2, 4, 8)
}
"""NumPy's kind and width of a type, and its name here."""

NUMPY: dict[DType, np.dtype[np.generic]] = {
    DType.F32: np.dtype(np.float32),
    DType.F16: np.dtype(np.float16),
    DType.I32: np.dtype(np.int32),
    DType.U32: np.dtype(np.uint32),
    DType.BOOL: np.dtype(np.bool_),
}
"""The encoding of each type of a graph in memory."""

CHUNK_BYTES = 1 << 24
"""Bytes that are checked in one piece."""


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """One tensor of a file. Its bits may stay in the file until they are read."""

    file: Path
    name: str
    stored: str
    """A key of `BITS`."""
    content: Array | RowSource
    quantization: Quantization | None = None
    """Its levels, if it lies in the file as numbers of a few bits."""

    @property
    def bits(self) -> Array:
        """All of it; raises `ProblemError` if the file has changed since it was opened."""
        return self.content if isinstance(self.content, np.ndarray) else self.content.all()

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, as the file has them."""
        return self.content.shape

    @property
    def is_float(self) -> bool:
        """True if the file holds real numbers."""
        return self.stored in ("f64", "f32", "f16", "bf16")

    @property
    def kind(self) -> str:
        """The kind of its numbers in the file: `f32`, `4-bit`."""
        return self.stored if self.quantization is None else f"{self.quantization.bits}-bit"

    def __str__(self) -> str:
        return f"{self.kind}[{', '.join(map(str, self.shape))}]"


def read(tensor: StoredTensor, dtype: DType, rows: Rows = slice(None)) -> Array:
    """The values, or some rows of them, as a type of graphs; `verify` says if all of them fit."""
    bits = tensor.bits if tensor.content.ndim == 0 else tensor.content[rows]
    return _converted(tensor.stored, bits, dtype, copy=isinstance(tensor.content, np.ndarray))


def verify(tensor: StoredTensor, dtype: DType) -> None:
    """Raise `ProblemError` at the first value that is not finite or that `dtype` cannot hold.

    A stored bool that is neither 0 nor 1 is refused for every `dtype`.
    """
    if not tensor.is_float and _holds_all(tensor.stored, dtype):
        return
    for start, bits in chunks(tensor.content):
        values = _values(tensor.stored, bits)
        if tensor.is_float:
            _refuse_first(tensor, start, values, np.isfinite(values), None)
        if not _holds_all(tensor.stored, dtype):
            target = DType.BOOL if tensor.stored == "bool" else dtype
            _refuse_first(tensor, start, values, _fits(values, target), target)


def read_verified(tensor: StoredTensor, dtype: DType, rows: Rows = slice(None)) -> Array:
    """The values, or some rows, as a type of graphs; raises `ProblemError` if one does not fit.

    An index in the problem is that of the whole tensor.
    """
    bits = tensor.bits if tensor.content.ndim == 0 else tensor.content[rows]
    held = replace(tensor, content=bits)
    try:
        verify(held, dtype)
    except ProblemError as error:
        match error.problem:
            case (NotFinite() | OutOfRange()) as problem if problem.index:
                first, *rest = problem.index
                index = (int(np.arange(len(tensor.content))[rows][first]), *rest)
                raise ProblemError(replace(problem, index=index)) from None
            case _:
                raise
    return _converted(held.stored, bits, dtype, copy=isinstance(tensor.content, np.ndarray))


def _converted(stored: str, bits: Array, dtype: DType, *, copy: bool) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(_values(stored, bits).astype(NUMPY[dtype], copy=copy))


def _values(stored: str, bits: Array) -> Array:
    """Bits as numbers: the shift puts a bf16 where an f32 has its upper half."""
    if stored == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return bits


def _holds_all(stored: str, dtype: DType) -> bool:
    """True if every integer, or every finite float, of a stored type is one of the graph's type.

    The bits of a bf16 count as u16, which f32 holds, as it does all bf16, and f16 neither.
    """
    return stored != "bool" and np.can_cast(BITS[stored], NUMPY[dtype], "safe")


def chunks(content: Array | RowSource) -> Iterator[tuple[int, Array]]:
    """Runs of whole rows, each with the number of its first row."""
    if content.ndim == 0:
        yield 0, (content if isinstance(content, np.ndarray) else content.all()).reshape(1)
        return
    row_bytes = max(1, content.itemsize * prod(content.shape[1:]))
    step = max(1, CHUNK_BYTES // row_bytes)
    for start in range(0, len(content), step):
        yield start, content[start : start + step]


def _fits(values: Array, dtype: DType) -> NDArray[np.bool_]:
    """Returns a bool for each value: true if it survives the change of type."""
    target = NUMPY[dtype]
    if dtype is DType.BOOL:
        return (values == 0) | (values == 1)
    with np.errstate(over="ignore", invalid="ignore"):
        converted = values.astype(target)
        if np.issubdtype(values.dtype, np.floating):
            return np.isfinite(converted)
        # A number that wrapped around may come back, but not with its own sign.
        returned = np.equal(converted.astype(values.dtype), values)
        return returned & (np.less(converted, 0) == np.less(values, 0))


def _refuse_first(
    tensor: StoredTensor,
    start: int,
    values: Array,
    right: NDArray[np.bool_],
    dtype: DType | None,
) -> None:
    """Raise for the first value not marked as right: not finite, or not fit for `dtype`."""
    if right.all():
        return
    within = np.unravel_index(int(right.argmin()), right.shape)
    value = str(values[within])
    first, *rest = (int(axis) for axis in within)
    index = (first + start, *rest) if tensor.content.ndim else ()
    if dtype is None:
        raise ProblemError(NotFinite(tensor.file, tensor.name, index, value))
    raise ProblemError(
        OutOfRange(tensor.file, tensor.name, index, value, tensor.stored, dtype.value)
    )


# --- of arrays -----------------------------------------------------------------------------------


def stored_array(path: Path, name: str, values: Array) -> StoredTensor:
    """An array as a tensor of a file; raises `ValueError` for a type that no graph has."""
    stored = _kind(name, values.dtype)
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return StoredTensor(path, name, stored, little.view(BITS[stored]))


def stored_in_file(
    file: OpenFile, name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...], offset: int
) -> StoredTensor:
    """An array that lies in a file in row-major order; raises `ValueError` as `stored_array`."""
    stored = _kind(name, dtype)
    return StoredTensor(file.path, name, stored, InFile(file, offset, dtype, BITS[stored], shape))


def _kind(name: str, dtype: np.dtype[np.generic]) -> str:
    kind = f"{dtype.kind}{dtype.itemsize}"
    if kind not in KINDS:
        raise ValueError(f"`{name}` has the type {dtype}, which is not read here")
    return KINDS[kind]
