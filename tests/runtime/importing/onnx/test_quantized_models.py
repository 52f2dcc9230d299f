"""Numbers of a few bits: what ONNX defines them to be, weights that stay packed, refusals."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import meganeura
from fuzz import quantized_models
from fuzz.onnx_models import drawn, model, value
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array
from meganeura_runtime.importing.onnx.importing import Imported, import_onnx
from meganeura_runtime.io.tensors.quantized_tensors import read_weights

MADE: Sequence[tuple[Callable[[], ModelProto], Mapping[str, str]]] = (
    (quantized_models.paired, {"conv.weight": "8-bit", "fc.weight": "8-bit"}),
    (quantized_models.blocked, {"fc.weight": "4-bit", "bytes": "8-bit"}),
    (quantized_models.of_levels, {"conv1.weight": "8-bit"}),
    (quantized_models.dynamic, {"conv1.weight": "8-bit"}),
    (quantized_models.moved, {}),
)


def defined(made: ModelProto, x: Array) -> list[Array]:
    """The outputs as ONNX defines them."""
    found = ReferenceEvaluator(made).run(None, {"x": x})
    return [np.asarray(each) for each in found] if isinstance(found, list) else []


def imported(made: ModelProto, folder: Path) -> Imported:
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    return import_onnx(folder / "model.onnx", folder / "net.mgn")


def outputs(made: Imported, x: Array) -> list[Array]:
    net = meganeura.load(str(made.program)).model(weights=made.weights)
    given = x.astype(np.int32) if x.dtype == np.int8 else x
    (name,) = net.inputs
    return [*net.run({name: given}, device="cpu").values()]


@pytest.mark.parametrize(("make", "packed"), MADE)
def test_results_are_those_that_onnx_defines(
    make: Callable[[], ModelProto], packed: Mapping[str, str], tmp_path: Path
) -> None:
    """Levels to the last one, and floats of them to the rounding of sums."""
    made = make()
    found = imported(made, tmp_path)
    assert set(found.packed) == set(packed)
    stored = read_weights(found.weights)
    assert {name: stored[name].kind for name in packed} == packed
    (given,) = made.graph.input
    shape = [size.dim_value or 2 for size in given.type.tensor_type.shape.dim]
    is_float = given.type.tensor_type.elem_type == TensorProto.FLOAT
    x = 3 * drawn(*shape, seed=5) if is_float else quantized_models.levels(*shape, seed=5)
    made.opset_import[0].version = quantized_models.OPSET  # the evaluator has no older ones
    wanted = defined(made, x)
    for mine, theirs in zip(outputs(found, x), wanted, strict=True):
        close = 0 if theirs.dtype.kind in "iu" else 1e-6
        np.testing.assert_allclose(mine, theirs, rtol=close, atol=close * float(abs(theirs).max()))


def weighted(zero: int, levels: Array, scales: Array, axis: int) -> ModelProto:
    """A product with a constant that is dequantized."""
    zeros = np.full(scales.shape, zero, levels.dtype)
    nodes = [
        helper.make_node("DequantizeLinear", ["fc.weight", "s", "z"], ["w"], axis=axis),
        helper.make_node("Gemm", ["x", "w"], ["y"], transB=1),
    ]
    weights = {"fc.weight": levels, "s": scales, "z": zeros}
    return model(nodes, [value("x", ["n", 36])], [value("y", ["n", 4])], weights, 19)


ROWS, COLUMNS = np.abs(drawn(4)), np.abs(drawn(36))


@pytest.mark.parametrize(
    ("made", "packed"),
    [
        (weighted(0, quantized_models.levels(4, 36), ROWS, 0), True),
        (weighted(128, np.arange(144, dtype=np.uint8).reshape(4, 36) + 1, ROWS, 0), True),
        (weighted(0, np.full((4, 36), -128, np.int8), ROWS, 0), True),
        (weighted(7, np.full((4, 36), -128, np.int8), ROWS, 0), False),
        (weighted(0, quantized_models.levels(4, 36), COLUMNS, 1), False),
    ],
)
def test_levels_that_a_form_has_stay_packed(
    made: ModelProto,
    packed: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    found = imported(made, tmp_path)
    assert ([*found.packed], [*found.unpacked]) == (
        (["fc.weight"], []) if packed else ([], ["fc.weight"])
    )
    made.graph.node.pop()
    made.graph.output[0].CopyFrom(value("w", [4, 36]))
    (wanted,) = defined(made, drawn(1, 36))
    net = meganeura.load(str(found.program)).model(weights=found.weights)
    np.testing.assert_array_equal(net.values["fc.weight"], wanted)
    x = drawn(2, 36)
    np.testing.assert_allclose(outputs(found, x)[0], x @ wanted.T, rtol=1e-5, atol=1e-5)


def test_an_initializer_of_two_scales_is_two_tensors(tmp_path: Path) -> None:
    weights: dict[str, Array] = {
        "w": quantized_models.levels(4, 4), "a": np.array(0.1, np.float32),
        "b": np.array(0.3, np.float32),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "a"], ["u"]),
        helper.make_node("DequantizeLinear", ["w", "b"], ["v"]),
        helper.make_node("MatMul", ["x", "u"], ["m"]),
        helper.make_node("MatMul", ["m", "v"], ["y"]),
    ]
    made = model(nodes, [value("x", ["n", 4])], [value("y", ["n", 4])], weights)
    assert imported(made, tmp_path).difference < 1e-6


WIDTH, HIDDEN, ROWS_AT_ONCE = 5, 6, 3


def recurrent(direction: str, *, is_signed: bool, by_output: bool, is_full: bool) -> ModelProto:
    """An LSTM of ONNX Runtime with weights of 8 bits, and what its outputs are called.

    Its scales are one for each output or one for each direction, and it has a bias, lengths and
    states if it is full.
    """
    directions = 2 if direction == "bidirectional" else 1
    gates, zero = 4 * HIDDEN, 0 if is_signed else 128
    kind = np.int8 if is_signed else np.uint8
    scales = (directions, gates) if by_output else (directions,)
    weights: dict[str, Array] = {
        "w_quantized": levels_of(directions, WIDTH, gates, kind=kind, seed=1),
        "r_quantized": levels_of(directions, HIDDEN, gates, kind=kind, seed=2),
        "ws": 0.004 + np.abs(drawn(*scales)) / 100, "rs": 0.004 + np.abs(drawn(*scales)) / 200,
        "wz": np.full(scales, zero, kind), "rz": np.full(scales, zero, kind),
        "b": drawn(directions, 2 * gates), "h": drawn(directions, ROWS_AT_ONCE, HIDDEN, seed=3),
        "c": drawn(directions, ROWS_AT_ONCE, HIDDEN, seed=4),
        "lengths": np.full(ROWS_AT_ONCE, 7, np.int32),
    }  # fmt: skip
    rest = ["b", "lengths", "h", "c", ""] if is_full else [""] * 5
    operands = ["x", "w_quantized", "r_quantized", *rest, "ws", "wz", "rs", "rz"]
    made = helper.make_node(
        "DynamicQuantizeLSTM", operands, ["y", "yh", "yc"], domain="com.microsoft",
        direction=direction, hidden_size=HIDDEN,
    )  # fmt: skip
    states = [value(name, [directions, ROWS_AT_ONCE, HIDDEN]) for name in ("yh", "yc")]
    y = value("y", [7, directions, ROWS_AT_ONCE, HIDDEN])
    whole = model([made], [value("x", [7, ROWS_AT_ONCE, WIDTH])], [y, *states], weights)
    whole.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return whole


def levels_of(*shape: int, kind: type[np.generic], seed: int) -> Array:
    drawn_levels = quantized_models.levels(*shape, seed=seed)
    return drawn_levels if kind is np.int8 else (drawn_levels.astype(np.int32) + 127).astype(kind)


@pytest.mark.parametrize(
    ("made", "packed"),
    [
        (recurrent("forward", is_signed=True, by_output=False, is_full=False), True),
        (recurrent("reverse", is_signed=True, by_output=True, is_full=True), False),
        (recurrent("bidirectional", is_signed=False, by_output=False, is_full=True), True),
    ],
)
def test_an_lstm_rounds_what_it_reads_as_onnx_runtime_does(
    made: ModelProto,
    packed: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    """Weights are levels; x is rounded at once, and the state in each step."""
    found = imported(made, tmp_path)
    assert found.difference < 1e-5  # without the rounding it is at least 3e-3
    assert {*(found.packed if packed else found.unpacked)} == {"w", "r"}
    assert {"w", "r"} <= {*found.trained}


def test_what_an_lstm_of_levels_lacks_is_said(tmp_path: Path) -> None:
    whole = recurrent("forward", is_signed=True, by_output=False, is_full=True)
    for at, name, reason in (
        (8, "", "operand 8 is missing"),
        (1, "b", "no whole numbers"),
        (7, "b", "peepholes"),
        (4, "short", "shorter than others"),
    ):
        made = ModelProto()
        made.CopyFrom(whole)
        made.graph.initializer.append(numpy_helper.from_array(np.array([7, 7, 6]), "short"))
        made.graph.node[0].input[at] = name
        with pytest.raises(ProblemError) as caught:
            imported(made, tmp_path)
        assert reason in str(caught.value.problem.report().remarks)
    whole.graph.node[0].op_type = "QAttention"
    with pytest.raises(ProblemError, match="QAttention") as caught:
        imported(whole, tmp_path)
    assert "only `DynamicQuantizeLSTM` is read" in str(caught.value.problem.report().remarks)


def node(op: str, *operands: str, axis: int | None = None) -> NodeProto:
    made = helper.make_node(op, operands, ["y"])
    if axis is not None:
        made.attribute.append(helper.make_attribute("axis", axis))
    return made


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (node("DequantizeLinear", "x", "s"), "no whole numbers"),
        (node("DequantizeLinear", "i", "s", "u"), "of different types"),
        (node("DequantizeLinear", "i", "i"), "its scale is of a type"),
        (node("DequantizeLinear", "i", "row", axis=0), "other sizes than its axis"),
        (node("QuantizeLinear", "x", "s", "long"), "more than 16 bits"),
        (node("QuantizeLinear", "x", "row", axis=1), "another number of scales"),
        (node("QuantizeLinear", "i", "s"), "it is applied to i32"),
        (node("Add", "i", "u"), "int8 and uint8 meet"),
        (node("CumSum", "i", "long"), "it is not read of int8"),
        (node("MatMulInteger", "x", "i"), "no whole numbers"),
    ],
)
def test_what_has_no_form_is_refused(refused: NodeProto, reason: str, tmp_path: Path) -> None:
    weights: dict[str, Array] = {
        "s": np.array(0.1, np.float32), "row": np.array([0.1, 0.2, 0.3], np.float32),
        "i": quantized_models.levels(4, 4), "u": np.array(3, np.uint8), "long": np.array(0),
    }  # fmt: skip
    made = model([refused], [value("x", ["n", 4])], [value("y", ["n", 4])], weights)
    with pytest.raises(ProblemError) as caught:
        imported(made, tmp_path)
    problem = caught.value.problem.report()
    said = " ".join(each.text for each in problem.remarks)
    assert reason in said, said
