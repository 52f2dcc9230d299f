"""Each op that is read gives what ONNX Runtime gives, with open sizes where the op allows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, ValueInfoProto, helper

import meganeura
from fuzz.onnx_models import drawn, model, value
from meganeura_dsl.ir.graph import Array
from meganeura_runtime.export.onnx.comparison import session_of
from meganeura_runtime.importing.onnx.folding import FOLDS, SHAPES
from meganeura_runtime.importing.onnx.importing import import_onnx
from meganeura_runtime.importing.onnx.ops import quantized
from meganeura_runtime.importing.onnx.ops.table import TABLE
from tests.effort import effort

PICTURE = [2, 4, 6, 6]


@dataclass(frozen=True)
class Case:
    """A node: the shapes of what it is fed, or arrays of what is constant."""

    op: str
    inputs: Sequence[object]
    attributes: Mapping[str, object] = field(default_factory=dict[str, object])
    outputs: int = 1
    opset: int = 20
    positive: bool = False
    """True if it is applied to exp(x), as it has no value for negative numbers."""
    whole: bool = False
    """True if it is fed whole numbers."""
    truth: bool = False
    """True if it is fed truth values."""
    small: bool = False
    """True if it is applied to x / 1000, beside which an epsilon counts."""


X = [2, 3, 4]
N: list[int | str] = ["n", 3, "s"]
ints = np.array
ROW = ints([1.0, -2.0, 0.5], np.float32)

BOTH = {"hidden_size": 5, "direction": "bidirectional"}


def cells(gates: int, directions: int = 1) -> list[Array]:
    """The weights of a recurrent op: of the input, of the state, and biases of both."""
    size = gates * 5
    shapes = [(directions, size, 3), (directions, size, 5), (directions, 2 * size)]
    return [drawn(*shape, seed=index) for index, shape in enumerate(shapes)]


CASES = [
    *(Case(op, [N]) for op in (
        "Abs", "Asinh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Gelu",
        "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Neg", "Relu", "Round",
        "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Tan", "Tanh", "HardSigmoid",
        "Dropout", "Softmax", "LogSoftmax", "Hardmax", "Flatten", "ReduceSum", "ReduceMean",
        "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare",
    )),
    *(Case(op, [N], positive=True) for op in ("Log", "Sqrt", "Reciprocal", "ReduceLogSum")),
    Case("Acosh", [N], positive=True), Case("Atanh", [ints([0.5, -0.25], np.float32)]),
    *(Case(op, [X, ints([], np.int64)], {"noop_with_empty_axes": noop})
      for op in ("ReduceSum", "ReduceMax") for noop in (0, 1)),
    *(Case("ReduceMax", [X], {"noop_with_empty_axes": noop}) for noop in (0, 1)),
    Case("ReduceProd", [X, ints([1])]), Case("Swish", [N], opset=24),
    *(Case(op, [X, ints([1])]) for op in ("ReduceL1", "ReduceL2", "ReduceLogSumExp")),
    *(Case(op, [X], {"axes": [-1], "keepdims": 0}, opset=13)
      for op in ("ReduceL1", "ReduceSumSquare", "ReduceMean", "ReduceMin")),
    *(Case(op, [X, ints([1])], truth=True) for op in ("ReduceMax", "ReduceMin")),
    *(Case(op, [N, N]) for op in ("Add", "Sub", "Mul", "Equal", "Less", "LessOrEqual", "Greater",
                                  "GreaterOrEqual", "Max", "Min", "Sum", "Mean")),
    Case("Div", [N, [3, 1]], positive=True), Case("Mod", [X, X], {"fmod": 1}, positive=True),
    Case("Div", [N, ints(3)], whole=True), Case("Mod", [N, ints(3)], whole=True),
    Case("Pow", [N, ints(3.0, np.float32)]), Case("Pow", [X, X], positive=True),
    Case("PRelu", [N, ints([[0.5], [0.1], [2.0]], np.float32)]), Case("Clip", [N, ints(0.1, "f4")]),
    *(Case(op, [N, N]) for op in ("And", "Or", "Xor")), Case("Not", [N]),
    Case("Where", [N, N, ints(0.5, np.float32)]), Case("Cast", [N], {"to": 6}),
    Case("CastLike", [N, ints([1])]),
    Case("Reshape", [N, ints([0, -1])]), Case("Reshape", [[6, 4], ints([8, 3])]),
    Case("Unsqueeze", [N, ints([1, -1])]), Case("Squeeze", [["n", 1, 4], ints([1])]),
    Case("Squeeze", [[2, 1, 4]]), Case("Transpose", [X]),
    Case("Transpose", [N], {"perm": [2, 0, 1]}), Case("Expand", [[3, 1], ints([2, 1, 4])]),
    Case("Tile", [N, ints([1, 2, 1])]), Case("Concat", [N, N], {"axis": -1}),
    Case("Split", [X, ints([1, 3])], {"axis": 2}, outputs=2),
    Case("Split", [[2, 7]], {"axis": 1, "num_outputs": 3}, outputs=3),  # of 3, 3 and 1
    Case("Slice", [N, ints([0]), ints([2]), ints([1])]),
    Case("Slice", [X, ints([-1]), ints([-9]), ints([2]), ints([-2])]),
    Case("Gather", [N, ints([0, -1])], {"axis": 1}), Case("Gather", [N, ints(1)], {"axis": 1}),
    Case("GatherElements", [[3, 4], ints([[0, 1, 1, 0]])]),
    Case("GatherND", [X, ints([[0, 1], [1, 2]])]), Case("GatherND", [X, ints([[0, -1], [-2, 2]])]),
    Case("GatherND", [X, ints([[-1]])]), Case("Gather", [["n", 3], ints([0, -1])]),
    Case("GatherElements", [["n", 4], ints([[0, -1, 0, -1]])]),
    Case("GatherND", [[2, 3, 4], ints([[[0, -1]], [[-2, 2]]])], {"batch_dims": 1}),
    Case("Pad", [N, ints([0, 1, 0, 0, 0, 2]), ints(0.5, np.float32)]),
    Case("Pad", [X, ints([0, 0, 2, 0, 0, 1])], {"mode": "reflect"}),
    Case("Pad", [X, ints([0, 0, 2, 0, 0, 1])], {"mode": "edge"}),
    Case("DepthToSpace", [["n", 4, "h", "w"]], {"blocksize": 2}),
    Case("SpaceToDepth", [PICTURE], {"blocksize": 2}),
    Case("OneHot", [ints([1, 0, 2]), ints(4), ints([0.0, 1.0], np.float32)]),
    Case("Trilu", [N], {"upper": 0}), Case("EyeLike", [[3, 4]], {"k": 1}),
    Case("CenterCropPad", [PICTURE, ints([4, 8])], {"axes": [2, 3]}),
    Case("MatMul", [["n", "s", 4], [4, 5]]), Case("MatMul", [[2, 1, 3, 4], [5, 4, 2]]),
    Case("MatMul", [["n", 3, 4], [4]]), Case("MatMul", [[4], ["n", 4, 5]]),
    Case("MatMul", [["n"], ["n"]]), Case("MatMul", [[4], [4, 5]]),
    Case("Gemm", [["n", 4], drawn(5, 4), drawn(5)], {"transB": 1}),
    Case("Gemm", [[4, 3], [4, 5], drawn(5)], {"transA": 1, "alpha": 0.5, "beta": 2.0}),
    Case("Conv", [["n", 4, "h", "w"], drawn(6, 2, 3, 3), drawn(6)], {"group": 2}),
    Case("Conv", [["n", 4, "h", "w"], drawn(6, 4, 3, 3)], {"strides": [2, 2]}),
    Case("Conv", [PICTURE, drawn(6, 4, 3, 2)], {"pads": [1, 0, 2, 1], "dilations": [2, 1]}),
    Case("Conv", [PICTURE, [6, 4, 3, 3]], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    Case("ConvTranspose", [PICTURE, drawn(4, 3, 3, 3), drawn(3)], {"strides": [2, 2]}),
    Case("ConvTranspose", [PICTURE, drawn(4, 3, 3, 3)], {"pads": [1, 1, 0, 0], "strides": [2, 2]}),
    *(Case("ConvTranspose", [[2, 4, 5, 4], drawn(4, 3, 3, 3)],
           {"output_shape": shape, "kernel_shape": [3, 3], "strides": [2, 2]})
      for shape in ([10, 8], [10, 9], [11, 8])),
    Case("Einsum", [["b", "i", 4], ["b", 4, "k"]], {"equation": "bij,bjk->bik"}),
    Case("Einsum", [[2, 3]], {"equation": "ij->ji"}),
    Case("MaxPool", [["n", 4, "h", "w"]], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    Case("MaxPool", [PICTURE], {"kernel_shape": [3, 2], "strides": [2, 1], "ceil_mode": 1}),
    Case("MaxPool", [PICTURE], {"kernel_shape": [2, 2], "dilations": [2, 2]}),
    Case("AveragePool", [["n", 4, "h", "w"]], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case("AveragePool", [PICTURE], {"kernel_shape": [3, 3], "pads": [1, 1, 0, 0]}),
    Case("LpPool", [PICTURE], {"kernel_shape": [2, 2]}),
    *(Case(op, [["n", 4, "h", "w"]]) for op in ("GlobalAveragePool", "GlobalMaxPool")),
    Case("GlobalLpPool", [PICTURE]),
    Case("Resize", [["n", 2, "h", "w"], None, ints([1, 1, 2, 3], "f4")], {"mode": "nearest"}),
    Case("Resize", [PICTURE, None, None, ints([2, 4, 5, 9])], {"mode": "linear"}),
    Case("Resize", [PICTURE, None, ints([1, 1, 0.6, 1.5], "f4")], {"mode": "cubic"}),
    Case("Upsample", [["n", 2, "h", "w"], ints([1, 1, 2, 2], "f4")], {"mode": "nearest"}, opset=9),
    Case("BatchNormalization", [["n", 3, "t"], ROW, drawn(3), drawn(3), abs(drawn(3, seed=1))]),
    Case("BatchNormalization", [X, [3], [3], [3], ints([0.5, 1, 2], "f4")]),
    Case("BatchNormalization", [["n", 3, "t"], ROW, drawn(3), drawn(3), ints([1e-6] * 3, "f4")]),
    Case("BatchNormalization", [["n", 3, "t"], ROW, ROW, ROW, ints([0.5] * 3, "f4")],
         {"epsilon": 0.3}),
    Case("LayerNormalization", [N[:2], ROW, drawn(3)], {"epsilon": 0.3}),
    Case("LayerNormalization", [N[:2], ROW, drawn(3)]),
    Case("LayerNormalization", [X, drawn(3, 4)], {"axis": 1}),
    Case("RMSNormalization", [["n", "s", 3], ROW], opset=23),
    Case("InstanceNormalization", [["n", 3, "t"], ROW, drawn(3)]),
    Case("RMSNormalization", [["n", "s", 3], ROW], opset=23, small=True),
    Case("RMSNormalization", [X, drawn(3, 4)], {"axis": 1}, opset=23, small=True),
    Case("LayerNormalization", [N[:2], ROW, drawn(3)], small=True),
    Case("LayerNormalization", [X, drawn(3, 4)], {"axis": 1}, small=True),
    Case("InstanceNormalization", [["n", 3, "t"], ROW, drawn(3)], small=True),
    Case("InstanceNormalization", [X, [3], [3]], small=True),
    Case("GroupNormalization", [PICTURE, drawn(4), drawn(4)], {"num_groups": 2}, opset=21,
         small=True),
    Case("GroupNormalization", [PICTURE, drawn(4), drawn(4)], {"num_groups": 2}, opset=21),
    Case("LRN", [PICTURE], {"size": 3}), Case("LpNormalization", [N], {"axis": 1}),
    Case("ArgMax", [N], {"axis": 1}), Case("ArgMin", [X], {"axis": 2, "keepdims": 0}),
    Case("TopK", [X, ints([2])], outputs=2),
    Case("TopK", [X, ints([2])], {"largest": 0}, outputs=2),
    Case("CumSum", [N, ints(1)]), Case("CumSum", [X, ints(2)], {"exclusive": 1, "reverse": 1}),
    Case("CumProd", [X, ints(2)], opset=26),
    Case("ScatterElements", [[3, 4], ints([[0, 2, 1, 0]]), [1, 4]]),
    Case("ScatterElements", [[3, 4], ints([[0, 2, 1, 0]]), [1, 4]], truth=True),
    Case("ScatterND", [[4, 3], ints([[[1, 2]], [[0, -1]]]), [2, 1]]),
    Case("ScatterElements", [[3, 4], ints([[0, 2, 1, 0]]), [1, 4]], {"reduction": "add"}),
    Case("Scatter", [[3, 4], ints([[0, 2, 1, 0]]), [1, 4]], opset=9),
    Case("ScatterND", [[4, 3], ints([[1], [3]]), [2, 3]]),
    Case("ScatterND", [[4, 3], ints([[1], [1]]), [2, 3]], {"reduction": "max"}),
    Case("LSTM", [["s", "n", 3], *cells(4)], {"hidden_size": 5}, outputs=3, opset=14),
    Case("LSTM", [["s", "n", 3], *cells(4, 2)], BOTH, outputs=3, opset=14),
    Case("GRU", [["s", "n", 3], *cells(3), None, [1, "m", 5]], {"hidden_size": 5}, opset=14),
    Case("GRU", [["s", "n", 3], *cells(3)], {"hidden_size": 5}, outputs=2, opset=14),
    Case("GRU", [[4, 2, 3], *cells(3), np.full(2, 4, np.int32)], {"hidden_size": 5}, opset=14),
    Case("GRU", [["s", "n", 3], *cells(3, 2)], {**BOTH, "linear_before_reset": 1}, opset=14),
    Case("RNN", [["s", "n", 3], *cells(1)], {"hidden_size": 5, "direction": "reverse"}, opset=14),
    Case("Range", [ints(1), ints(7), ints(2)]),
    Case("Elu", [N]), Case("Celu", [N]), Case("Mish", [N]), Case("ThresholdedRelu", [N]),
    Case("LpPool", [PICTURE], {"kernel_shape": [2, 2], "p": 3}),
    Case("RotaryEmbedding", [["n", 3, "s", 8], ["n", "s", 4], ["n", "s", 4]], opset=23),
    Case("RotaryEmbedding", [["n", "s", 24], ["n", "s", 4], ["n", "s", 4]],
         {"num_heads": 3, "interleaved": 1}, opset=23),
    Case("RotaryEmbedding", [[2, 3, 2, 8], drawn(9, 4), drawn(9, 4), ints([[0, 8], [3, 3]])],
         opset=23),
    Case("RotaryEmbedding", [[2, 3, 5, 8], [2, 5, 2], [2, 5, 2]], {"rotary_embedding_dim": 4},
         opset=23),
    Case("MeanVarianceNormalization", [PICTURE]), Case("Shrink", [N], {"lambd": 0.5}),
]  # fmt: skip
BOOLS = {"And", "Or", "Xor", "Not"}


def test_every_op_has_a_case() -> None:
    assert set(TABLE) - {*quantized.OPS} <= {case.op for case in CASES}  # of levels: elsewhere
    assert {*FOLDS, *SHAPES} - {*TABLE} == {"Shape", "Size", "Constant", "ConstantOfShape"}


BY_DAY = effort([*{case.op: at for at, case in enumerate(CASES)}.values()], [*range(len(CASES))])
"""By day one case of each op."""


@pytest.mark.parametrize("number", BY_DAY, ids=[CASES[at].op for at in BY_DAY])
def test_an_op_is_what_onnx_runtime_has(number: int, tmp_path: Path) -> None:
    case = CASES[number]
    inputs: list[ValueInfoProto] = []
    weights: dict[str, Array] = {}
    names: list[str] = []
    nodes: list[NodeProto] = []
    for at, each in enumerate(case.inputs):
        if each is None:
            names.append("")
        elif isinstance(each, list):
            is_bool = case.truth or case.op in BOOLS or (case.op == "Where" and at == 0)
            kind = TensorProto.INT32 if case.whole else TensorProto.FLOAT
            inputs.append(value(f"x{at}", each, TensorProto.BOOL if is_bool else kind))
            names.append(f"x{at}")
        else:
            assert isinstance(each, np.ndarray)
            array: Array = each
            weights[f"w{at}"] = array.astype("i4") if case.whole else array
            names.append(f"w{at}")
    if case.positive:
        nodes = [helper.make_node("Exp", [each.name], [f"e{each.name}"]) for each in inputs]
        names = [f"e{each}" if each.startswith("x") else each for each in names]
    if case.small:
        weights["small"] = np.array(1e-3, np.float32)
        nodes = [helper.make_node("Mul", ["x0", "small"], ["s0"])]
        names[0] = "s0"
    outputs = [f"y{index}" for index in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs)
    node.attribute.extend(helper.make_attribute(*each) for each in case.attributes.items())
    results = [ValueInfoProto(name=each) for each in outputs]
    made = model([*nodes, node], inputs, results, weights, case.opset)
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    found = import_onnx(tmp_path / "model.onnx", tmp_path / "net.mgn")
    is_silent = case.whole or case.truth or case.op in ("Equal", "IsInf", "IsNaN")
    assert found.difference < 1e-4 or (is_silent and found.untold)


FED = np.array([[1, -1], [-3, 2], [2, -4]], np.int64)
"""Indices of two axes of a table of 3 by 4; those below 0 count from its end."""


@pytest.mark.parametrize("table", [[3, 4], ["k", 4], ["k", "m"]], ids=str)
@pytest.mark.parametrize("op", ["GatherND", "ScatterND"])
def test_indices_of_several_axes_that_are_fed_may_count_from_the_end(
    op: str, table: list[int | str], tmp_path: Path
) -> None:
    shapes = {"x": table, "ids": ["n", 2], **({"u": ["n"]} if op == "ScatterND" else {})}
    types = {"ids": TensorProto.INT64}
    inputs = [value(name, shape, types.get(name, 1)) for name, shape in shapes.items()]
    made = model([helper.make_node(op, [*shapes], ["y"])], inputs, [ValueInfoProto(name="y")], {})
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    found = import_onnx(tmp_path / "model.onnx", tmp_path / "net.mgn")
    fed = {"x": drawn(3, 4), "ids": FED, "u": drawn(3, seed=1)}
    fed = {name: fed[name] for name in shapes}
    session = session_of(str(tmp_path / "model.onnx"))
    (expected,) = map(np.asarray, session.run(None, fed))
    net = meganeura.load(str(found.program)).model(weights=found.weights)
    given = {**fed, "ids": FED.astype(np.int32)}
    np.testing.assert_array_equal(net.run(given, device="cpu")["output"], expected)
