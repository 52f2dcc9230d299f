"""What becomes of every op's samples outside of kernels, in a line each.

`forms.sums` has checksums of the gradient of each sample, as a graph, and of the model that it is
exported as to ONNX, in the oldest opset and in the newest. Of fused ops it has the gradient and the
primitive ops that they stand for, and of loops the model. Whatever changes one of them is seen
there, whether or not it was meant, and on kinks and ties as well, where no finite difference can
tell which of the slopes is meant.

`python -m tests.dsl.ir.ops.forms` writes the file anew; read the difference before you keep it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Op
from meganeura_dsl.ir.ops import Input, Parameter
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.transforms.autodiff import differentiate
from meganeura_dsl.transforms.expand_fused import expand_fused
from meganeura_runtime.export.onnx.model import onnx_model
from meganeura_runtime.export.onnx.options import NEWEST_OPSET, OLDEST_OPSET, OnnxOptions
from tests.dsl.ir.ops.fused.test_fused import CASES, HAVE_NO_GRADIENT
from tests.samples import SAMPLES
from tests.scans import NESTED, forward

FILE = Path(__file__).with_suffix(".sums")
LOOPS = {
    "nested": NESTED.replace(" + random_uniform([n, 3])", ""),
    "without slices": """
block Net()(x: [n, 3], w: [3, 3]) -> [n, 3]:
  scan t in 0..4:
    x = tanh(x @ w)
  return x

model net = Net()
""",
    "of its round": """
block Net()(x: [n, s]) -> [n, s]:
  h = zeros([n])
  scan t in 0..s:
    h = h + x[:, s - 1 - t] * f32(t)
    y[:, t] = h
  return y

model net = Net()
""",
}


def described() -> Iterator[str]:
    """All lines of the file."""
    for sample in SAMPLES:
        if not isinstance(sample.op, Leaf):
            build, graph = _alone(sample.op, sample.types)
            gradients = _gradients(build, graph)
            first = build.graph({"y0": graph.outputs["y0"]})  # of a pooling, not its indices
            yield f"{sample.name}: {gradients}, exported {_exported(first)}"
    for case in CASES:
        build, graph = _alone(case.op, case.types())
        gradients = "" if isinstance(case.op, HAVE_NO_GRADIENT) else _gradients(build, graph)
        yield f"{case}: {gradients}, expanded {_graph(expand_fused(graph))}"
    for name, text in LOOPS.items():
        yield f"loops {name}: {_exported(forward(text))}"


def _alone(op: Op, types: Sequence[TensorType]) -> tuple[Builder, Graph]:
    """The op on inputs."""
    build = Builder()
    inputs = [build.add(Input(f"x{n}", each.dtype, each.shape)) for n, each in enumerate(types)]
    results = build.add_all(op, *inputs)
    return build, build.graph({f"y{n}": each for n, each in enumerate(results)})


def _gradients(build: Builder, graph: Graph) -> str:
    wrt = [x for x in graph.values if isinstance(x.op, Input) and x.type.dtype.is_float]
    found: dict[str, str] = {}
    for name, y in graph.outputs.items():
        if y.type.dtype.is_float and wrt:
            seed = build.add(Input(f"d{name}", y.type.dtype, y.type.shape))
            gradients = differentiate(build, y, wrt, seed)
            whole = build.graph({f"dx{n}": each for n, each in enumerate(gradients)})
            found[name] = _graph(whole)
    return " ".join(f"d{name} {each}" for name, each in found.items()) or "no gradient"


def _exported(graph: Graph) -> str:
    return " ".join(_model(graph, opset) for opset in (OLDEST_OPSET, NEWEST_OPSET))


def _model(graph: Graph, opset: int) -> str:
    weights = {
        each.op.name: np.zeros(concrete_shape(each.type.shape), np.float32)
        for each in graph.values
        if isinstance(each.op, Parameter)
    }
    try:
        model = onnx_model("op", graph, weights, OnnxOptions(opset))
    except ProblemError as error:
        return error.problem.code
    return _sum(model.graph.SerializeToString(deterministic=True))


def _graph(graph: Graph) -> str:
    return f"{_sum(format_graph(graph).encode())} of {len(graph.values)}"


def _sum(data: bytes) -> str:
    return f"{crc32(data):08x}"


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
