"""Weights in safetensors files: loaded strictly, saved so that PyTorch loads them strictly.

Every declared parameter must be in the file and every tensor of the file must be declared, in its
shape. What is wrong is told all at once, and nothing is half loaded.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar, Protocol, cast

from meganeura_dsl.diagnostics import Help, Problem, ProblemError, Remark, Report
from meganeura_dsl.shapes.tensor import TensorType
from meganeura_runtime.tensors.problems import NoSuchFile, UnreadableFile
from meganeura_runtime.tensors.safetensors_file import read_tensors, write_tensors
from meganeura_runtime.tensors.shapes import transposed
from meganeura_runtime.tensors.stored import BITS, Array, StoredTensor, read_verified

LISTED = 12
"""How many names of one kind a message shows."""

FOLDER_FILES = ("model.safetensors.index.json", "model.safetensors", "weights.safetensors")
"""What a folder of weights holds, in the order it is looked for."""


class Declared(Protocol):
    """A parameter as the program declares it."""

    @property
    def name(self) -> str:
        """Its key in checkpoint files."""
        ...

    @property
    def type(self) -> TensorType:
        """What graphs compute with; all sizes are numbers."""
        ...

    @property
    def stored(self) -> str:
        """Its type in checkpoint files."""
        ...


@dataclass(frozen=True)
class Difference:
    """A tensor that is in the file and declared, but not alike."""

    name: str
    given: str
    wanted: str
    hint: str = ""


@dataclass(frozen=True)
class WeightsMismatch(Problem):
    """A weights file and the parameters of a model are not the same set of tensors.

    Loading is strict: a name on one side only, another shape or another kind of number each mean
    that the file belongs to another model, or to another version of this one. Everything that
    differs is listed, and nothing is loaded. `meganeura abi MODEL` lists what the model declares.
    """

    code = "E0540"
    topic: ClassVar[str] = "weights"

    file: Path
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    shapes: tuple[Difference, ...]
    types: tuple[Difference, ...]

    def report(self) -> Report:
        """List what differs, the first few of each kind."""
        counts = (
            (len(self.missing), "missing"),
            (len(self.unexpected), "unexpected"),
            (len(self.shapes), "of another shape"),
            (len(self.types), "of another type"),
        )
        summary = ", ".join(f"{count} {what}" for count, what in counts if count)
        remarks = (
            *_listed("missing", [self._with_nearest(name) for name in self.missing]),
            *_listed("unexpected", self.unexpected),
            *_listed("shape", [_difference(each) for each in self.shapes]),
            *_listed("type", [_difference(each) for each in self.types]),
        )
        return Report(
            self.code,
            self.severity,
            f"`{self.file}` is not of this model: {summary}",
            self.topic,
            None,
            remarks,
            Help("see what the model declares with", "meganeura abi MODEL"),
        )

    def _with_nearest(self, name: str) -> str:
        near = get_close_matches(name, self.unexpected, n=1, cutoff=0.7)
        return f"{name}   (the file has {near[0]})" if near else name


def read_weights(path: Path, parameters: Sequence[Declared]) -> dict[str, Array]:
    """The values of all parameters from a file, an index of files or a folder of either.

    Raises `ProblemError` with everything that does not match, or with the first value that the
    declared type cannot hold.
    """
    tensors = open_weights(path)
    mismatch = compare(path, tensors, parameters)
    if mismatch is not None:
        raise ProblemError(mismatch)
    return {each.name: read_verified(tensors[each.name], each.type.dtype) for each in parameters}


def write_weights(
    path: Path,
    parameters: Sequence[Declared],
    values: Mapping[str, Array],
    metadata: Mapping[str, str],
) -> None:
    """Save all parameters under their own names and in their stored types, at once."""
    stored = {each.name: values[each.name].astype(BITS[each.stored]) for each in parameters}
    write_tensors(path, stored, metadata)


def compare(
    path: Path, tensors: Mapping[str, StoredTensor], parameters: Sequence[Declared]
) -> WeightsMismatch | None:
    """What differs between a file and what is declared, if anything does."""
    declared = {each.name: each for each in parameters}
    both = [(tensors[name], each) for name, each in declared.items() if name in tensors]
    missing = tuple(name for name in declared if name not in tensors)
    unexpected = tuple(name for name in tensors if name not in declared)
    shapes = tuple(_shape_differences(both))
    types = tuple(
        Difference(each.name, tensor.stored, each.type.dtype.value)
        for tensor, each in both
        if tensor.is_float != each.type.dtype.is_float
    )
    if not (missing or unexpected or shapes or types):
        return None
    return WeightsMismatch(path, missing, unexpected, shapes, types)


def _shape_differences(both: Iterable[tuple[StoredTensor, Declared]]) -> Iterator[Difference]:
    for tensor, each in both:
        wanted = tuple(size for size in each.type.shape if isinstance(size, int))
        if tensor.shape != wanted:
            hint = transposed(tensor.shape, wanted)
            yield Difference(each.name, str(list(tensor.shape)), str(list(wanted)), hint)


def _difference(difference: Difference) -> str:
    hint = f"   ({difference.hint})" if difference.hint else ""
    return (
        f"{difference.name}   the file has {difference.given}, the model {difference.wanted}{hint}"
    )


def _listed(title: str, lines: Sequence[str]) -> Iterator[Remark]:
    """One remark with a line for each, the first few of many."""
    if lines:
        more = [f"and {len(lines) - LISTED} more"] if len(lines) > LISTED else []
        yield Remark(title, "\n".join([*lines[:LISTED], *more]))


# --- where the tensors are -----------------------------------------------------------------------


def open_weights(path: Path) -> dict[str, StoredTensor]:
    """All tensors of a weights file, of the files an index names, or of a folder of either."""
    if path.is_dir():
        found = next((path / name for name in FOLDER_FILES if (path / name).exists()), None)
        if found is None:
            raise ProblemError(NoSuchFile(path / FOLDER_FILES[1]))
        return open_weights(found)
    if path.suffix in (".pt", ".pth", ".bin", ".ckpt", ".pkl"):
        reason = "it is a pickle, and reading one runs its code; save it as safetensors"
        raise ProblemError(UnreadableFile(path, reason))
    return _open_shards(path) if path.suffix == ".json" else read_tensors(path)


def _open_shards(index: Path) -> dict[str, StoredTensor]:
    """The tensors an index promises, each from the file it names."""
    promised = _weight_map(index)
    shards = {name: read_tensors(index.parent / name) for name in sorted(set(promised.values()))}
    held = {name: shard for shard, tensors in shards.items() for name in tensors}
    for name, shard in promised.items():
        if name not in shards[shard]:
            raise ProblemError(UnreadableFile(index, f"`{shard}` does not hold `{name}`"))
    for name, shard in held.items():
        if promised.get(name) != shard:
            raise ProblemError(UnreadableFile(index, f"`{shard}` holds `{name}` unannounced"))
    return {name: shards[shard][name] for name, shard in promised.items()}


def _weight_map(index: Path) -> dict[str, str]:
    """Which file holds which tensor; files stand beside the index."""
    try:
        content = cast("object", json.loads(index.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise ProblemError(NoSuchFile(index)) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ProblemError(UnreadableFile(index, f"it is not JSON: {error}")) from None
    entries: object = None
    if isinstance(content, dict):
        entries = cast("dict[str, object]", content).get("weight_map")
    if not isinstance(entries, dict):
        raise ProblemError(UnreadableFile(index, "it has no `weight_map`"))
    files = cast("dict[str, object]", entries)
    places = {name: file for name, file in files.items() if _is_file_name(file)}
    if len(places) < len(files):
        reason = "its `weight_map` names something that is not a file beside it"
        raise ProblemError(UnreadableFile(index, reason))
    return cast("dict[str, str]", places)


def _is_file_name(value: object) -> bool:
    return isinstance(value, str) and value not in ("", ".", "..") and Path(value).name == value


PROBLEMS: tuple[type[Problem], ...] = (WeightsMismatch,)
"""Every kind of problem that only weights have."""
