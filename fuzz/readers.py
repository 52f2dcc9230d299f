"""Everything that reads bytes from outside, each as a function that any bytes may be given to.

A reader may refuse what it is given, in the way it promises; whatever else escapes is a mistake.
It returns what became of the bytes: `READ`, or how they were refused.
"""

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError, Sink
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.elaborate.declarations.written_settings import WrittenSetting
from meganeura_dsl.ir.ops import OPS
from meganeura_dsl.ir.text import GraphTextError, format_graph, parse_graph
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.ir.verify import GraphError, verify
from meganeura_dsl.settings.resolve_settings import resolve_settings
from meganeura_dsl.settings.setting_values import with_overrides
from meganeura_dsl.support.disk_cache import DiskCache
from meganeura_dsl.symbolic.size import dim
from meganeura_dsl.syntax.formatter.formatter import find_comments, format_module
from meganeura_dsl.syntax.parser.parser import parse
from meganeura_dsl.syntax.parser.source_files import decode
from meganeura_runtime.backends.compile_cache import rewritten
from meganeura_runtime.backends.registry import DEVICE_NAMES
from meganeura_runtime.backends.webgpu.plan import Plan, PlanError
from meganeura_runtime.export.mgb.container import KEY as HEADER
from meganeura_runtime.export.mgb.container import Artefact
from meganeura_runtime.importing.gguf.gguf_file import read_gguf
from meganeura_runtime.importing.gguf.importing import read_model
from meganeura_runtime.importing.onnx.importing import import_onnx
from meganeura_runtime.importing.onnx.onnx_file import read_onnx
from meganeura_runtime.io.checkpoint import read_checkpoint
from meganeura_runtime.io.data.dataset import InputSpec
from meganeura_runtime.io.data.idx_files import read_idx
from meganeura_runtime.io.data.numpy_files import read_npy, read_npz
from meganeura_runtime.io.data.tables import read_table
from meganeura_runtime.io.data.texts import read_text
from meganeura_runtime.io.preprocess.audio import read_sound
from meganeura_runtime.io.preprocess.images import Filter, ImageSteps, read_image
from meganeura_runtime.io.preprocess.preprocessor_config import image_steps
from meganeura_runtime.io.preprocess.tokens import FileTokenizer
from meganeura_runtime.io.tensors.safetensors_file import open_tensors, write_tensors
from meganeura_runtime.io.tensors.sharded_weights import open_weights
from meganeura_runtime.io.tensors.stored_tensor import read
from meganeura_runtime.train.report.run_description import read_description
from meganeura_runtime.train.report.run_records import RunRecords

Reader = Callable[[bytes], str]
READ, REFUSED = "read", "refused"

MEMORY = Path("/dev/shm")  # noqa: S108 - only where the folder below is made, if it is there
FOLDER = tempfile.TemporaryDirectory(
    prefix="meganeura-fuzz-", dir=MEMORY if MEMORY.is_dir() else None
)
PLACE = Span(Source("fuzz.mgn", "data"), 0, 4)
SETTINGS = {"data": WrittenSetting("digits", PLACE), "batch": WrittenSetting(4, PLACE)}


def read_program(data: bytes) -> str:
    """A program: read, checked, its messages drawn, and formatted if it can be."""
    try:
        source = decode(data, "fuzz.mgn")
        result = pipeline.check(source, lambda _: None)
    except ProblemError as error:
        render(error.problem.report(), colour=False)
        return error.problem.code
    for report in result.reports:
        render(report, colour=False)
    sink = Sink()
    tree = parse(source, sink)
    if sink.has_errors:
        return REFUSED
    format_module(tree, find_comments(source))
    return READ


def read_graph(data: bytes) -> str:
    """A graph as text: read, verified, and written again."""
    try:
        graph = parse_graph(data.decode(errors="replace"), OPS)
        format_graph(graph)
        verify(graph)
    except (GraphTextError, GraphError):
        return REFUSED
    return READ


def read_override(data: bytes) -> str:
    """An override of a setting, from the command line."""
    try:
        written = with_overrides(SETTINGS, [data.decode(errors="replace")])
        resolve_settings(written, (), ("batch",), DEVICE_NAMES)
    except ProblemError as error:
        render(error.problem.report(), colour=False)
        return error.problem.code
    except ProblemsError as error:
        for problem in error.problems:
            render(problem.report(), colour=False)
        return REFUSED
    return READ


def _file(name: str, read: Callable[[Path], object]) -> Reader:
    """A reader of files, given the content of one."""

    def from_bytes(data: bytes) -> str:
        path = Path(FOLDER.name) / str(os.getpid()) / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        try:
            read(path)
        except ProblemError as error:
            render(error.problem.report(), colour=False)
            return error.problem.code
        return READ

    return from_bytes


def _plan(path: Path) -> None:
    try:
        str(Plan.load(path))
    except PlanError:
        return


KEPT = DiskCache(Path(FOLDER.name))
BEFORE = parse_graph('%0 = Input(name="x", dtype=f32, shape=[2]) : f32[2]\n', OPS)


def read_entry(data: bytes) -> str:
    """An entry of the cache: first the file of one, then what a file that is whole could hold."""
    key = f"key{os.getpid()}"
    (KEPT.folder / f"{key}.entry").write_bytes(data)
    KEPT.find(key)
    rewritten(data, BEFORE)
    try:
        Plan.from_json(data)
    except PlanError:
        return REFUSED
    return READ


def read_onnx_model(data: bytes) -> str:
    """A model of ONNX: read, proved, compared with ONNX Runtime, and written as a program."""
    path = Path(FOLDER.name) / f"{os.getpid()}.onnx"
    path.write_bytes(data)
    try:
        import_onnx(path, path.with_suffix(".mgn"))
    except ProblemError as error:
        render(error.problem.report(), colour=False)
        return f"{error.problem.code}, {'the graph' if _is_graph(path) else 'the file'}"
    return READ


def _gguf(path: Path) -> None:
    """A GGUF file: its model and all of its values, of which the program follows."""
    read_model(read_gguf(path))


def _picture(path: Path) -> None:
    read_image(path, 3, ImageSteps(None, None, Filter.BILINEAR, 1 / 255, (0.0,), (1.0,)))


def _tokenizer(path: Path) -> None:
    """A tokenizer: loaded, given a text, and asked for the text of its tokens."""
    tokenizer = FileTokenizer(path)
    stream = tokenizer.stream()
    for token in tokenizer.encode("a" * 40 + "c")[:4]:
        stream.add(token)


ROWS = TensorType(DType.F32, (dim("n"), 2))
LABELS = TensorType(DType.I32, (dim("n"),))
TABLE = InputSpec({"x": ROWS, "label": LABELS}, {"n": 2})
SEQUENCES = InputSpec({"ids": TensorType(DType.I32, (dim("n"), 4))}, {"n": 2})


def _table(path: Path) -> None:
    """A table whose columns `a` and `b` are features, and whose column `label` is a class."""
    read_table(path, TABLE, {"x": ("a", "b")}, PLACE)


def _text(path: Path) -> None:
    """A text as sequences of four bytes."""
    for tensor in read_text(path, SEQUENCES, None, PLACE).values():
        read(tensor, DType.I32)


def _sound(path: Path) -> None:
    """A sound of at most 100 ms as a spectrogram of 4 mels."""
    read_sound(path, 4, 10)


def read_artefact(data: bytes) -> str:
    """A compiled model of one parameter whose checksums are right, given its header."""
    path = Path(FOLDER.name) / f"{os.getpid()}.mgb"
    write_tensors(
        path,
        {"fc.weight": np.ones((2, 3), np.float32)},
        {HEADER: data.decode(errors="replace")},
    )
    try:
        Artefact.read(path)
    except ProblemError as error:
        render(error.problem.report(), colour=False)
        return error.problem.code
    return READ


def _records(path: Path) -> None:
    """The records of a run, read again after it went on."""
    records = RunRecords(path)
    records.read()
    records.read()


def _is_graph(path: Path) -> bool:
    """True if a file is a model whose graph can be looked at."""
    try:
        read_onnx(path)
    except ProblemError:
        return False
    return True


READERS: Mapping[str, Reader] = {
    "program": read_program,
    "graph": read_graph,
    "override": read_override,
    "safetensors": _file("fuzz.safetensors", open_tensors),
    "index": _file("fuzz.safetensors.index.json", open_weights),
    "checkpoint": _file("checkpoint.safetensors", read_checkpoint),
    "npy": _file("fuzz.npy", read_npy),
    "npz": _file("fuzz.npz", read_npz),
    "plan": _file("plan.json", _plan),
    "idx": _file("train-images-idx3-ubyte", read_idx),
    "entry": read_entry,
    "idx-gz": _file("train-images-idx3-ubyte.gz", read_idx),
    "onnx": read_onnx_model,
    "qdq": read_onnx_model,
    "gguf": _file("fuzz.gguf", _gguf),
    "picture": _file("fuzz.png", _picture),
    "preprocessor": _file("preprocessor_config.json", image_steps),
    "tokenizer": _file("tokenizer.json", _tokenizer),
    "wav": _file("fuzz.wav", _sound),
    "flac": _file("fuzz.flac", _sound),
    "csv": _file("fuzz.csv", _table),
    "parquet": _file("fuzz.parquet", _table),
    "text": _file("fuzz.txt", _text),
    "artefact": read_artefact,
    "run": _file("run.json", read_description),
    "records": _file("metrics.jsonl", _records),
}
"""Every reader, by name."""
