"""Results of reading small files of each format, whole, damaged and strange, in a line each.

`read_files.txt` has of each file what its tensors are, a checksum of their values and, of files
that stand for a type, which types of a graph hold them; or why the file is refused. Words that are
those of a library are left out.

`python -m tests.runtime.io.data.read_files` writes the file anew; read the difference before you
keep it.
"""

import gzip
import json
import zipfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.types import DType
from meganeura_runtime.io.data.data_files import open_data
from meganeura_runtime.io.data.numpy_files import LONGEST_HEADER
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor, read_verified

SAFETENSORS = ".safetensors"
FILE = Path(__file__).with_suffix(".txt")
NUMBERS = np.array([[0, 1, 2], [3, 1, 0]])
SIZES = ((), (3,), (2, 3), (2, 1, 3), (0, 3), (3, 0), (1, 1))
TYPES = (
    "<f8", "<f4", ">f4", "<f2", "<i8", ">i4", "<i2", "|i1", "<u8", "<u4", ">u2", "|u1", "|b1",
    "<c8", "<M8[s]", "|S2", "<U2", "|O",
)  # fmt: skip
EXTREMES: Mapping[str, list[float]] = {
    "<f8": [0.1, 1e39, 1e-50], "<f4": [70000, float("nan")], "<f2": [1, float("inf")],
    "<i8": [-(1 << 31), 1 << 31], "<i4": [0, -1], "<u4": [1 << 31, (1 << 32) - 1],
    "<u8": [1 << 32], "|u1": [0, 1, 2], "|i1": [0, -1], "<i2": [1, 0],
}  # fmt: skip
"""Values that some types of a graph cannot hold."""
IDX = {8: "|u1", 9: "|i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
NAMES = (
    "train-images-idx3-ubyte", "t10k-labels-idx1-ubyte.gz", "train-labels.idx1-ubyte", "a.idx",
    "t10k-images.idx3-ubyte.gz", "b-idx2-ubyte", "emnist-letters-train-images-idx3-ubyte",
)  # fmt: skip


def files() -> Iterator[tuple[str, bytes]]:
    """Names and contents."""
    yield from _npy()
    yield from _npz()
    yield from _idx()
    yield from _safetensors()
    yield "x.csv", b"a,b\n1,2\n"
    yield "x.bin", b"abc"


def _array(shape: tuple[int, ...], dtype: str) -> np.ndarray:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType] - of any type
    return np.resize(NUMBERS, shape).astype(dtype)


def _saved(array: object, version: tuple[int, int] = (1, 0)) -> bytes:
    file = BytesIO()
    np.lib.format.write_array(file, np.asanyarray(array), version=version)
    return file.getvalue()


def _headed(header: str, values: bytes = bytes(24), version: int = 1) -> bytes:
    length = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode("latin1") + values


def _npy() -> Iterator[tuple[str, bytes]]:
    for number, dtype in enumerate(TYPES):
        yield f"{number}-{dtype.strip('<>|')}.npy", _saved(_array((2, 3), dtype))
    for dtype, values in EXTREMES.items():
        yield f"extreme-{dtype.strip('<>|')}.npy", _saved(np.array(values, dtype))
    for shape in SIZES:
        for order in ("C", "F"):
            array = np.asarray(_array(shape, "<f4"), order=order)
            yield f"{order}-{'x'.join(map(str, shape))}.npy", _saved(array)
    yield "of[1].npy", _saved(_array((3,), "<f4"))
    for version in ((1, 0), (2, 0), (3, 0)):
        yield f"version-{version[0]}.npy", _saved(_array((2, 3), "<f4"), version)
    whole = _saved(_array((2, 3), "<f4"))
    for length in (0, 4, 6, 7, 8, 9, 10, 40, len(whole) - 4, len(whole) - 1):
        yield f"first-{length}.npy", whole[:length]
    yield "longer.npy", whole + b"\0"
    described = "{'descr': '<f4', 'fortran_order': False, 'shape': %s}"
    for shape in ("(6,)", "(2, 3)", "(-6,)", "(True, 6)", "(6.0,)", "6", "()", "(1 << 62,)",
                  "(4611686018427387904, 4)", "(2, 3", "(0, -1)"):  # fmt: skip
        yield f"shape-{shape[:9]}.npy", _headed(described % shape)
    of_columns = described.replace("False", "True")
    for shape, size in (("()", 4), ("(6,)", 24), ("(2, 3)", 24)):
        yield f"columns-{shape}.npy", _headed(of_columns % shape, bytes(range(size)))
    for length in (LONGEST_HEADER, LONGEST_HEADER + 1):
        yield f"header-of-{length}.npy", _headed((described % "(6,)").ljust(length), version=2)
    yield "no-order.npy", _headed("{'descr': '<f4', 'shape': (6,)}")
    yield "no-dict.npy", _headed("[1]")
    yield (
        "long-header.npy",
        _headed("{" + " " * 70, version=2)[:8] + (1 << 30).to_bytes(4, "little"),
    )


def _zipped(members: Mapping[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w", how) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, how)
    return file.getvalue()


def _npz() -> Iterator[tuple[str, bytes]]:
    two = {"a.npy": _saved(_array((2, 3), "<f4")), "b.npy": _saved(_array((3,), ">i4"))}
    columns = {"a.npy": _saved(np.asarray(_array((2, 3), "<f4"), order="F"))}
    yield "stored.npz", _zipped(two)
    yield "deflated.npz", _zipped(two, zipfile.ZIP_DEFLATED)
    yield "columns.npz", _zipped(columns)
    yield "others.npz", _zipped({**two, "c.txt": b"text", "d/e.npy": two["a.npy"]})
    yield "none.npz", _zipped({})
    yield "wrong.npz", _zipped({"a.npy": b"text"})
    yield "cut.npz", _zipped(two)[:200]
    damaged = bytearray(_zipped(two))
    damaged[140] ^= 1
    yield "damaged.npz", bytes(damaged)
    yield "text.npz", b"text"


def _of_idx(code: int, shape: tuple[int, ...], values: bytes) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in shape)
    return bytes([0, 0, code, len(shape)]) + sizes + values


def _idx() -> Iterator[tuple[str, bytes]]:
    for code, dtype in IDX.items():
        yield f"{code}.idx", _of_idx(code, (2, 3), _array((2, 3), dtype).tobytes())
    for shape in SIZES[1:]:
        yield f"{'x'.join(map(str, shape))}.idx", _of_idx(8, shape, _array(shape, "|u1").tobytes())
    whole = _of_idx(12, (2, 3), _array((2, 3), ">i4").tobytes())
    for length in (0, 3, 4, 8, 11, 12, len(whole) - 1):
        yield f"first-{length}.idx", whole[:length]
        yield f"first-{length}.idx.gz", gzip.compress(whole[:length], mtime=0)
    yield "longer.idx", whole + b"\0"
    yield "longer.idx.gz", gzip.compress(whole + b"\0", mtime=0)
    yield "cut.idx.gz", gzip.compress(whole, mtime=0)[:-9]
    yield "text.idx.gz", b"text"
    packed = bytearray(gzip.compress(whole, mtime=0))
    packed[12] ^= 0xFF
    yield "damaged.idx.gz", bytes(packed)
    yield "scalar.idx", _of_idx(8, (), b"\1")
    yield "code.idx", _of_idx(10, (2,), b"ab")
    yield "large.idx.gz", gzip.compress(_of_idx(8, (1 << 31, 9), b""), mtime=0)
    yield "magic.idx", b"\1" + whole[1:]
    for name in NAMES:
        content = _of_idx(8, (2, 3), bytes(6))
        yield name, gzip.compress(content, mtime=0) if name.endswith(".gz") else content


def _tensors(header: object, values: bytes = bytes(24)) -> bytes:
    text = header if isinstance(header, str) else json.dumps(header)
    return len(text.encode()).to_bytes(8, "little") + text.encode() + values


def _entry(dtype: object = "F32", shape: object = (2, 3), offsets: object = (0, 24)) -> object:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def _safetensors() -> Iterator[tuple[str, bytes]]:
    for dtype, width in (("F64", 8), ("F32", 4), ("F16", 2), ("BF16", 2), ("I64", 8), ("I32", 4),
                         ("I16", 2), ("I8", 1), ("U64", 8), ("U32", 4), ("U16", 2), ("U8", 1),
                         ("BOOL", 1), ("F8_E4M3", 1), ("f32", 4), (None, 4)):  # fmt: skip
        values = bytes([0, 1] * (3 * width))
        entry = _entry(dtype, (6,), (0, 6 * width))
        yield f"{dtype}.safetensors", _tensors({"x": entry}, values)
    headers: dict[str, object] = {
        "two": {"x": _entry("I8", (4,), (0, 4)), "y": _entry("F32", (5,), (4, 24))},
        "turned": {"x": _entry("F32", (5,), (4, 24)), "y": _entry("I8", (4,), (0, 4))},
        "overlap": {"x": _entry("F32", (5,), (0, 20)), "y": _entry("F32", (2,), (16, 24))},
        "gap": {"x": _entry("F32", (2,), (0, 8)), "y": _entry("F32", (2,), (16, 24))},
        "beyond": {"x": _entry("F32", (7,), (0, 28))},
        "short": {"x": _entry("F32", (5,), (0, 20))},
        "shape": {"x": _entry("F32", (2, 4))},
        "turned offsets": {"x": _entry("F32", (2, 3), (24, 0))},
        "negative": {"x": _entry("F32", (-2, -3))},
        "negative offset": {"x": _entry("F32", (6,), (-24, 0))},
        "real": {"x": _entry("F32", (6.0,))},
        "true": {"x": _entry("F32", (True, 6))},
        "three": {"x": _entry("F32", (2, 3), (0, 12, 24))},
        "scalar": {"x": _entry("F64", (), (0, 8)), "y": _entry("U64", (2,), (8, 24))},
        "empty": {"x": _entry("F32", (0, 3), (0, 0)), "y": _entry()},
        "no shape": {"x": {"dtype": "F32", "data_offsets": [0, 24]}},
        "more": {"x": {**dict.fromkeys(("dtype", "shape", "data_offsets", "more"), 1)}},
        "metadata": {"__metadata__": {"a": "b"}, "x": _entry()},
        "metadata of numbers": {"__metadata__": {"a": 1}, "x": _entry()},
        "metadata in a list": {"__metadata__": [], "x": _entry()},
        "list": [],
        "number": {"x": 1},
        "nothing": {},
        "text": "{",
        "twice": '{"x": %s, "x": %s}' % ((json.dumps(_entry()),) * 2),
        "digits": '{"x": {"dtype": "F32", "shape": [%s], "data_offsets": [0, 24]}}' % ("9" * 21),
        "nested": "[" * 100_000,
        "dense": '{"x": %s}' % ("[" * 40_000 + "]" * 40_000),
    }
    for name, header in headers.items():
        yield f"{name}.safetensors", _tensors(header)
    whole = _tensors({"x": _entry()})
    for length in (0, 7, 8, 20, len(whole) - 1):
        yield f"first-{length}.safetensors", whole[:length]
    yield "longer.safetensors", whole + b"\0"
    yield "long.safetensors", (1 << 40).to_bytes(8, "little") + whole


def described() -> Iterator[str]:
    """All lines of the file."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in files():
            (folder / file).write_bytes(content)
            yield f"{file}: {_read(folder, file)}"


def _read(folder: Path, file: str) -> str:
    try:
        tensors = open_data(folder / file)
        found = [f"{name}: {_shown(tensor)}" for name, tensor in sorted(tensors.items())]
    except ProblemError as error:
        return _own(error, folder, file)
    return "; ".join(found) or "nothing"


def _shown(tensor: StoredTensor) -> str:
    values = np.ascontiguousarray(tensor.bits)
    held = [_held(tensor, each) for each in DType if each.is_float or not tensor.is_float]
    return f"{tensor} {crc32(values.tobytes()):08x}, {', '.join(held)}"


def _held(tensor: StoredTensor, dtype: DType) -> str:
    try:
        values = read_verified(tensor, dtype)
    except ProblemError as error:
        return f"no {dtype.value}: {error.problem.report().headline.partition(' holds ')[2]}"
    return f"{dtype.value} {crc32(np.ascontiguousarray(values).tobytes()):08x}"


def _own(error: ProblemError, folder: Path, file: str) -> str:
    """The words of a problem, without those of a library."""
    match error.problem:
        case UnreadableFile(reason=reason):
            first, colon, _ = reason.partition("damaged: ")
            is_own = first.startswith(("it ", "its ", "the "))
            return first + colon if is_own or file.endswith(SAFETENSORS) else "unreadable"
        case problem:
            return problem.report().headline.replace(f"{folder}/", "")


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
