"""A model of `benchmarks/browser/prepare.py` as tinygrad exports it for WebGPU, from its ONNX file.

    DEV=WEBGPU python benchmarks/browser/tinygrad_export.py TINYGRAD FOLDER/MODEL

in an environment with tinygrad, dawn-python and NumPy. TINYGRAD is a checkout of tinygrad's
repository, whose `extra/export_model.py` is in no package. Dawn's library has to be found as
`libwebgpu_dawn.so`, and a Vulkan driver that it takes. The exporter of version 0.14.0 writes one
kernel where two have the same name, so they are named apart here.
"""

import json
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from tinygrad import Tensor  # pyright: ignore[reportMissingImports]
from tinygrad.nn.onnx import OnnxRunner  # pyright: ignore[reportMissingImports]

TYPES = {"float32": "F32", "int64": "I64", "int32": "I32", "bool": "BOOL"}


class Exported:
    """A model as tinygrad's exporter takes it: tensors under names, and a forward pass."""

    def __init__(self, file: Path) -> None:
        """Read an ONNX file."""
        run = OnnxRunner(file)
        (name,) = run.graph_inputs
        values = run.graph_values.items()
        self.weights = {key: each.realize() for key, each in values if isinstance(each, Tensor)}
        # No attribute holds `run`: its tensors would be parameters once more, under other names.
        self.forward = lambda x: next(iter(run({name: x}).values()))


def write_tensors(file: Path, tensors: Mapping[str, Any]) -> None:
    """Write safetensors: tinygrad's own writer wants a C compiler."""
    header, content = {}, bytearray()
    for name, tensor in tensors.items():
        array = np.ascontiguousarray(tensor.numpy())
        begin = len(content)
        content += array.tobytes()
        offsets = [begin, len(content)]
        kind = TYPES[str(array.dtype)]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": offsets}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(len(text).to_bytes(8, "little") + text + content)


def named_apart(to_program: Callable[..., Any]) -> Callable[..., Any]:
    """Tinygrad's compiler of kernels, with a number behind the name of each."""
    numbers = count()

    def compiled(*given: object) -> SimpleNamespace:
        found = to_program(*given)
        info = found.arg
        name = f"{info.function_name}_k{next(numbers)}"
        source = found.src[2].arg.replace(info.function_name, name)
        sizes = {"global_size": info.global_size, "local_size": info.local_size}
        named = SimpleNamespace(function_name=name, vars=info.vars, **sizes)
        return SimpleNamespace(arg=named, src=[None, None, SimpleNamespace(arg=source)])

    return compiled


def main() -> None:
    """Export one model."""
    repository, folder = sys.argv[1], Path(sys.argv[2])
    sys.path.insert(0, repository)
    exporter: Any = import_module("extra.export_model")

    exporter.to_program = named_apart(exporter.to_program)

    case = json.loads((folder / "case.json").read_text())
    size = int(np.prod(case["shape"]))
    x = Tensor((np.arange(size) % 17 / 17).astype(np.float32).reshape(case["shape"])).realize()
    model = Exported(folder / "model.onnx")
    script, *_, tensors = exporter.export_model(model, "webgpu", x, model_name="model")
    (folder / "tinygrad.js").write_text(script)
    write_tensors(folder / "tinygrad.safetensors", tensors)


if __name__ == "__main__":
    main()
