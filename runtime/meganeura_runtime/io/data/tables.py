"""Tables, CSV and Parquet, by pyarrow: columns of numbers as tensors."""

import os
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.support.regular_files import opened
from meganeura_runtime.io.data.dataset import InputSpec
from meganeura_runtime.io.data.folder_problems import BadColumn
from meganeura_runtime.io.data.numpy_files import LARGEST_UNPACKED
from meganeura_runtime.io.files.file_problems import NoSuchFile, UnreadableFile
from meganeura_runtime.io.tensors.stored_tensor import Array, StoredTensor, stored_array
from meganeura_runtime.support.optional_imports import load

SUFFIXES = (".csv", ".tsv", ".parquet")
PURPOSE = "read tables"

NUMBERS = re.compile(r"u?int\d+|float|double|halffloat|bool")
"""Types of columns that feed inputs, as pyarrow writes them."""


class Column(Protocol):
    """The part of `pyarrow.ChunkedArray` that is used here."""

    type: object
    null_count: int

    def to_numpy(self) -> Array:
        """All values; raises `ValueError` for what NumPy does not have."""
        ...


class Table(Protocol):
    """The part of `pyarrow.Table` that is used here."""

    column_names: list[str]

    def column(self, name: str) -> Column:
        """One column."""
        ...


class Schema(Protocol):
    """The part of `pyarrow.Schema` that is used here."""

    names: list[str]


class ParquetFile(Protocol):
    """The part of `pyarrow.parquet.ParquetFile` that is used here."""

    schema_arrow: Schema
    metadata: "ParquetMetadata"

    def read(self, columns: list[str]) -> Table:
        """Some columns."""
        ...


class ParquetMetadata(Protocol):
    """The metadata of a Parquet file."""

    num_rows: int


def read_table(
    path: Path,
    input_spec: InputSpec,
    columns: Mapping[str, Sequence[str]],
    span: Span | None,
    more: Sequence[str] = (),
) -> dict[str, StoredTensor]:
    """A tensor for each input, under the name that its tensor has; raises `ProblemError`.

    An input is fed from the column of its name, or from those that `columns` names for it, which
    are its last axis. One without such an axis takes one column. Of the columns `more` those are
    tensors too that are there.
    """
    for name, named in columns.items():
        reason = "" if named else "no column is named for it"
        if name not in input_spec.inputs:
            reason = f"there is no such input, only {', '.join(input_spec.inputs)}"
        if reason:
            advice = "name a column for each input" if name in input_spec.inputs else "leave it out"
            raise ProblemError(BadColumn(span, path, name, reason, (), advice))
    wanted = {
        name: tuple(columns.get(name, (input_spec.tensors.get(name, name),)))
        for name in input_spec.inputs
    }
    needed = list(dict.fromkeys([*(each for names in wanted.values() for each in names), *more]))
    table, there = _read(path, needed)
    found: dict[str, StoredTensor] = {}
    for name, names in wanted.items():
        arrays = [_numbers(path, name, each, table, there, span) for each in names]
        is_wide = len(input_spec.inputs[name].shape) > 1
        if len(names) > 1 and not is_wide:
            listed = " and ".join(f"`{each}`" for each in names)
            reason = f"{listed} are {len(names)} numbers of an example, and it takes one"
            advice = f"name one of them, or give `{name}` an axis of {len(names)}"
            raise ProblemError(BadColumn(span, path, name, reason, there, advice))
        tensor = input_spec.tensors.get(name, name)
        values = np.stack(arrays, axis=-1) if is_wide else arrays[0]
        found[tensor] = stored_array(path, tensor, values)
    for name in more:
        if name in there and name not in found:
            found[name] = stored_array(path, name, _numbers(path, name, name, table, there, span))
    return found


def with_fractions(
    tables: Sequence[Mapping[str, StoredTensor]], input_spec: InputSpec, more: Sequence[str] = ()
) -> list[dict[str, StoredTensor]]:
    """Tables that feed inputs of floats, with fractions in all where any of them has some.

    A column that happens to hold whole numbers alone says nothing of those of other files. So it is
    with the columns of `more`, which say how often examples are drawn.
    """
    fed = {input_spec.tensors.get(name, name): each for name, each in input_spec.inputs.items()}
    floats = {name for name, each in fed.items() if each.dtype.is_float} | {*more} - fed.keys()
    mixed = {name for name in floats if any(name in t and t[name].is_float for t in tables)}

    def converted(tensor: StoredTensor) -> StoredTensor:
        if tensor.name not in mixed or tensor.is_float or tensor.stored == "bool":
            return tensor
        return stored_array(tensor.file, tensor.name, tensor.bits.astype(np.float64))

    return [{name: converted(each) for name, each in tensors.items()} for tensors in tables]


def _numbers(
    path: Path, name: str, column: str, table: Table, there: tuple[str, ...], span: Span | None
) -> Array:
    """A column as numbers; raises `ProblemError`, which names all columns there are."""
    if column not in there:
        reason, free = f"it has no column `{column}`", sorted(there)
        close = (get_close_matches(column, free, 1) or ["..."])[0]
        advice = f'say which column feeds it: `table("{path.name}", {name}="{close}")`'
        raise ProblemError(BadColumn(span, path, name, reason, there, advice))
    if there.count(column) > 1:
        reason = f"it has {there.count(column)} columns `{column}`"
        advice = "give each column a name that no other has"
        raise ProblemError(BadColumn(span, path, name, reason, there, advice))
    found = table.column(column)
    if found.null_count:
        reason = f"`{column}` has {found.null_count:,} empty cells"
        advice = "fill them in, or leave these rows out"
        raise ProblemError(BadColumn(span, path, name, reason, there, advice))
    if str(found.type) == "null":  # of a table that is read from text, whose cells say the type
        advice = "write a row for each example below the names"
        raise ProblemError(BadColumn(span, path, name, "it has no rows", there, advice))
    if not NUMBERS.fullmatch(str(found.type)):
        reason = f"`{column}` holds {found.type}, and no numbers"
        advice = "write each kind as a number from 0"
        raise ProblemError(BadColumn(span, path, name, reason, there, advice))
    return found.to_numpy()


def _read(path: Path, needed: Sequence[str]) -> tuple[Table, tuple[str, ...]]:
    """A table that has the columns that are needed and there, and the names of all.

    pyarrow opens the file itself, once it is known to be one: its threads would release a file of
    Python's, for which a process that ends has no interpreter any more (abort, on Linux).

    Raises `ProblemError` for a damaged file, and for one whose columns would not fit into memory.
    """
    arrow = load("pyarrow", "tables", PURPOSE)
    failures = cast("type[Exception]", arrow.ArrowException)
    try:
        with opened(path), cast("BinaryIO", arrow.OSFile(os.fspath(path))) as file:
            if path.suffix.lower() == ".parquet":
                parquet = load("pyarrow.parquet", "tables", PURPOSE)
                held = cast("ParquetFile", parquet.ParquetFile(file))
                there = tuple(held.schema_arrow.names)
                names = [each for each in needed if each in there]
                _require_memory(8 * held.metadata.num_rows * len(names))
                return held.read(columns=names), there
            _require_memory(path.stat().st_size)
            csv = load("pyarrow.csv", "tables", PURPOSE)
            split = csv.ParseOptions(delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
            table = cast("Table", csv.read_csv(file, parse_options=split))
            return table, tuple(table.column_names)
    except FileNotFoundError:
        raise ProblemError(NoSuchFile(path)) from None
    except (failures, OSError, ValueError) as error:
        raise ProblemError(UnreadableFile(path, str(error).partition("\n")[0])) from None


def _require_memory(size: int) -> None:
    if size > LARGEST_UNPACKED:
        raise ValueError(f"it takes {size:,} bytes of memory; a .safetensors file is read in place")
