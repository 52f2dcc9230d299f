"""Forms of every op's samples outside of kernels.

Each sample has its gradient, as a graph, and the model that it is exported as to ONNX, in the
oldest opset and in the newest. Fused ops have the gradient and the primitive ops that they stand
for, and loops the model. `forms.snap` has some of them and checksums of all. Whatever changes one
of them is seen there, whether or not it was meant, and on kinks and ties as well, where no finite
difference can tell which of the slopes is meant.

`python -m tests.dsl.ir.ops.forms` writes the file anew; read the difference before you keep it.
"""

from collections.abc import Iterator, Sequence
from zlib import crc32

import numpy as np
import onnx

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
from tests.snapshots import Snapshot, Text

LOOPS = {
    "nested": NESTED.replace(" + random_uniform([n, 3])", ""),
    "without slices": """
block Net()(x: [n, 3], w: [3, 3]) -> [n, 3]:
  scan t in 0..4:
    x = tanh(x @ w)
  return x

model net = Net()
""",
    "of its iteration": """
block Net()(x: [n, s]) -> [n, s]:
  h = zeros([n])
  scan t in 0..s:
    h = h + x[:, s - 1 - t] * f32(t)
    y[:, t] = h
  return y

model net = Net()
""",
}


SHOWN = (
    *("gradients of samples: Abs-kink", "gradients of samples: Maximum-ties"),
    *("gradients of samples: MatMul-left", "gradients of samples: Sort-ties"),
    *("gradients of fused ops: Softmax(axis=1)-((3, 4),)",),
    *("expanded: LogSoftmax(axis=1)-((3, 4),)",),
    *("exported to opset 17: Remainder-i32", "exported to opset 17: loops of its iteration"),
)
"""The forms that are shown whole."""


def texts() -> Iterator[Text]:
    """Gradients of all ops, models that they are exported as, and what fused ops stand for."""
    for sample in SAMPLES:
        if not isinstance(sample.op, Leaf):
            build, graph = _alone(sample.op, sample.types)
            yield Text("gradients of samples", sample.name, _gradients(build, graph))
            first = build.graph({"y0": graph.outputs["y0"]})  # of a pooling, not its indices
            yield from _exported(sample.name, first)
    for case in CASES:
        build, graph = _alone(case.op, case.types())
        yield Text("expanded", str(case), format_graph(expand_fused(graph)))
        if not isinstance(case.op, HAVE_NO_GRADIENT):
            yield Text("gradients of fused ops", str(case), _gradients(build, graph))
    for name, text in LOOPS.items():
        yield from _exported(f"loops {name}", forward(text))


def _alone(op: Op, types: Sequence[TensorType]) -> tuple[Builder, Graph]:
    """The op on inputs."""
    build = Builder()
    inputs = [build.add(Input(f"x{n}", each.dtype, each.shape)) for n, each in enumerate(types)]
    results = build.add_all(op, *inputs)
    return build, build.graph({f"y{n}": each for n, each in enumerate(results)})


def _gradients(build: Builder, graph: Graph) -> str:
    """The gradients of each result by all operands, as graphs."""
    wrt = [x for x in graph.values if isinstance(x.op, Input) and x.type.dtype.is_float]
    found: list[str] = []
    for name, y in graph.outputs.items():
        if y.type.dtype.is_float and wrt:
            seed = build.add(Input(f"d{name}", y.type.dtype, y.type.shape))
            gradients = differentiate(build, y, wrt, seed)
            whole = build.graph({f"dx{n}": each for n, each in enumerate(gradients)})
            found.append(format_graph(whole))
    return "\n".join(found) or "no gradient"


def _exported(name: str, graph: Graph) -> Iterator[Text]:
    for opset in (OLDEST_OPSET, NEWEST_OPSET):
        yield Text(f"exported to opset {opset}", name, _model(graph, opset))


def _model(graph: Graph, opset: int) -> str:
    """The ONNX graph in ONNX's text format, which rounds numbers, or the code of the problem."""
    weights = {
        each.op.name: np.zeros(concrete_shape(each.type.shape), np.float32)
        for each in graph.values
        if isinstance(each.op, Parameter)
    }
    try:
        model = onnx_model("op", graph, weights, OnnxOptions(opset))
    except ProblemError as error:
        return error.problem.code
    data = model.graph.SerializeToString(deterministic=True)
    return f"{onnx.printer.to_text(model.graph)}\n# checksum of all its bytes: {crc32(data):08x}"


SNAPSHOT = Snapshot("tests.dsl.ir.ops.forms", texts, SHOWN)

if __name__ == "__main__":
    SNAPSHOT.main()
