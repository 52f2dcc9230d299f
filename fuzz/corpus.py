"""The corpus of fuzzing: small valid inputs of every reader, made afresh, and all cases found.

Cases that once failed lie in `tests/fuzz/found/READER/`; they are inputs like the others.
"""

import gzip
import io
import json
import struct
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import soundfile
from PIL import Image
from pyarrow import parquet
from safetensors.numpy import save

from fuzz.gguf_models import gguf_models
from fuzz.onnx_models import onnx_models
from fuzz.quantized_models import quantized_models
from meganeura_dsl import pipeline
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import Input, MatMul, Parameter, Sum, Tanh
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.types import DType
from meganeura_dsl.resources import standard_models
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.support.disk_cache import DiskCache
from meganeura_dsl.transforms.optimizers.optimizers import Adam
from meganeura_dsl.transforms.optimizers.schedules import Constant
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.export.mgb.compile import portable_plan
from meganeura_runtime.export.mgb.container import KEY as HEADER
from meganeura_runtime.export.mgb.container import Artefact
from meganeura_runtime.io.checkpoint import KEY, Progress
from meganeura_runtime.io.preprocess import images
from meganeura_runtime.io.tensors.safetensors_file import open_tensors
from meganeura_runtime.train.report.run_description import DescribedTensor, RunDescription

FOUND = Path(__file__).resolve().parents[1] / "tests" / "fuzz" / "found"

ARRAYS = {
    "x": np.arange(6, dtype=np.float32).reshape(2, 3),
    "ids": np.array([1, 2], np.int32),
    "half": np.ones((1, 2), np.float16),
}


NODES = {"onnx": ("",), "qdq": ("quantize", "qlinear", "integer")}
"""Parts of the names of node cases that fuzzing also starts from."""


def corpus(reader: str) -> list[bytes]:
    """The inputs of a reader to start from."""
    found = sorted((FOUND / reader).glob("*")) if (FOUND / reader).is_dir() else []
    return [*_valid(reader), *(path.read_bytes() for path in found)]


def fuzzing_corpus(reader: str) -> list[bytes]:
    """The inputs that fuzzing starts from: also those that are too many for the suite."""
    if reader not in NODES:
        return corpus(reader)
    from fuzz.onnx_node_cases import node_models

    return [*corpus(reader), *(each for part in NODES[reader] for each in node_models(part))]


@cache
def _valid(reader: str) -> tuple[bytes, ...]:
    match reader:
        case "program":
            return _programs()
        case "graph":
            return _graphs()
        case "override":
            return (
                b"batch=32", b"optimizer=adam(lr=1e-3, beta1=0.9)", b"optimizer.lr=0.5",
                b"data=points.safetensors", b"schedule=cosine(warmup=10)", b"shuffle=false",
            )  # fmt: skip
        case "onnx":
            return tuple(each.SerializeToString() for each in onnx_models())
        case "qdq":
            return tuple(each.SerializeToString() for each in quantized_models())
        case "gguf":
            return gguf_models()
        case "safetensors":
            return (save(ARRAYS), save(ARRAYS, {"format": "pt"}), save({}))
        case "index":
            index = {"metadata": {}, "weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}
            return (json.dumps(index).encode(),)
        case "checkpoint":
            return (_checkpoint(),)
        case "npy":
            return tuple(_npy(array) for array in ARRAYS.values())
        case "npz":
            return _npz()
        case "plan":
            return (_plan(),)
        case "entry":
            return _entries()
        case "idx":
            return (_idx(),)
        case "idx-gz":
            return (gzip.compress(_idx(), mtime=0),)
        case "picture":
            return _pictures()
        case "preprocessor":
            config = {"do_resize": True, "size": {"shortest_edge": 8}, "image_mean": [0.5] * 3}
            return (json.dumps(config).encode(),)
        case "tokenizer":
            return _tokenizers()
        case "wav" | "flac":
            return _sounds(reader)
        case "csv":
            return (
                b"a,b,label\n1,2.5,0\n-3,4e2,1\n", b'"a","b",label,c\n1,2,3,"x,y"\n',
                b"a,b,label\n1,,0\n", b"label,a,b\n",
            )  # fmt: skip
        case "parquet":
            return (_parquet(),)
        case "text":
            return (b"a line\nand another one\n", "\N{GREEK SMALL LETTER ALPHA}\r\n".encode() * 3)
        case "artefact":
            return (_artefact(),)
        case "run":
            return (_run(),)
        case "records":
            return (_records(),)
        case _:
            raise KeyError(reader)


def _pictures() -> tuple[bytes, ...]:
    """One of each format, and PostScript, which is none of them."""
    found = [b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n(x) (w) file\nshowpage\n"]
    colours = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)
    for kind in images.FORMATS:
        file = io.BytesIO()
        Image.fromarray(colours).save(file, kind)
        found.append(file.getvalue())
    return tuple(found)


def _tokenizers() -> tuple[bytes, ...]:
    """One of three letters; that pads, makes much of little, or backtracks."""
    plain: dict[str, object] = {
        "version": "1.0", "added_tokens": [],
        "model": {"type": "BPE", "vocab": {"a": 0, "c": 1, "aa": 2}, "merges": [["a", "a"]]},
    }  # fmt: skip
    padding = {
        "strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
        "pad_type_id": 0, "pad_token": "a",
    }  # fmt: skip
    growth = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1_000}
    split = {"type": "Split", "behavior": "Isolated", "invert": False}
    changes: tuple[dict[str, object], ...] = (
        {},
        {"padding": padding},
        {"normalizer": growth, "decoder": growth},
        {"pre_tokenizer": {**split, "pattern": {"Regex": "(a+)+$"}}},
    )
    return tuple(json.dumps({**plain, **each}).encode() for each in changes)


def _sounds(kind: str) -> tuple[bytes, ...]:
    """50 ms of two channels at two rates."""
    found: list[bytes] = []
    for rate in (16_000, 8_000):
        file = io.BytesIO()
        wave = np.sin(np.arange(rate // 20) / 9)
        soundfile.write(file, np.stack([wave, -wave], axis=1), rate, format=kind.upper())
        found.append(file.getvalue())
    return tuple(found)


def _parquet() -> bytes:
    """Two rows of two features and a class, compressed."""
    columns = {"a": [1.0, -3.0], "b": [2.5, 4e2], "label": [0, 1]}
    file = io.BytesIO()
    parquet.write_table(pa.table(columns), file, compression="snappy")
    return file.getvalue()


def _artefact() -> bytes:
    """The header of a compiled model with the weights `fc.weight`."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 2)))
    weight = build.add(Parameter("fc.weight", DType.F32, (2, 3), "param"))
    graph = build.graph({"y": build.add(MatMul(), x, weight)})
    values = {"fc.weight": np.ones((2, 3), np.float32)}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.mgb"
        Artefact("model", graph, portable_plan(graph), values, trusted=False).write(path)
        return open_tensors(path)[1][HEADER].encode()


def _run() -> bytes:
    """The description of a run of two inputs and one parameter."""
    image = DescribedTensor(
        name="image", type="f32[4, 1, 8, 8]", kind="input", declared="f32[n, 1, 8, 8]"
    )
    label = DescribedTensor(name="label", type="i32[4]", kind="input", declared="i32[n]")
    weight = DescribedTensor(name="fc.weight", type="f32[10, 64]", kind="param", elements=640)
    description = RunDescription(
        train="fit", started=datetime(2026, 1, 1, tzinfo=UTC), batch=4, epochs=2,
        steps_per_epoch=3, examples=12, held_out=4, inputs=(image, label), parameters=(weight,),
        classes=("a", "b"), memory={"parameters": 2560},
    )  # fmt: skip
    return description.model_dump_json().encode()


def _records() -> bytes:
    """A step, an epoch, an evaluation, its best value, and a picture that was shown."""
    records: tuple[dict[str, object], ...] = (
        {"kind": "step", "step": 1, "loss": 2.5, "rate": 0.1},
        {"kind": "epoch", "step": 3, "epoch": 0, "loss": None},
        {"kind": "held_out", "step": 3, "loss": 2.25, "accuracy": 0.5},
        {"kind": "best", "step": 3, "name": "accuracy"},
        {"kind": "shown", "step": 3, "name": "drawn", "file": "shown/drawn.png"},
    )
    return "".join(f"{json.dumps(each)}\n" for each in records).encode()


def _programs() -> tuple[bytes, ...]:
    """Two whole programs, and every declaration of some others by itself: short is quick."""
    whole = ("digits_mlp.mgn", "digits_cnn.mgn")
    parts = ("loss.mgn", "vit.mgn", "gpt2.mgn", "nn.mgn")
    texts = [(standard_models() / name).read_text(encoding="utf-8") for name in parts]
    pieces = (f"{each.strip()}\n" for text in texts for each in text.split("\n\n"))
    declarations = [each.encode() for each in pieces if not each.startswith("#")]
    return (*((standard_models() / name).read_bytes() for name in whole), *declarations)


def _graphs() -> tuple[bytes, ...]:
    programs = (pipeline.load("digits_mlp"), pipeline.load("digits_cnn"))
    return tuple(format_graph(pipeline.elaborate_model(each).graph).encode() for each in programs)


def _checkpoint() -> bytes:
    settings = RunSettings(
        data="digits", sizes={"batch": 4}, optimizer=Adam(lr=0.1), schedule=Constant()
    )
    progress = Progress(program="0" * 64, step=3, epoch=0, position=3, settings=settings)
    return save(ARRAYS, {KEY: progress.model_dump_json()})


def _plan() -> bytes:
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 3)))
    graph = build.graph({"y": build.add(Sum((1,)), build.add(Tanh(), x))})
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        plan_graph(graph, DeviceLimits()).save(path)
        return path.read_bytes()


def _entries() -> tuple[bytes, ...]:
    """A whole file, and what one holds: the inference form of a graph, and a plan."""
    text = '%0 = Input(name="x", dtype=f32, shape=[2]) : f32[2]\noutput "y" = %0\n'
    graph = {"text": text, "origins": [0]}
    form = json.dumps({"graph": graph, "load": {"text": "", "origins": []}}).encode()
    with TemporaryDirectory() as folder:
        entries = DiskCache(Path(folder))
        entries.store("key", form)
        (path,) = entries.paths()
        return path.read_bytes(), form, _plan()


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _npz() -> tuple[bytes, ...]:
    plain, packed = io.BytesIO(), io.BytesIO()
    np.savez(plain, **ARRAYS)  # pyright: ignore[reportArgumentType]
    np.savez_compressed(packed, **ARRAYS)  # pyright: ignore[reportArgumentType]
    return plain.getvalue(), packed.getvalue()


def _idx() -> bytes:
    return struct.pack(">HBB3I", 0, 8, 3, 2, 2, 2) + bytes(range(8))
