"""The safetensors format: eight bytes of length, a JSON header, then the values.

The header is checked against the file before anything is believed, since it comes from anywhere.
Format: https://huggingface.co/docs/safetensors
"""

import json
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safetensors_numpy

from meganeura_dsl.diagnostics import ProblemError
from meganeura_runtime.tensors.atomic import replacing
from meganeura_runtime.tensors.problems import CannotWrite, NoSuchFile, UnreadableFile
from meganeura_runtime.tensors.stored import BITS, Array, StoredTensor

LONGEST_HEADER = 100_000_000
"""Bytes of the longest header the format allows."""

METADATA = "__metadata__"
ENTRY = {"dtype", "shape", "data_offsets"}


class DistrustError(Exception):
    """A header contradicts itself or its file; the message says how."""


def read_tensors(path: Path) -> dict[str, StoredTensor]:
    """All tensors of a file, by name, not read yet; raises `ProblemError`."""
    return open_tensors(path)[0]


def open_tensors(path: Path) -> tuple[dict[str, StoredTensor], dict[str, str]]:
    """All tensors of a file, and its metadata; raises `ProblemError`."""
    try:
        content: NDArray[np.uint8] = np.memmap(path, dtype=np.uint8, mode="r")
    except FileNotFoundError:
        raise ProblemError(NoSuchFile(path)) from None
    except ValueError:
        raise ProblemError(UnreadableFile(path, "it is empty")) from None
    except OSError as error:
        raise ProblemError(UnreadableFile(path, error.strerror or str(error))) from None
    try:
        header, data = _split(content)
        metadata = _metadata(header.pop(METADATA, {}))
        return _tensors(path, header, data), metadata
    except DistrustError as distrust:
        raise ProblemError(UnreadableFile(path, str(distrust))) from None


def write_tensors(path: Path, tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Write a file at once or not at all; raises `ProblemError` where it cannot be."""
    whole = {name: np.asarray(values, order="C") for name, values in tensors.items()}
    with replacing(path) as partial:
        try:
            save = safetensors_numpy.save_file  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - its stub leaves PathLike open
            save(whole, partial, dict(metadata))
        except SafetensorError as error:
            raise ProblemError(CannotWrite(path, str(error))) from None


def _split(content: NDArray[np.uint8]) -> tuple[dict[str, object], NDArray[np.uint8]]:
    """The header, parsed, and the bytes after it."""
    if len(content) < 8:
        raise DistrustError(
            f"it has {len(content)} bytes, and the length of its header alone takes 8"
        )
    length = int.from_bytes(content[:8].tobytes(), "little")
    if length > LONGEST_HEADER:
        raise DistrustError(f"its header claims {length:,} bytes; this is no safetensors file")
    if length > len(content) - 8:
        raise DistrustError(f"it ends inside its header of {length:,} bytes: it was cut short")
    try:
        text = content[8 : 8 + length].tobytes().decode()
        header = cast("object", json.loads(text, object_pairs_hook=_once))
    except (ValueError, RecursionError):
        raise DistrustError("its header is not JSON; this is no safetensors file") from None
    return _record(header, "its header"), content[8 + length :]


def _once(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    """A JSON object that names nothing twice."""
    record: dict[str, object] = {}
    for name, value in pairs:
        if name in record:
            raise DistrustError(f"its header names `{name}` twice")
        record[name] = value
    return record


def _record(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise DistrustError(f"{what} is not a JSON object")
    return cast("dict[str, object]", value)


def _metadata(value: object) -> dict[str, str]:
    record = _record(value, "its metadata")
    texts = {name: text for name, text in record.items() if isinstance(text, str)}
    if len(texts) < len(record):
        raise DistrustError("its metadata holds something other than texts")
    return texts


def _tensors(
    path: Path, header: Mapping[str, object], data: NDArray[np.uint8]
) -> dict[str, StoredTensor]:
    tensors: dict[str, StoredTensor] = {}
    places: list[tuple[int, int, str]] = []
    for name, value in header.items():
        stored, shape, begin, end = _entry(name, _record(value, f"the entry of `{name}`"))
        if end > len(data):
            raise DistrustError(
                f"`{name}` ends {end - len(data):,} bytes after the file: it was cut short"
            )
        bits = _shaped(name, data[begin:end].view(BITS[stored]), shape)
        tensors[name] = StoredTensor(path, name, stored, bits)
        places.append((begin, end, name))
    _without_gaps(sorted(places), len(data))
    return tensors


def _entry(name: str, entry: Mapping[str, object]) -> tuple[str, tuple[int, ...], int, int]:
    """Type, shape and place of one tensor, which must agree with each other."""
    if set(entry) != ENTRY:
        raise DistrustError(
            f"the entry of `{name}` does not have exactly a dtype, a shape and offsets"
        )
    stored = str(entry["dtype"]).lower()
    if stored not in BITS:
        raise DistrustError(f"`{name}` has the type {entry['dtype']}, which is not read here")
    shape = _sizes(name, entry["shape"])
    offsets = _sizes(name, entry["data_offsets"])
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise DistrustError(f"`{name}` has no place: its offsets are {list(offsets)}")
    size = prod(shape) * BITS[stored].itemsize
    if size != offsets[1] - offsets[0]:
        raise DistrustError(
            f"`{name}` claims {size:,} bytes by its shape {list(shape)} "
            f"and {offsets[1] - offsets[0]:,} by its offsets"
        )
    return stored, shape, offsets[0], offsets[1]


def _shaped(name: str, bits: Array, shape: tuple[int, ...]) -> Array:
    """The bits in their shape; sizes may still be absurd where another one is 0."""
    try:
        return bits.reshape(shape)
    except ValueError:
        raise DistrustError(f"`{name}` has the impossible shape {list(shape)}") from None


def _sizes(name: str, value: object) -> tuple[int, ...]:
    """A list of whole numbers from 0, as a tuple."""
    items = cast("list[object]", value) if isinstance(value, list) else [None]
    sizes = tuple(item for item in items if type(item) is int and item >= 0)
    if len(sizes) < len(items):
        raise DistrustError(f"the entry of `{name}` has a shape or offsets that are no sizes")
    return sizes


def _without_gaps(places: Iterable[tuple[int, int, str]], length: int) -> None:
    """Tensors lie one after the other: none shares bytes, and no bytes are left over."""
    reached = 0
    for begin, end, name in places:
        if begin < reached:
            raise DistrustError(
                f"`{name}` overlaps the tensor before it by {reached - begin:,} bytes"
            )
        if begin > reached:
            raise DistrustError(f"{begin - reached:,} bytes before `{name}` belong to no tensor")
        reached = end
    if reached != length:
        raise DistrustError(f"{length - reached:,} bytes at its end belong to no tensor")
