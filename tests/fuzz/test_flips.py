"""One bit of a file is flipped: the file is refused, or read as if nothing had happened.

That holds for what we write, which has checksums. The formats of others protect less; there, what
is read is at least what the file now says, in the shape and size that fit its content.
"""

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pytest
from safetensors.numpy import save_file

from fuzz.corpus import corpus
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.ops import Input, MatMul, Parameter, Tanh
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.types import DType
from meganeura_dsl.support.disk_cache import DiskCache
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.plan import Plan, PlanError
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.export.mgb import Artefact
from meganeura_runtime.io.checkpoint import read_checkpoint, write_checkpoint
from meganeura_runtime.io.data.data_files import open_data
from meganeura_runtime.io.tensors.safetensors_file import open_tensors, write_tensors
from meganeura_runtime.io.tensors.sharded_weights import open_weights
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor
from tests.effort import effort
from tests.runtime.io.test_checkpoint import PROGRESS

FLIPS = effort(60, 5_000)

ARRAYS = {
    "fc.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "fc.bias": np.ones(3, np.float16),
    "steps": np.array(7, np.int64),
    "mask": np.array([True, False]),
    "none": np.zeros((0, 2), np.float32),
}


def graph() -> Graph:
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 3)))
    weight = build.add(Parameter("fc.weight", DType.F32, (3, 4), "param"))
    return build.graph({"y": build.add(Tanh(), build.add(MatMul(), x, weight))})


def told(tensors: dict[str, StoredTensor]) -> dict[str, tuple[str, bytes]]:
    return {name: (str(each), each.bits.tobytes()) for name, each in tensors.items()}


# --- what we write -------------------------------------------------------------------------------


def write_weights(path: Path) -> None:
    write_tensors(path, ARRAYS, {"format": "pt", "train": "fit", "step": "12"})


def write_artefact(path: Path) -> None:
    plan = plan_graph(graph(), DeviceLimits())
    Artefact("net", graph(), plan, {"fc.weight": ARRAYS["fc.weight"]}).write(path)


def write_entry(path: Path) -> None:
    DiskCache(path.parent).store(path.stem, b"what was compiled " * 9)


def read_weights(path: Path) -> object:
    tensors, metadata = open_tensors(path)
    return told(tensors), metadata


def read_run(path: Path) -> object:
    tensors, progress = read_checkpoint(path)
    return told(tensors), progress


def read_artefact(path: Path) -> object:
    found = Artefact.read(path)
    values = {name: array.tobytes() for name, array in found.values.items()}
    return found.model, format_graph(found.graph), found.plan, values, found.trusted


def read_entry(path: Path) -> object:
    content = DiskCache(path.parent).find(path.stem)
    if content is None:
        raise PlanError("it is as good as absent")
    return content


@dataclass(frozen=True)
class Kind:
    """A file that can be written, and what somebody would use of it."""

    name: str
    write: Callable[[Path], object]
    read: Callable[[Path], object]


OURS = {
    "weights": Kind("weights.safetensors", write_weights, read_weights),
    "checkpoint": Kind(
        "checkpoint.safetensors", lambda path: write_checkpoint(path, ARRAYS, PROGRESS), read_run
    ),
    "compiled model": Kind("model.mgb", write_artefact, read_artefact),
    "plan": Kind(
        "plan.json", lambda path: plan_graph(graph(), DeviceLimits()).save(path), Plan.load
    ),
    "entry of the cache": Kind("key.entry", write_entry, read_entry),
}


# --- what others write ---------------------------------------------------------------------------


def write_index(path: Path) -> None:
    save_file(ARRAYS, path.with_name("a.safetensors"))
    index = {"metadata": {}, "weight_map": dict.fromkeys(ARRAYS, "a.safetensors")}
    path.write_text(json.dumps(index))


def write_npz(path: Path) -> None:
    path.write_bytes(corpus("npz")[1])


def packed(method: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        content = io.BytesIO()
        np.save(content, ARRAYS["fc.weight"])
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("x.npy", content.getvalue())

    return write


def read_data(path: Path) -> dict[str, tuple[str, bytes]]:
    return told(open_data(path))


PROTECTED = {
    "index": Kind(
        "model.safetensors.index.json", write_index, lambda path: told(open_weights(path))
    ),
    "npz": Kind("x.npz", write_npz, read_data),
    "npz, bzip2": Kind("x.npz", packed(zipfile.ZIP_BZIP2), read_data),
    "npz, LZMA": Kind("x.npz", packed(zipfile.ZIP_LZMA), read_data),
    "idx, gzip": Kind(
        "train-images-idx3-ubyte.gz", lambda path: path.write_bytes(corpus("idx-gz")[0]), read_data
    ),
}
"""Those whose format has checksums, or whose content is checked against another file."""

UNPROTECTED = {
    "npy": Kind("x.npy", lambda path: path.write_bytes(corpus("npy")[0]), read_data),
    "idx": Kind("x-idx3-ubyte", lambda path: path.write_bytes(corpus("idx")[0]), read_data),
    "safetensors": Kind("x.safetensors", lambda path: save_file(ARRAYS, path), read_data),
}


def flipped(kind: Kind, folder: Path) -> list[tuple[object, str]]:
    """Returns the results of reading after each flip that was not refused, and its place."""
    path = folder / kind.name
    kind.write(path)
    whole, random = path.read_bytes(), Random(len(path.name))
    places = range(8 * len(whole))
    chosen = places if len(places) <= FLIPS else random.sample(places, FLIPS)
    found: list[tuple[object, str]] = []
    for place in chosen:
        content = bytearray(whole)
        content[place // 8] ^= 1 << place % 8
        path.write_bytes(content)
        try:
            found.append((kind.read(path), f"bit {place % 8} of byte {place // 8}"))
        except ProblemError as error:
            render(error.problem.report(), colour=False)
        except PlanError:
            pass
    path.write_bytes(whole)
    return found


@pytest.mark.parametrize("name", OURS)
def test_a_flipped_bit_of_our_files_is_never_used(tmp_path: Path, name: str) -> None:
    kind = OURS[name]
    found = flipped(kind, tmp_path)
    whole = kind.read(tmp_path / kind.name)
    assert [place for read, place in found if read != whole] == []
    assert len(found) <= FLIPS // 10  # what says nothing, such as the case of a digit, is rare


@pytest.mark.parametrize("name", PROTECTED)
def test_a_flipped_bit_of_protected_files_changes_no_value(tmp_path: Path, name: str) -> None:
    kind = PROTECTED[name]
    found = flipped(kind, tmp_path)
    whole = kind.read(tmp_path / kind.name)
    assert isinstance(whole, dict)
    for read, place in found:
        assert isinstance(read, dict)
        changed = {each for each in read if read[each] != whole.get(each)}
        assert not changed, f"{place}: {changed}"


@pytest.mark.parametrize("name", UNPROTECTED)
def test_a_flipped_bit_of_other_files_ends_in_no_other_way(tmp_path: Path, name: str) -> None:
    """One that is read has as many bytes as before, whatever they are said to be."""
    kind = UNPROTECTED[name]
    found = flipped(kind, tmp_path)
    whole = sum(len(content) for _, content in read_data(tmp_path / kind.name).values())
    for read, place in found:
        assert isinstance(read, dict)
        assert sum(len(content) for _, content in read.values()) == whole, place
