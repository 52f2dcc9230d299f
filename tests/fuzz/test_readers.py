"""Whatever bytes a reader is given, it reads them or refuses them in words; `fuzz/` goes on."""

import gzip
import io
import json
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from fuzz.corpus import FOUND, corpus
from fuzz.mutants import mutant
from fuzz.readers import READERS
from meganeura.cli.reports.model_outputs import read_labels
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import OPS, Add, Input
from meganeura_dsl.ir.text import GraphTextError, parse_graph
from meganeura_dsl.ir.types import DType
from meganeura_dsl.ir.verify import GraphError, verify
from meganeura_dsl.support.disk_cache import DiskCache
from meganeura_dsl.syntax.parser.source_files import read_source
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.config.tuned_configs import (
    TunedConfigsError,
    TuningKey,
    read_tuned_configs,
)
from meganeura_runtime.backends.webgpu.plan import Plan, PlanError
from meganeura_runtime.io.data.idx_files import read_idx
from meganeura_runtime.io.data.numpy_files import read_npy, read_npz
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.preprocess.preprocessor_config import image_steps
from meganeura_runtime.io.tensors.safetensors_file import open_tensors
from meganeura_runtime.io.tensors.sharded_weights import open_weights
from tests.effort import effort

MUTANTS = {
    "program": effort(30, 20_000),
    "onnx": effort(60, 1_000_000),
    "qdq": effort(20, 300_000),
    "tokenizer": effort(5, 10_000),
}
"""Mutants of readers that are slow."""
MEBIBYTE = 1 << 20


@pytest.mark.parametrize("reader", READERS)
def test_whole_inputs(reader: str) -> None:
    for data in corpus(reader):
        READERS[reader](data)


@pytest.mark.parametrize("reader", READERS)
def test_damaged_inputs(reader: str) -> None:
    inputs = corpus(reader)
    for seed in range(MUTANTS.get(reader, effort(120, 100_000))):
        data = mutant(reader, seed, inputs)
        try:
            READERS[reader](data)
        except Exception as error:
            error.add_note(f"seed {seed}: {data[:1000]!r}")
            raise


def test_cases_once_found_belong_to_a_reader() -> None:
    assert {path.name for path in FOUND.glob("*")} <= {*READERS}


# --- hostile -------------------------------------------------------------------------------------


@contextmanager
def little_memory(most: int = 32 * MEBIBYTE) -> Iterator[None]:
    """Fails if the `with` block allocates more than this at any moment."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def safetensors(header: object, content: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


def npy(header: str, content: bytes = b"") -> bytes:
    text = f"{header:<{117 - len(header) % 64 + len(header)}}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


HUGE = 10**18
ENTRY = {"dtype": "F32", "shape": [HUGE], "data_offsets": [0, 4 * HUGE]}
SAFETENSORS = {
    "a tensor of 10**18 numbers": safetensors({"x": ENTRY}),
    "sizes whose product wraps": safetensors(
        {"x": {"dtype": "F32", "shape": [2**32, 2**32], "data_offsets": [0, 0]}}
    ),
    "a header of 2**63 bytes": (2**63).to_bytes(8, "little") + b"{}",
    "a header of many brackets": safetensors(b"[" * 100_000),
    "one name many times": safetensors(
        b"{"
        + b",".join(
            [b'"x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'] * effort(20_000, 100_000)
        )
        + b"}"
    ),
    "a negative size": safetensors({"x": {**ENTRY, "shape": [-1], "data_offsets": [0, 0]}}),
    "a size that is true": safetensors({"x": {**ENTRY, "shape": [True]}}),
    "a number with a million digits": safetensors(b'{"x":' + b"9" * 1_000_000 + b"}"),
}
NPY = {
    "10**18 numbers": npy("{'descr':'|u1','fortran_order':False,'shape':(1000000000000000000,)}"),
    "two negative sizes": npy("{'descr':'|u1','fortran_order':False,'shape':(-2,-4)}", bytes(8)),
    "a size that is true": npy("{'descr':'|u1','fortran_order':False,'shape':(True,8)}", bytes(8)),
    "brackets": npy("(" * 3000),
    "no end of a bracket": npy("{'descr':("),
    "a null byte": npy("{'descr':'\0'}"),
    "Python objects": npy("{'descr':'|O','fortran_order':False,'shape':(1,)}", bytes(8)),
    "a call": npy("__import__('os').abort()"),
}


@pytest.mark.parametrize("data", SAFETENSORS.values(), ids=SAFETENSORS)
def test_hostile_safetensors(tmp_path: Path, data: bytes) -> None:
    refuses(tmp_path / "x.safetensors", data, open_tensors)


@pytest.mark.parametrize("data", NPY.values(), ids=NPY)
def test_hostile_npy(tmp_path: Path, data: bytes) -> None:
    refuses(tmp_path / "x.npy", data, read_npy)


def refuses(path: Path, data: bytes, read: Callable[[Path], object]) -> None:
    path.write_bytes(data)
    with little_memory(64 * MEBIBYTE), pytest.raises(ProblemError) as caught:
        read(path)
    assert isinstance(caught.value.problem, UnreadableFile)
    assert len(caught.value.problem.reason) < 1000


def test_a_zip_bomb_is_refused_by_what_it_claims(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(MEBIBYTE))
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02") + 24
    data[at : at + 4] = (2**32 - 2).to_bytes(4, "little")
    refuses(path, bytes(data), read_npz)


def test_a_gzip_bomb_is_read_no_further_than_its_header_claims(tmp_path: Path) -> None:
    head = bytes([0, 0, 8, 1]) + (16).to_bytes(4, "big")
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as file:
        file.write(head + bytes(96 * MEBIBYTE))
    refuses(tmp_path / "x-idx1-ubyte.gz", packed.getvalue(), read_idx)


MANY = effort(10_000, 50_000)
"""Ten times what Python nests, and more."""
PROGRAMS = {
    "brackets": b"def f(x) = " + b"(" * MANY,
    "lists": b"def f(x) = " + b"[" * MANY,
    "nots": b"def f(x) = " + b"not " * MANY + b"x",
    "minuses": b"def f(x) = " + b"-" * MANY + b"x",
    "powers": b"def f(x) = 2 " + b"** 9 " * 1_000,
    "one long sum": b"def f(x) = 1" + b" + x" * MANY + b"\n",
    "one long name": b"def f(x) = " + b"x" * 900_000,
    "one long text": b'def f(x) = "' + b"x" * 900_000,
    "nested blocks": b"block f()(x: [n]):\n"
    + b"".join(b"  " * level + b"if true:\n" for level in range(1, 400)),
    "a power of a power": b"def f(x) = 9 ** 9 ** 9 ** 9\nblock g()(x: [n]) -> [n] = x * f(1)\n",
    "a loop of 10**18 iterations": b"block g()(x: [n]) -> [n]:\n"
    b"  for i in 0..1000000000000000000:\n    x = x + 1\n  return x\nmodel m = g()\n",
    "a list of 10**9 ones": b"block g()(x: [n]) -> [n]:\n  return x * len([1] * 1000000000)\n"
    b"model m = g()\n",
    "doubling": b"block g()(x: [n]) -> [n]:\n"
    + b"  x = x + x\n" * effort(500, 2_000)
    + b"  return x\n",
    "many parameters": b"block f("
    + b", ".join(b"a%d=1" % number for number in range(effort(300, 5_000)))
    + b")(x: [n]) -> [n]:\n  return x\n",
    "many settings": b"train f(x: [n]):\n  minimize mean(x)\n  run:\n"
    + b"".join(b"    a%d = 1\n" % number for number in range(effort(300, 5_000))),
    "models in a row": b"".join(
        b"model m%d = m%d()\n" % (i, i + 1) for i in range(effort(40, 150))
    ),
}


@pytest.mark.parametrize("data", PROGRAMS.values(), ids=PROGRAMS)
def test_hostile_programs(data: bytes) -> None:
    with little_memory(256 * MEBIBYTE):
        READERS["program"](data)


def test_of_a_file_of_a_gigabyte_only_the_beginning_is_read(tmp_path: Path) -> None:
    path = tmp_path / "long.mgn"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with little_memory(), pytest.raises(ProblemError, match="E01"):
        read_source(path)


def plan_and_choices(path: Path) -> None:
    """Reads both; raises an exception of their own, or reads none, where that is refused."""
    assert DiskCache(path.parent, most_bytes=MEBIBYTE).find("key") is None
    for read in (
        Plan.load,
        lambda path: read_tuned_configs(path, TuningKey("", ""), DeviceLimits()),
    ):
        with pytest.raises((PlanError, TunedConfigsError), match="more than"):
            read(path)
    raise ProblemError(UnreadableFile(path, "as promised"))


@pytest.mark.parametrize(
    ("name", "head", "read"),
    [
        ("x.safetensors", (10**9).to_bytes(8, "little") + b'{"a":"', open_tensors),
        ("x.safetensors.index.json", b'{"weight_map":"', open_weights),
        ("x.npy", b"\x93NUMPY\x02\x00" + (10**9).to_bytes(4, "little") + b"{", read_npy),
        ("x.npz", b"PK\x03\x04", read_npz),
        ("preprocessor_config.json", b'{"a":"', image_steps),
        ("labels.txt", b"cat", read_labels),
        ("key.entry", b"meganeura-entry", plan_and_choices),
    ],
)
def test_of_a_line_of_a_gigabyte_little_is_read(
    tmp_path: Path, name: str, head: bytes, read: Callable[[Path], object]
) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.write(head)
        file.truncate(1 << 30)
    with little_memory(), pytest.raises(ProblemError):
        read(path)


@pytest.mark.parametrize(
    "text",
    [
        '%0 = Iota(size=3) : i32[3]\n%1 = Add(%0) : i32[3]\noutput "y" = %1\n',
        '%0 = Iota(size=3) : i32[3]\n%1 = Sum(%0, axes=3) : i32[3]\noutput "y" = %1\n',
        "%0 = Iota(size=3//0) : i32[3]\n",
        '%0 = Input(name="x", dtype=f32, shape=[' + "(" * 5000 + "]) : f32[3]\n",
        '%0 = Input(name="x", dtype=f32, shape=[9 ** 999999999]) : f32[3]\n',
    ],
)  # fmt: skip
def test_hostile_graphs(text: str) -> None:
    with little_memory(), pytest.raises((GraphTextError, GraphError)):
        verify(parse_graph(text, OPS))


def test_a_graph_of_two_million_shared_reads_is_no_more_than_its_lines() -> None:
    build = Builder()
    value = build.add(Input("x", DType.F32, (2,)))
    for _ in range(300):
        value = build.add(Add(), value, value)
    verify(build.graph({"y": value}))
    assert np.float32(2) ** 0 == 1
