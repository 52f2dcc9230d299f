"""The safetensors format: eight bytes of length, a JSON header, then the values.

The header is validated against the file before anything else, since it is not trusted.
The reader of the package `safetensors` maps files, so that one that is cut short while it is in use
ends the process, and it does not say where a tensor lies, which checksums of pieces need.
Format: https://huggingface.co/docs/safetensors
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import cast

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors_numpy

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.files.atomic_write import replacing
from meganeura_runtime.io.files.file_problems import (
    CannotWrite,
    DamagedFile,
    NoSuchFile,
    UnreadableFile,
)
from meganeura_runtime.io.tensors import checksums
from meganeura_runtime.io.tensors.file_array import InFile
from meganeura_runtime.io.tensors.open_file import OpenFile
from meganeura_runtime.io.tensors.shape_mismatch import claimed_elements
from meganeura_runtime.io.tensors.stored_tensor import BITS, Array, StoredTensor, stored_array
from meganeura_runtime.io.tensors.verified_pieces import Sums

LONGEST_HEADER = 32 << 20
"""Bytes of a header: of a few hundred thousand tensors. The format allows 100 MB."""

MOST_DIGITS = 20
"""The most digits of a number in a header: none is larger than a file could be."""

SHORT = 1 << 18
"""Bytes of a header that is read whatever is in it."""
DENSEST = 8
"""Bytes of a longer header for each bracket or brace; a tensor takes fifty for three of them."""

METADATA = "__metadata__"

HOLDS = "meganeura.holds"
"""The entry of the metadata that says what a file holds if that is no weights."""
OUTPUTS = "outputs"
ENTRY = {"dtype", "shape", "data_offsets"}


class InvalidTensorFileError(Exception):
    """A header contradicts itself or its file; the message says how."""


def read_tensors(path: Path) -> dict[str, StoredTensor]:
    """All tensors of a file, by name, not read yet; raises `ProblemError`."""
    return open_tensors(path)[0]


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a file; no tensor is read or compared with checksums.

    Raises `ProblemError`.
    """
    try:
        header, _ = _header(OpenFile(path))
        return _metadata(header.get(METADATA, {}))
    except FileNotFoundError:
        raise ProblemError(NoSuchFile(path)) from None
    except OSError as error:
        raise ProblemError(UnreadableFile(path, error.strerror or str(error))) from None
    except InvalidTensorFileError as distrust:
        raise ProblemError(UnreadableFile(path, str(distrust))) from None


def open_tensors(
    path: Path, *, piecewise: bool = False
) -> tuple[dict[str, StoredTensor], dict[str, str]]:
    """All tensors of a file, and its metadata; raises `ProblemError`.

    What has checksums is compared with them; the metadata that is returned no longer holds them.
    That is done now, so that nothing of a damaged file is used; or if `piecewise`, as far as there
    are checksums of pieces, when each piece is first read, which raises `ProblemError` then.
    """
    try:
        file = OpenFile(path)
        header, start = _header(file)
        metadata = _metadata(header.pop(METADATA, {}))
        ranges = _ranges(file, start, header)
    except FileNotFoundError:
        raise ProblemError(NoSuchFile(path)) from None
    except OSError as error:
        raise ProblemError(UnreadableFile(path, error.strerror or str(error))) from None
    except InvalidTensorFileError as distrust:
        raise ProblemError(UnreadableFile(path, str(distrust))) from None
    tensors = {
        name: StoredTensor(path, name, stored, content)
        for name, (stored, content) in ranges.items()
    }
    compared = _compared(path, metadata, tensors, piecewise=piecewise)
    for key in (checksums.KEY, checksums.PIECES):
        metadata.pop(key, None)
    return compared, metadata


def _compared(
    path: Path,
    metadata: Mapping[str, str],
    tensors: dict[str, StoredTensor],
    *,
    piecewise: bool,
) -> dict[str, StoredTensor]:
    """The tensors, compared with their checksums, or with those that each piece will have to have.

    Raises `ProblemError`.
    """
    types = {name: str(tensor) for name, tensor in tensors.items()}
    contents = {n: each.content for n, each in tensors.items() if isinstance(each.content, InFile)}
    try:
        claims = checksums.claimed(metadata, types, contents)
    except checksums.DamagedHeaderError:
        raise ProblemError(DamagedFile(path, checksums.HEADER)) from None
    if claims is None:
        return tensors
    later: Mapping[str, tuple[int, Sums]] = claims.pieces if piecewise else {}
    damaged = claims.find_damage({n: each for n, each in contents.items() if n not in later})
    if damaged is not None:
        raise ProblemError(DamagedFile(path, damaged))
    verified = {
        name: replace(tensors[name], content=contents[name].verified(name, *pieces))
        for name, pieces in later.items()
    }
    return {**tensors, **verified}


def write_tensors(path: Path, tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Write a file atomically; raises `ProblemError` where it cannot be written.

    The same tensors and metadata give the same bytes: the library writes metadata in any order, so
    the header is sorted afterwards.
    """
    whole = {name: np.asarray(values, order="C") for name, values in tensors.items()}
    try:
        stored = [stored_array(path, name, values) for name, values in whole.items()]
    except ValueError as error:
        raise ProblemError(CannotWrite(path, str(error))) from None
    contents = {each.name: each.bits for each in stored}
    entries = checksums.checksums(metadata, {each.name: str(each) for each in stored}, contents)
    with replacing(path) as partial:
        try:
            save = safetensors_numpy.save_file  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - its stub leaves PathLike open
            save(whole, partial, {**metadata, **entries})
        except SafetensorError as error:
            raise ProblemError(CannotWrite(path, str(error))) from None
        _sort_header(partial)


def write_stored(
    path: Path, tensors: Mapping[str, StoredTensor], metadata: Mapping[str, str]
) -> None:
    """Write tensors of other files as they are stored there, under these names.

    One is read at a time. Raises `ProblemError` where one cannot be read or the file not written.
    """
    types = {name: str(each) for name, each in tensors.items()}
    contents = {
        name: each.content if isinstance(each.content, InFile) else each.bits
        for name, each in tensors.items()
    }
    entries = {**metadata, **checksums.checksums(metadata, types, contents)}
    header: dict[str, object] = {METADATA: dict(sorted(entries.items()))}
    reached = 0
    for name, each in sorted(tensors.items()):
        end = reached + prod(each.shape) * BITS[each.stored].itemsize
        place = [reached, end]
        header[name] = {"dtype": each.stored.upper(), "shape": each.shape, "data_offsets": place}
        reached = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text = text.ljust(-(-len(text) // 8) * 8)
    with replacing(path) as partial, partial.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, each in sorted(tensors.items()):
            file.write(np.ascontiguousarray(each.bits).tobytes())


def _sort_header(path: Path) -> None:
    """Sort the metadata of a file that was just written."""
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header = cast("dict[str, object]", json.loads(file.read(length)))
        metadata = cast("dict[str, str]", header.pop(METADATA, {}))
        whole = {METADATA: dict(sorted(metadata.items())), **dict(sorted(header.items()))}
        text = json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()
        file.seek(8)
        file.write(text.ljust(length))


def _header(file: OpenFile) -> tuple[dict[str, object], int]:
    """The header, parsed, and where the values begin."""
    if not file.size:
        raise InvalidTensorFileError("it is empty")
    if file.size < 8:
        raise InvalidTensorFileError(
            f"it has {file.size} bytes, and the length of its header alone takes 8"
        )
    length = int.from_bytes(file.read(0, 8), "little")
    if length > LONGEST_HEADER:
        raise InvalidTensorFileError(
            f"its header claims {length:,} bytes; this is no safetensors file"
        )
    if length > file.size - 8:
        raise InvalidTensorFileError(
            f"it ends inside its header of {length:,} bytes: it was cut short"
        )
    try:
        content = file.read(8, length)
        _require_few(content)
        text = content.decode()
        header = cast("object", json.loads(text, object_pairs_hook=_once, parse_int=_whole))
    except (ValueError, RecursionError):
        raise InvalidTensorFileError(
            "its header is not JSON; this is no safetensors file"
        ) from None
    return _record(header, "its header"), 8 + length


def _require_few(header: bytes) -> None:
    """Refuse lists within lists: each takes but two bytes, and long to make."""
    most = max(SHORT, len(header)) // DENSEST
    if max(header.count(b"["), header.count(b"{")) > most:
        raise InvalidTensorFileError("its header is not JSON that describes tensors")


def _whole(digits: str) -> int:
    """A number of a header, which takes no longer to read than to look at."""
    if len(digits) > MOST_DIGITS:
        raise InvalidTensorFileError(f"its header has a number of {len(digits):,} digits")
    return int(digits)


def _once(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    """A JSON object that names nothing twice."""
    record: dict[str, object] = {}
    for name, value in pairs:
        if name in record:
            raise InvalidTensorFileError(f"its header names `{name}` twice")
        record[name] = value
    return record


def _record(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InvalidTensorFileError(f"{what} is not a JSON object")
    return cast("dict[str, object]", value)


def _metadata(value: object) -> dict[str, str]:
    record = _record(value, "its metadata")
    texts = {name: text for name, text in record.items() if isinstance(text, str)}
    if len(texts) < len(record):
        raise InvalidTensorFileError("its metadata holds something other than texts")
    return texts


def _ranges(
    file: OpenFile, start: int, header: Mapping[str, object]
) -> dict[str, tuple[str, InFile]]:
    """The type of each tensor, and where it lies."""
    found: dict[str, tuple[str, InFile]] = {}
    ranges: list[tuple[int, int, str]] = []
    length = file.size - start
    for name, value in header.items():
        stored, shape, begin, end = _entry(name, _record(value, f"the entry of `{name}`"))
        if end > length:
            raise InvalidTensorFileError(
                f"`{name}` ends {end - length:,} bytes after the file: it was cut short"
            )
        found[name] = stored, InFile(file, start + begin, BITS[stored], BITS[stored], shape)
        ranges.append((begin, end, name))
    _without_gaps(sorted(ranges), length)
    return found


def _entry(name: str, entry: Mapping[str, object]) -> tuple[str, tuple[int, ...], int, int]:
    """Type, shape and place of one tensor, which must agree with each other."""
    if set(entry) != ENTRY:
        raise InvalidTensorFileError(
            f"the entry of `{name}` does not have exactly a dtype, a shape and offsets"
        )
    stored = str(entry["dtype"]).lower()
    if stored not in BITS:
        raise InvalidTensorFileError(
            f"`{name}` has the type {entry['dtype']}, which is not read here"
        )
    shape = _sizes(name, entry["shape"])
    offsets = _sizes(name, entry["data_offsets"])
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise InvalidTensorFileError(f"`{name}` has no place: its offsets are {list(offsets[:4])}")
    try:
        size = claimed_elements(shape) * BITS[stored].itemsize
    except ValueError as error:
        raise InvalidTensorFileError(f"`{name}` {error}") from None
    if size != offsets[1] - offsets[0]:
        raise InvalidTensorFileError(
            f"`{name}` claims {size:,} bytes by its shape {list(shape)} "
            f"and {offsets[1] - offsets[0]:,} by its offsets"
        )
    return stored, shape, offsets[0], offsets[1]


def _sizes(name: str, value: object) -> tuple[int, ...]:
    """A list of whole numbers from 0, as a tuple."""
    items = cast("list[object]", value) if isinstance(value, list) else [None]
    sizes = tuple(item for item in items if type(item) is int and item >= 0)
    if len(sizes) < len(items):
        raise InvalidTensorFileError(
            f"the entry of `{name}` has a shape or offsets that are no sizes"
        )
    return sizes


def _without_gaps(ranges: Iterable[tuple[int, int, str]], length: int) -> None:
    """Tensors are contiguous: none shares bytes, and no bytes are left over."""
    reached = 0
    for begin, end, name in ranges:
        if begin < reached:
            raise InvalidTensorFileError(
                f"`{name}` overlaps the tensor before it by {reached - begin:,} bytes"
            )
        if begin > reached:
            raise InvalidTensorFileError(
                f"{begin - reached:,} bytes before `{name}` belong to no tensor"
            )
        reached = end
    if reached != length:
        raise InvalidTensorFileError(f"{length - reached:,} bytes at its end belong to no tensor")
