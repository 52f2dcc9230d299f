"""Numbers of a few bits: what ONNX defines them to be, weights that stay packed, refusals."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper
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
