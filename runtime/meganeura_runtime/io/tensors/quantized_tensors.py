"""Quantized tensors in weights files, which are read as the f32 numbers that they stand for.

A tensor NAME of so many bits lies in a file as NAME.words, u32[rows, n], and NAME.scales,
f32[rows, groups]. The entry `meganeura.quantized` of the metadata says how, as JSON:

    {"fc.weight": {"bits": 4, "group": 32, "shape": [64, 128]}}
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.quantization import Quantization
from meganeura_dsl.transforms.pack_parameters import SCALES, WORDS, packed_values
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.tensors.file_array import Array, Rows, RowSource
from meganeura_runtime.io.tensors.safetensors_file import open_tensors, write_tensors
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor

QUANTIZED = "meganeura.quantized"
"""The entry of the metadata."""
Length = Annotated[int, Field(ge=1, lt=2**31)]


class _Entry(BaseModel):
    """The levels and the shape of a tensor."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    bits: Literal[4, 8]
    group: Annotated[int, Field(ge=0, lt=2**31)]
    shape: Annotated[list[Length], Field(min_length=2, max_length=8)]


_ENTRIES: TypeAdapter[dict[str, _Entry]] = TypeAdapter(dict[str, _Entry])


class Unpacked(RowSource):
    """The numbers of a quantized tensor, computed a row at a time."""

    dtype = np.dtype(np.float32)

    def __init__(
        self, words: StoredTensor, scales: StoredTensor, how: Quantization, shape: tuple[int, ...]
    ) -> None:
        self._words, self._scales = words.content, scales.content
        self._how = how
        self.shape = shape

    def __getitem__(self, rows: Rows) -> Array:
        words, scales = (np.asarray(each[rows]) for each in (self._words, self._scales))
        return self._how.dequantize(words, scales, (len(words), *self.shape[1:]))


def read_weights(path: Path) -> dict[str, StoredTensor]:
    """All tensors of a weights file, by name, not read yet; those that are quantized as f32.

    Raises `ProblemError`.
    """
    tensors, metadata = open_tensors(path)
    if QUANTIZED not in metadata:
        return tensors
    try:
        entries = _ENTRIES.validate_json(metadata[QUANTIZED])
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        reason = f"its entry `{QUANTIZED}` is wrong at `{where}`: {error.errors()[0]['msg']}"
        raise ProblemError(UnreadableFile(path, reason)) from None
    for name, entry in entries.items():
        tensors[name] = _unpacked(path, tensors, name, entry)
    return tensors


def _unpacked(
    path: Path, tensors: dict[str, StoredTensor], name: str, entry: _Entry
) -> StoredTensor:
    """The tensor that two others hold, which are taken out."""
    how, shape = Quantization(entry.bits, entry.group), tuple(entry.shape)
    if name in tensors:
        raise ProblemError(UnreadableFile(path, f"it holds `{name}` as it is, and quantized"))
    try:
        wanted = {WORDS: ("u32", how.words(shape)), SCALES: ("f32", how.scales(shape))}
    except ValueError as error:
        raise ProblemError(UnreadableFile(path, f"`{name}`: {error}")) from None
    parts: list[StoredTensor] = []
    for suffix, (stored, expected) in wanted.items():
        part = tensors.pop(name + suffix, None)
        if part is None:
            raise ProblemError(UnreadableFile(path, f"`{name}{suffix}` is not in it"))
        if (part.stored, part.shape) != (stored, expected):
            reason = f"`{name}{suffix}` is {part}, not {stored}{list(expected)}"
            raise ProblemError(UnreadableFile(path, reason))
        parts.append(part)
    words, scales = parts
    how = replace(how, given=scales.bits)
    content = Unpacked(words, scales, how, shape)
    return replace(words, name=name, stored="f32", content=content, quantization=how)


def write_quantized(
    path: Path,
    values: Mapping[str, Array],
    levels: Mapping[str, Quantization],
    metadata: Mapping[str, str],
) -> None:
    """Write weights, of which some may be quantized, atomically; raises `ProblemError`."""
    entries = {
        name: {"bits": how.bits, "group": how.group, "shape": values[name].shape}
        for name, how in levels.items()
    }
    said = {QUANTIZED: json.dumps(entries)} if entries else {}
    write_tensors(path, packed_values(values, levels), {**metadata, **said})
