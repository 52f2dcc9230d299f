"""A folder of folders of images or sounds, each folder a class: examples that are decoded when fed.

Classes are numbered in the order of their names, as torchvision's `ImageFolder` does: over all
folders that are trained on, and the same in those that are held out.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_runtime.io.data.data_files import is_tensor_file
from meganeura_runtime.io.data.decode_pool import DecodePool
from meganeura_runtime.io.data.decoders import Decoder
from meganeura_runtime.io.data.folder_problems import NoClasses
from meganeura_runtime.io.preprocess import audio, images
from meganeura_runtime.io.tensors.file_array import Rows, RowSource
from meganeura_runtime.io.tensors.stored_tensor import Array, StoredTensor

TRAIN = "train"
HELD_OUT = ("val", "valid", "validation", "test")
"""Names of the folder, beside that of training, whose examples are held out."""
KINDS: Mapping[str, Sequence[str]] = {"image": images.SUFFIXES, "sound": audio.SUFFIXES}
"""The name of the tensor, and the suffixes of its files."""
LISTED = 8
"""Classes that are named in a line."""


@dataclass(frozen=True, eq=False)
class DecodedFiles(RowSource):
    """An array with a row for each file, which is decoded when it is fed.

    Bytes of images are finite, and of sounds none is read that is not.
    """

    is_read_at_once = False
    is_checked = True
    is_slow = True

    paths: Sequence[Path]
    decoder: Decoder
    pool: DecodePool
    shape: tuple[int, ...] = field(init=False)
    dtype: np.dtype[np.generic] = field(init=False, default=np.dtype(np.float32))
    _digest: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", (len(self.paths), *self.decoder.shape))

    @property
    def digest(self) -> str:
        """The hash of the names and sizes of all files, and of the decoder."""
        if not self._digest:
            state = blake2b(repr(self.decoder).encode(), digest_size=16)
            for path in self.paths:
                entry = f"{path.parent.name}/{path.name}\0{path.stat().st_size}\n"
                state.update(entry.encode("utf-8", "surrogateescape"))
            self._digest.append(state.hexdigest())
        return self._digest[0]

    def __getitem__(self, rows: Rows) -> Array:
        """Some files, decoded; raises `ProblemError`."""
        if isinstance(rows, slice):
            return self.pool.decode(self.paths[rows])
        numbers: list[int] = rows.tolist()
        return self.pool.decode([self.paths[number] for number in numbers])


@dataclass(frozen=True)
class ClassFolder:
    """The files of a folder and their classes, of training and held out."""

    kind: str
    """A key of `KINDS`, which is the name of the tensor too."""
    classes: tuple[str, ...]
    files: Mapping[str, Sequence[tuple[Path, int]]]
    """The files and their classes, under the prefix of each split, such as `train.`."""

    def tensors(self, folder: Path, decoder: Decoder, workers: int) -> dict[str, StoredTensor]:
        """The tensors `image` or `sound`, and `label`, of each split."""
        pool = DecodePool(decoder, workers)
        found: dict[str, StoredTensor] = {}
        for prefix, examples in self.files.items():
            name, label = f"{prefix}{self.kind}", f"{prefix}label"
            content = DecodedFiles([path for path, _ in examples], decoder, pool)
            found[name] = StoredTensor(folder, name, "f32", content)
            classes = np.array([number for _, number in examples], np.int32)
            found[label] = StoredTensor(folder, label, "i32", classes)
        return found


def is_class_folder(path: Path) -> bool:
    """True if a folder has folders, and no tensors of its own."""
    if not path.is_dir() or not _folders(path):
        return False
    return not any(is_tensor_file(each) for each in path.iterdir())


def class_names(folders: Sequence[Path]) -> tuple[str, ...]:
    """The classes that folders are to be trained on, which are numbered over all of them."""
    trained = [path / TRAIN if _has_splits(path) else path for path in folders]
    return tuple(sorted({name for path in trained for name in _folders(path)}))


def class_folder(
    folders: Sequence[Path], span: Span | None = None, trained: Sequence[str] = ()
) -> ClassFolder:
    """Reads a folder, or several together. Raises `ProblemError` if its form is not clear.

    Folders `train` and `val` (or `valid`, `validation`, `test`) are two splits of the same classes;
    `train` without folders, and beside others alone, is a class of that name.
    Classes are those of the names of all folders, or `trained`: of others nothing is known. Files
    of other suffixes, and files and folders whose names begin with a dot, are passed over.
    """
    splits = [_splits(each, span) for each in folders]
    for folder, found in zip(folders, splits, strict=True):
        if found.keys() != splits[0].keys():
            reason = f"its splits are not those of `{folders[0]}`"
            raise ProblemError(NoClasses(span, folder, reason))
    joined = {prefix: [each[prefix] for each in splits] for prefix in splits[0]}
    classes = tuple(trained) or class_names(folders)
    return _read(folders[0], joined, classes, span, is_trained=not trained)


def _splits(folder: Path, span: Span | None) -> dict[str, Path]:
    """The folders of one or two splits, by the prefixes of their tensors."""
    if not is_class_folder(folder):
        raise ProblemError(NoClasses(span, folder, "others that are named together are"))
    if not _has_splits(folder):
        return {"": folder}
    held_out = [folder / name for name in HELD_OUT if (folder / name).is_dir()]
    if len(held_out) > 1:
        names = " and ".join(f"`{each.name}`" for each in held_out)
        raise ProblemError(NoClasses(span, folder, f"both {names} could be held out"))
    return dict(zip(("train.", "test."), (folder / TRAIN, *held_out), strict=False))


def _has_splits(folder: Path) -> bool:
    """True if `train` is a split: beside other classes alone it is a class of that name."""
    if not (folder / TRAIN).is_dir():
        return False
    beside = {*_folders(folder)} - {TRAIN}
    return bool(_folders(folder / TRAIN)) or not beside or not beside.isdisjoint(HELD_OUT)


def _read(
    folder: Path,
    splits: Mapping[str, Sequence[Path]],
    classes: tuple[str, ...],
    span: Span | None,
    *,
    is_trained: bool,
) -> ClassFolder:
    """The files of one or two splits; each class that is trained on has some."""
    found: dict[str, dict[str, list[tuple[Path, int]]]] = {kind: {} for kind in KINDS}
    for prefix, paths in splits.items():
        for path in paths:
            unknown = [name for name in _folders(path) if name not in classes]
            if unknown:
                more = f" and {len(classes) - LISTED} more" if len(classes) > LISTED else ""
                only = f"{', '.join(classes[:LISTED])}{more}"
                reason = f"nothing is trained on its class `{unknown[0]}`, only on {only}"
                raise ProblemError(NoClasses(span, path, reason))
        for number, name in enumerate(classes):
            for file in (file for path in paths for file in _files(path / name)):
                for kind, suffixes in KINDS.items():
                    if file.suffix.lower() in suffixes:
                        found[kind].setdefault(prefix, []).append((file, number))
    kinds = [kind for kind, files in found.items() if files]
    if not kinds:
        raise ProblemError(NoClasses(span, folder, "there are no images or sounds in its folders"))
    if len(kinds) > 1:
        raise ProblemError(NoClasses(span, folder, "there are both images and sounds"))
    files = found[kinds[0]]
    for prefix, paths in splits.items():
        here = {number for _, number in files.get(prefix, ())}
        empty = [name for number, name in enumerate(classes) if number not in here]
        if empty and is_trained and prefix != "test.":
            path = next(path for path in paths if (path / empty[0]).is_dir())
            reason = f"`{path / empty[0]}` has no {kinds[0]}s"
            raise ProblemError(NoClasses(span, folder, reason))
    return ClassFolder(kinds[0], classes, files)


def _folders(path: Path) -> list[str]:
    """The names of the folders in a folder, in order."""
    return sorted(each.name for each in path.iterdir() if each.is_dir() and each.name[0] != ".")


def _files(folder: Path) -> Iterator[Path]:
    """All files below a folder, in an order of their own; links to folders are not followed."""
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != ".")
        yield from (Path(path, name) for name in sorted(names) if name[0] != ".")
