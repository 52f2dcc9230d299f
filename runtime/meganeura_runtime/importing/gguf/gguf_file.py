"""GGUF files, which are not trusted: every length is compared with what is there before it is used.

The format is described in ggml's docs/gguf.md: a header, entries of metadata, descriptions of
tensors, and their bytes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.support.regular_files import opened
from meganeura_runtime.importing.gguf.block_types import BLOCK_TYPES, NAMES, BlockType
from meganeura_runtime.io.files.file_problems import UnreadableFile

MAGIC = b"GGUF"
VERSIONS = (2, 3)
LARGEST_HEADER = 128 << 20
"""Bytes of everything before the tensors."""
MOST_ENTRIES = 4096
MOST_TENSORS = 1 << 16
MOST_ITEMS = 1 << 20
"""Items of all arrays of the metadata; the largest vocabularies have a quarter of it."""
LONGEST_NAME = 1 << 16
"""Bytes of the name of an entry or a tensor."""
MOST_AXES = 4
LARGEST_SIZE = 1 << 31
ALIGNMENT, MOST_ALIGNED = "general.alignment", 1 << 16
STRING, ARRAY, BOOL = 8, 9, 7
NUMBERS: Mapping[int, Struct] = {
    0: Struct("<B"), 1: Struct("<b"), 2: Struct("<H"), 3: Struct("<h"), 4: Struct("<I"),
    5: Struct("<i"), 6: Struct("<f"), 7: Struct("<B"), 10: Struct("<Q"), 11: Struct("<q"),
    12: Struct("<d"),
}  # fmt: skip
"""The numbers of the metadata, by their types."""


@dataclass(frozen=True)
class GgufTensor:
    """The description of a tensor."""

    name: str
    shape: tuple[int, ...]
    """The sizes, the last axis being the one whose numbers lie side by side."""
    kind: BlockType
    offset: int
    """Bytes from the start of the file."""

    @property
    def bytes(self) -> int:
        """Its length in the file."""
        return prod(self.shape) // self.kind.numbers * self.kind.bytes


@dataclass(frozen=True)
class GgufFile:
    """A file whose header was read."""

    path: Path
    metadata: Mapping[str, Any]
    """Numbers, truth values, texts and lists of them, by name."""
    tensors: Mapping[str, GgufTensor]

    def fault(self, reason: str) -> ProblemError:
        """The error that it cannot be read."""
        return ProblemError(UnreadableFile(self.path, reason))

    def blocks(self, tensor: GgufTensor) -> Array:
        """The bytes of a tensor, u8[blocks, bytes of a block]; raises `ProblemError`."""
        try:
            with opened(self.path) as file:
                file.seek(tensor.offset)
                content = file.read(tensor.bytes)
        except OSError as error:
            raise self.fault(error.strerror or str(error)) from None
        if len(content) != tensor.bytes:
            raise self.fault(f"it ends before `{tensor.name}` does")
        return np.frombuffer(content, np.uint8).reshape(-1, tensor.kind.bytes)


def read_gguf(path: Path) -> GgufFile:
    """A GGUF file within all limits, of which the tensors are not read; raises `ProblemError`."""
    try:
        with opened(path) as file:
            size = path.stat().st_size
            content = file.read(min(size, LARGEST_HEADER))
    except OSError as error:
        raise ProblemError(UnreadableFile(path, error.strerror or str(error))) from None
    reader = _Header(path, content, size)
    try:
        return reader.read()
    except _ShortError:
        whole = f"its header has more than {LARGEST_HEADER >> 20} MiB"
        raise reader.fault(whole if size > len(content) else "it is cut short") from None


class _ShortError(Exception):
    """More bytes are asked for than there are."""


class _Header:
    def __init__(self, path: Path, content: bytes, size: int) -> None:
        self._path = path
        self._content = memoryview(content)
        self._size = size
        self._at = 0
        self._items = 0

    def fault(self, reason: str) -> ProblemError:
        return ProblemError(UnreadableFile(self._path, reason))

    def read(self) -> GgufFile:
        if bytes(self._take(len(MAGIC))) != MAGIC:
            raise self.fault("it is no GGUF file")
        version = self._number(4)
        if version not in VERSIONS:
            is_big = int(version).to_bytes(4, "little") in (each.to_bytes(4) for each in VERSIONS)
            what = "it is big-endian" if is_big else f"its version is {version}"
            raise self.fault(f"{what}, and versions 2 and 3 with little-endian numbers are read")
        tensors = self._count(MOST_TENSORS, "tensors")
        entries = self._count(MOST_ENTRIES, "entries of metadata")
        metadata = self._named(entries, "entry", lambda _: self._value(self._number(4)))
        found = self._named(tensors, "tensor", self._tensor)
        alignment = metadata.get(ALIGNMENT, 32)
        if type(alignment) is not int or not 1 <= alignment <= MOST_ALIGNED:
            raise self.fault(f"its `{ALIGNMENT}` is no number up to {MOST_ALIGNED:,}")
        start = -(-self._at // alignment) * alignment
        placed = {name: self._placed(each, start, alignment) for name, each in found.items()}
        return GgufFile(self._path, metadata, placed)

    def _named(self, count: int, what: str, read: Callable[[str], Any]) -> dict[str, Any]:
        """Reads `count` entries, each behind its name, by name."""
        found: dict[str, Any] = {}
        for _ in range(count):
            name = self._text(LONGEST_NAME)
            if name in found:
                raise self.fault(f"there are two of the {what} `{name[:80]}`")
            found[name] = read(name)
        return found

    def _tensor(self, name: str) -> GgufTensor:
        axes = self._number(4)
        if not 1 <= axes <= MOST_AXES:
            raise self.fault(f"`{name[:80]}` has {axes} axes")
        sizes = [int(self._number(10)) for _ in range(axes)]
        kind, offset = self._number(4), int(self._number(10))
        if not all(1 <= size < LARGEST_SIZE for size in sizes):
            raise self.fault(f"`{name[:80]}` has an impossible shape")
        if kind not in BLOCK_TYPES:
            listed = ", ".join(each.name for each in BLOCK_TYPES.values())
            found = NAMES.get(kind, f"type {kind}")
            raise self.fault(f"`{name[:80]}` holds {found}, and {listed} are read")
        of = BLOCK_TYPES[kind]
        if sizes[0] % of.numbers:
            raise self.fault(f"rows of `{name[:80]}` are no whole blocks of {of.name}")
        return GgufTensor(name, tuple(reversed(sizes)), of, offset)

    def _placed(self, tensor: GgufTensor, start: int, alignment: int) -> GgufTensor:
        """The tensor with its place in the file, which has all of it."""
        if tensor.offset % alignment:
            raise self.fault(f"`{tensor.name[:80]}` begins at no multiple of {alignment}")
        if start + tensor.offset + tensor.bytes > self._size:
            raise self.fault(f"it ends before `{tensor.name[:80]}` does")
        offset = start + tensor.offset
        return GgufTensor(tensor.name, tensor.shape, tensor.kind, offset)

    # --- values ----------------------------------------------------------------------------------

    def _value(self, kind: int) -> Any:  # noqa: ANN401 - of any type
        if kind == STRING:
            return self._text(len(self._content))
        if kind == ARRAY:
            return self._array()
        if kind not in NUMBERS:
            raise self.fault(f"an entry of the metadata has the type {kind}")
        found = self._number(kind)
        return bool(found) if kind == BOOL else found

    def _array(self) -> list[Any]:
        kind, count = self._number(4), self._number(10)
        if kind == ARRAY:
            raise self.fault("an array of the metadata holds arrays")
        self._items += int(count)
        if self._items > MOST_ITEMS:
            raise self.fault(f"its arrays have more than {MOST_ITEMS:,} items")
        if kind in NUMBERS:
            packed = NUMBERS[kind]
            content = self._take(int(count) * packed.size)
            return [each for (each,) in packed.iter_unpack(content)]
        return [self._value(kind) for _ in range(int(count))]

    def _count(self, most: int, what: str) -> int:
        found = int(self._number(10))
        if found > most:
            raise self.fault(f"it has more than {most:,} {what}")
        return found

    def _text(self, longest: int) -> str:
        length = int(self._number(10))
        if length > longest:
            raise self.fault(f"a text of it has {length:,} bytes")
        return bytes(self._take(length)).decode(errors="replace")

    def _number(self, kind: int) -> Any:  # noqa: ANN401 - of the type that is read
        packed = NUMBERS[kind]
        return packed.unpack(self._take(packed.size))[0]

    def _take(self, count: int) -> memoryview:
        if count > len(self._content) - self._at:
            raise _ShortError
        self._at += count
        return self._content[self._at - count : self._at]
