"""Locates data and opens its files by suffix."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from glob import escape, glob
from itertools import islice
from pathlib import Path

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.resources import standard_models
from meganeura_runtime.io.data.data_problems import NoData, OutsideFolder, UnknownFormat
from meganeura_runtime.io.data.idx_files import is_idx, read_idx
from meganeura_runtime.io.data.numpy_files import read_npy, read_npz
from meganeura_runtime.io.data.source_problems import UnlikeShards
from meganeura_runtime.io.files.file_problems import NoSuchFile, UnreadableFile
from meganeura_runtime.io.tensors.joined_array import joined
from meganeura_runtime.io.tensors.safetensors_file import open_tensors
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor


def embedded_data() -> dict[str, Path]:
    """The data sets that ship with the standard models, by name."""
    folder = Path(str(standard_models())) / "data"
    return {path.stem: path for path in sorted(folder.glob("*.safetensors"))}


def find_data(written: str, folder: Path, span: Span | None = None) -> Path:
    """The file, folder or glob a `data` setting means; a relative path starts at `folder`."""
    embedded = embedded_data()
    if written in embedded:
        return embedded[written]
    path = folder / written
    try:
        exists = path.exists() or (is_glob(written) and bool(shards(path)))
    except (OSError, ValueError):  # such as a name too long for any file
        exists = False
    if not exists:
        raise ProblemError(NoData(span, path, tuple(embedded), _names_in(path.parent)))
    return path


def _names_in(folder: Path) -> tuple[str, ...]:
    """The files and folders in a folder that can be read, up to 1,000, by name."""
    try:
        return tuple(sorted(each.name for each in islice(folder.iterdir(), 1000)))
    except (OSError, ValueError):
        return ()


def find_data_below(written: str, folder: Path, span: Span | None = None) -> Path:
    """Finds the file of a program, which must be below its folder. Raises `ProblemError`.

    A link that lies in the folder is followed, since whoever owns the folder has put it there.
    """
    path = Path(written)
    if path.is_absolute() or ".." in path.parts:
        raise ProblemError(OutsideFolder(span, path))
    return find_data(written, folder, span)


def is_glob(written: str) -> bool:
    """True if a text may stand for several files, such as `train-*.safetensors`."""
    return any(each in written for each in "*?[")


def shards(path: Path) -> tuple[Path, ...]:
    """The files that a path with a glob means, in the order of their names.

    As in a shell, a name that begins with a dot is meant by a pattern that does. A folder that is
    there is no pattern.
    """
    there = next(each for each in path.parents if each.exists())
    pattern = Path(escape(str(there)), path.relative_to(there))
    return tuple(sorted(map(Path, glob(str(pattern), recursive=True))))  # noqa: PTH207 - that of pathlib finds hidden files


def files_of(path: Path) -> tuple[Path, ...]:
    """Returns the files of a path: itself, or those of a glob."""
    return shards(path) if not path.exists() and is_glob(str(path)) else (path,)


def open_data(path: Path, span: Span | None = None) -> dict[str, StoredTensor]:
    """All tensors of a data file, by name; raises `ProblemError` where it cannot be read.

    A glob means shards: the tensors of a name are joined along the first axis, in the order of the
    names of the files.
    """
    if not path.exists() and is_glob(str(path)):
        files = shards(path)
        return join_shards(files, [open_data(file, span) for file in files], span)
    if not path.exists():
        raise ProblemError(NoSuchFile(path))
    if path.is_dir():
        return _folder(path)
    if is_idx(path):
        return _by_name([read_idx(path)])
    match path.suffix:
        case ".safetensors":
            return open_tensors(path, piecewise=True)[0]
        case ".npz":
            return _by_name(read_npz(path))
        case ".npy":
            return _by_name([read_npy(path)])
        case _:
            raise ProblemError(UnknownFormat(span, path))


def join_shards(
    files: Sequence[Path], opened: Sequence[Mapping[str, StoredTensor]], span: Span | None
) -> dict[str, StoredTensor]:
    """Files that hold tensors of the same names, types and sizes but the first, joined."""
    first = opened[0]
    for file, tensors in zip(files, opened, strict=True):
        for name in {**first, **tensors}:
            here, there = tensors.get(name), first.get(name)
            if here is None or there is None or not _is_alike(here, there):
                shown = ("" if here is None else str(here), "" if there is None else str(there))
                raise ProblemError(UnlikeShards(span, file, name, shown[0], files[0], shown[1]))
    return {
        name: replace(each, content=joined([tensors[name].content for tensors in opened], files))
        for name, each in first.items()
    }


def _is_alike(left: StoredTensor, right: StoredTensor) -> bool:
    return bool(left.shape) and (left.stored, left.shape[1:]) == (right.stored, right.shape[1:])


def is_tensor_file(path: Path) -> bool:
    """True if a file of a folder is one of its tensors; hidden ones are none."""
    if path.name.startswith("."):
        return False
    return path.suffix == ".npy" or is_idx(path)


def _folder(path: Path) -> dict[str, StoredTensor]:
    """All .npy and IDX files of a folder; raises `ProblemError` where two hold the same name."""
    tensors: dict[str, StoredTensor] = {}
    for each in sorted(path.iterdir()):
        if not is_tensor_file(each):
            continue
        tensor = read_npy(each) if each.suffix == ".npy" else read_idx(each)
        if tensor.name in tensors:
            reason = f"`{tensors[tensor.name].file.name}` holds `{tensor.name}` too"
            raise ProblemError(UnreadableFile(each, reason))
        tensors[tensor.name] = tensor
    return tensors


def _by_name(tensors: list[StoredTensor]) -> dict[str, StoredTensor]:
    return {tensor.name: tensor for tensor in tensors}
