"""The tensors of a set of files: one file, those an index names, or a folder of either.

Where there is no index, several files may be named; together they hold each tensor once.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.support.limited_read import TooLongError, read_bytes
from meganeura_runtime.io.files.file_problems import NoSuchFile, UnreadableFile
from meganeura_runtime.io.tensors.quantized_tensors import read_weights
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor

FOLDER_FILES = ("model.safetensors.index.json", "model.safetensors", "weights.safetensors")
"""The files of a folder of weights, in the order of the search."""

LONGEST_INDEX = 32
"""Mebibytes of an index: of a few hundred thousand tensors."""

PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl")


def open_all(paths: Sequence[Path]) -> dict[str, StoredTensor]:
    """The tensors of several files, of which no two hold the same name; raises `ProblemError`."""
    tensors: dict[str, StoredTensor] = {}
    for path in paths:
        for name, tensor in open_weights(path).items():
            if name in tensors:
                reason = f"it holds `{name}`, and so does `{tensors[name].file}`"
                raise ProblemError(UnreadableFile(path, reason))
            tensors[name] = tensor
    return tensors


def open_weights(path: Path) -> dict[str, StoredTensor]:
    """All tensors of a weights file, of the files an index names, or of a folder of either."""
    if path.is_dir():
        found = next((path / name for name in FOLDER_FILES if (path / name).exists()), None)
        if found is None:
            raise ProblemError(NoSuchFile(path / FOLDER_FILES[1]))
        return open_weights(found)
    if path.suffix in PICKLES:
        reason = "it is a pickle, and reading one runs its code; save it as safetensors"
        raise ProblemError(UnreadableFile(path, reason))
    return _open_shards(path) if path.suffix == ".json" else read_weights(path)


def _open_shards(index: Path) -> dict[str, StoredTensor]:
    """The tensors an index promises, each from the file it names."""
    promised = _weight_map(index)
    shards = {name: read_weights(index.parent / name) for name in sorted(set(promised.values()))}
    held = [(name, shard) for shard, tensors in shards.items() for name in tensors]
    for name, shard in promised.items():
        if name not in shards[shard]:
            raise ProblemError(UnreadableFile(index, f"`{shard}` does not hold `{name}`"))
    for name, shard in held:
        if promised.get(name) != shard:
            raise ProblemError(UnreadableFile(index, f"`{shard}` holds `{name}` unannounced"))
    return {name: shards[shard][name] for name, shard in promised.items()}


def _weight_map(index: Path) -> dict[str, str]:
    """The file of each tensor, in the folder of the index."""
    try:
        content = cast("object", json.loads(read_bytes(index, LONGEST_INDEX)))
    except FileNotFoundError:
        raise ProblemError(NoSuchFile(index)) from None
    except TooLongError as error:
        raise ProblemError(UnreadableFile(index, str(error))) from None
    except OSError as error:
        raise ProblemError(UnreadableFile(index, error.strerror or str(error))) from None
    except (ValueError, RecursionError) as error:
        raise ProblemError(UnreadableFile(index, f"it is not JSON: {error}")) from None
    entries: object = None
    if isinstance(content, dict):
        entries = cast("dict[str, object]", content).get("weight_map")
    if not isinstance(entries, dict):
        raise ProblemError(UnreadableFile(index, "it has no `weight_map`"))
    files = cast("dict[str, object]", entries)
    safe = {name: file for name, file in files.items() if _is_file_name(file)}
    if len(safe) < len(files):
        reason = "its `weight_map` names something that is not a file beside it"
        raise ProblemError(UnreadableFile(index, reason))
    return cast("dict[str, str]", safe)


def _is_file_name(value: object) -> bool:
    """True if it is the name of a file in this folder: text, and no path."""
    if not isinstance(value, str) or value in ("", ".", "..") or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return Path(value).name == value
