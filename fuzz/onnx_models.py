"""Small models of ONNX, of which each shows another part of the format."""

import zlib
from collections.abc import Sequence

import numpy as np
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from meganeura_dsl.ir.graph import Array
from meganeura_runtime.export.onnx.functions import (
    BITS,
    DOMAIN,
    NORMAL,
    STREAMS,
    UNIFORM,
    VERSION,
    function,
)

OPSET = 18


def value(name: str, shape: Sequence[int | str], kind: int = TensorProto.FLOAT) -> ValueInfoProto:
    """An input or an output; names of sizes are symbols."""
    return helper.make_tensor_value_info(name, kind, list(shape))


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    weights: "dict[str, Array] | None" = None,
    opset: int = OPSET,
) -> ModelProto:
    """A model of these nodes."""
    tensors = [numpy_helper.from_array(each, name) for name, each in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), tensors)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def drawn(*shape: int, seed: int = 0) -> Array:
    """Random numbers of single precision."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def onnx_models() -> list[ModelProto]:
    """One of each kind."""
    return [convolutional(), reshaped(), branched(), repeated(), resized(), looped(), random()]


def convolutional() -> ModelProto:
    """Layers whose names a checkpoint would have."""
    weights = {
        "stem.weight": drawn(4, 3, 3, 3),
        "norm.weight": drawn(4),
        "norm.bias": drawn(4),
        "norm.running_mean": drawn(4),
        "norm.running_var": np.ones(4, np.float32),
        "fc.weight": drawn(2, 4),
        "fc.bias": drawn(2),
    }
    norm = ["a", *list(weights)[1:5]]
    nodes = [
        helper.make_node("Conv", ["x", "stem.weight"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", norm, ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("GlobalAveragePool", ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("Gemm", ["e", "fc.weight", "fc.bias"], ["y"], transB=1),
    ]
    return model(nodes, [value("x", ["n", 3, "h", "w"])], [value("y", ["n", 2])], weights)


def reshaped() -> ModelProto:
    """Sizes that are computed: `Shape -> Gather -> Concat -> Reshape`."""
    weights = {
        "zero": np.array(0),
        "last": np.array([-1]),
        "four": np.array([4]),
        "first": np.array([0]),
        "onnx::MatMul_7": drawn(8, 8),
        "proj.bias": drawn(8),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "onnx::MatMul_7"], ["m"], "/proj/MatMul"),
        helper.make_node("Add", ["proj.bias", "m"], ["a"]),
        helper.make_node("Shape", ["a"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "first"], ["row"]),
        helper.make_node("Concat", ["row", "last", "four"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["a", "wanted"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Softmax", ["t"], ["y"]),
    ]
    return model(nodes, [value("x", ["n", "s", 8])], [value("y", ["n", 4, "t"])], weights)


def branched() -> ModelProto:
    """An `If` whose condition is known, and an op that is a function of others."""

    def branch(op: str) -> GraphProto:
        return helper.make_graph([helper.make_node(op, ["x"], ["z"])], op, [], [value("z", [2, 3])])

    nodes = [
        helper.make_node("Equal", ["one", "one"], ["same"]),
        helper.make_node(
            "If", ["same"], ["b"], then_branch=branch("Celu"), else_branch=branch("Relu")
        ),
        helper.make_node("Mish", ["b"], ["y"]),
    ]
    weights = {"one": np.array(1)}
    return model(nodes, [value("x", [2, 3])], [value("y", [2, 3])], weights)


def repeated(layers: int = 3) -> ModelProto:
    """Layers that differ in one index, and read one mask."""
    weights: dict[str, Array] = {"limit": np.array(0.5, np.float32)}
    nodes = [helper.make_node("Greater", ["gate", "limit"], ["mask"])]
    before = "x"
    for index in range(layers):
        path = f"encoder.layers.{index}"
        weights |= {
            f"{path}.norm.weight": drawn(6, seed=index),
            f"{path}.norm.bias": drawn(6, seed=index + 9),
            f"{path}.fc.weight": drawn(6, 6, seed=index + 19),
            f"{path}.scale": drawn(6, seed=index + 29),
        }
        norm = [before, f"{path}.norm.weight", f"{path}.norm.bias"]
        nodes += [
            helper.make_node("LayerNormalization", norm, [f"a{index}"]),
            helper.make_node("MatMul", [f"a{index}", f"{path}.fc.weight"], [f"b{index}"]),
            helper.make_node("Mul", [f"b{index}", f"{path}.scale"], [f"c{index}"]),
            helper.make_node("Where", ["mask", f"c{index}", before], [f"d{index}"]),
            helper.make_node("Add", [before, f"d{index}"], [f"e{index}"]),
        ]
        before = f"e{index}"
    inputs = [value("x", ["n", "s", 6]), value("gate", ["n", "s", 6])]
    return model(nodes, inputs, [value(before, ["n", "s", 6])], weights)


def resized() -> ModelProto:
    """A picture that is padded, pooled and resized by a matrix of weights."""
    weights = {
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "scales": np.array([1, 1, 1.5, 2], np.float32),
    }
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["p"], mode="reflect"),
        helper.make_node("MaxPool", ["p"], ["q"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Resize", ["q", "", "scales"], ["y"], mode="linear"),
    ]
    return model(nodes, [value("x", [1, 2, 6, 6])], [value("y", [1, 2, 6, 8])], weights)


def looped() -> ModelProto:
    """A `Loop` around a `Scan`, whose body reads what is around it."""
    scan = helper.make_graph(
        [
            helper.make_node("MatMul", ["a", "w"], ["m"]),
            helper.make_node("Add", ["m", "row"], ["t"]),
            helper.make_node("Tanh", ["t"], ["b"]),
        ],
        "scan", [value("a", [3]), value("row", [3])], [value("b", [3]), value("t", [3])],
    )  # fmt: skip
    loop = helper.make_graph(
        [
            helper.make_node("Scan", ["h", "x"], ["g", "ts"], body=scan, num_scan_inputs=1),
            helper.make_node("Gather", ["ts", "i"], ["z"]),
        ],
        "loop",
        [value("i", [], TensorProto.INT64), value("on", [], TensorProto.BOOL), value("h", [3])],
        [value("on", [], TensorProto.BOOL), value("g", [3]), value("z", [3])],
    )
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=0, end=1),
        helper.make_node("Squeeze", ["s"], ["count"]),
        helper.make_node("Loop", ["count", "", "start"], ["y", "zs"], body=loop),
    ]
    weights = {"w": drawn(3, 3), "start": drawn(3)}
    outputs = [value("y", [3]), value("zs", ["s", 3])]
    return model(nodes, [value("x", ["s", 3])], outputs, weights)


def random() -> ModelProto:
    """Random numbers, drawn once and in each round of a loop."""

    def draw(name: str, counter: str, shape: str, result: str, first: int) -> NodeProto:
        streams = {
            each: zlib.crc32(f"#{first + index}".encode())
            for index, each in enumerate(STREAMS[name])
        }
        node = helper.make_node(name, [counter, shape], [result], domain=DOMAIN)
        node.attribute.extend(helper.make_attribute(*each) for each in streams.items())
        return node

    body = helper.make_graph(
        [draw(NORMAL, "key", "row", "e", 2), helper.make_node("Add", ["h", "e"], ["g"])],
        "body", [value("h", [3]), value("key", [2], TensorProto.UINT32)], [value("g", [3])],
    )  # fmt: skip
    nodes = [
        draw(UNIFORM, "counter", "row", "start", 0),
        draw(BITS, "counter", "rounds", "keys", 1),
        helper.make_node("Scan", ["start", "keys"], ["y"], body=body, num_scan_inputs=1),
    ]
    weights = {"row": np.array([3]), "rounds": np.array([4, 2])}
    made = model(nodes, [value("counter", [2], TensorProto.UINT32)], [value("y", [3])], weights)
    made.opset_import.append(helper.make_opsetid(DOMAIN, VERSION))
    made.functions.extend(function(each, OPSET) for each in STREAMS)
    return made
