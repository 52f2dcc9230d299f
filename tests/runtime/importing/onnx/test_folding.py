"""Results of constants and of sizes alone are those of ONNX Runtime."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from onnx import TensorProto, ValueInfoProto, helper

import meganeura
from fuzz.onnx_models import drawn, model, value
from meganeura_dsl.ir.graph import Array
from meganeura_runtime.export.onnx.comparison import session_of
from meganeura_runtime.importing.onnx.folding import FOLDS
from meganeura_runtime.importing.onnx.importing import import_onnx


@dataclass(frozen=True)
class Row:
    """A node of constants, and of `[n, s]`, the shape of what is fed, where an input says so."""

    op: str
    inputs: Sequence[Array | str]
    attributes: Mapping[str, object] = field(default_factory=dict[str, object])
    outputs: int = 1


def ints(*numbers: object) -> Array:
    return np.array(numbers, np.int64)


def floats(*numbers: object) -> Array:
    return np.array(numbers, np.float32)


def bools(*numbers: object) -> Array:
    return np.array(numbers, np.bool_)


SHAPE = "shape"
SIGNS = [ints(7, -7, 7, -7), ints(2, 2, -2, -2)]
TABLE = ints([1, 2, 3], [4, 5, 6])
RELATIONS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
ROWS = [
    *(Row(op, SIGNS) for op in ("Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", *RELATIONS)),
    *(Row(op, [ints(3), ints(3, 1, 4)]) for op in RELATIONS),
    *(Row(op, [SHAPE, ints(2, 3)]) for op in ("Add", "Sub", "Mul", "Div", "Mod")),
    *(Row(op, [ints(5, 5), SHAPE]) for op in ("Add", "Sub", "Div", "Mod")),
    *(Row(op, [SHAPE, ints(0)]) for op in ("Max", "Min", *RELATIONS)),
    *(Row(op, [ints(0), SHAPE, ints(-1)]) for op in ("Max", "Min")),
    Row("Mod", SIGNS, {"fmod": 1}), Row("Div", [floats(1, -2), floats(4, 8)]),
    Row("Pow", [ints(2, 3, 5), ints(3, 2, 0)]), Row("Pow", [floats(4, 9), floats(0.5, -1)]),
    *(Row(op, [ints(-3, 0, 4)]) for op in ("Neg", "Abs", "Identity")), Row("Neg", [SHAPE]),
    *(Row(op, [floats(0.5, 1.5, 2.5)])
      for op in ("Sqrt", "Exp", "Log", "Reciprocal", "Ceil", "Floor", "Round", "Sin", "Cos")),
    Row("Relu", [floats(-0.5, 0, 1.5)]),
    *(Row(op, [bools(1, 1, 0, 0), bools(1, 0, 1, 0)]) for op in ("And", "Or")),
    Row("Not", [bools(1, 0)]), Row("Sum", [floats(1, 2), floats(3, 5), floats(7)]),
    *(Row(op, [floats(1, 5, 2), floats(4, 3, 0), floats(2)]) for op in ("Min", "Max")),
    Row("Where", [bools(1, 0, 0), ints(1, 2, 3), ints(-1)]),
    Row("Where", [bools(1, 0), SHAPE, ints(7, 8)]),
    Row("Cast", [floats(1.7, -1.7)], {"to": TensorProto.INT64}),
    Row("Cast", [SHAPE], {"to": TensorProto.INT32}),
    Row("Cast", [ints(0, -2)], {"to": TensorProto.BOOL}),
    Row("CastLike", [floats(1.7, -1.7), ints(0)]), Row("CastLike", [SHAPE, ints(0)]),
    Row("Gather", [TABLE, ints(1, -1)], {"axis": 1}), Row("Gather", [TABLE, np.array(-1)]),
    Row("Gather", [SHAPE, ints(1, -2, 1)]), Row("Concat", [TABLE, TABLE], {"axis": -1}),
    Row("Concat", [SHAPE, ints(4), SHAPE], {"axis": 0}), Row("Reshape", [TABLE, ints(0, -1, 1)]),
    Row("Unsqueeze", [TABLE, ints(0, -1)]), Row("Unsqueeze", [SHAPE, ints(1)]),
    Row("Squeeze", [ints([[1], [2]])]), Row("Squeeze", [ints([[1], [2]]), ints(0)]),
    Row("Squeeze", [ints([[1], [2]]), ints(-1)]),
    Row("Slice", [TABLE, ints(1), ints(9), ints(1)]),
    Row("Slice", [TABLE, ints(-1, -1), ints(-9, 0), ints(0, 1), ints(-1, -1)]),
    Row("Slice", [TABLE, ints(0), ints(-1), ints(-1), ints(2)]),
    Row("Slice", [SHAPE, ints(-1), ints(2**62)]), Row("Slice", [SHAPE, ints(0), ints(-1)]),
    Row("Split", [TABLE, ints(1, 2)], {"axis": 1}, 2), Row("Split", [SHAPE, ints(1, 1)], {}, 2),
    Row("Transpose", [ints(TABLE, TABLE)], {"perm": [1, 2, 0]}), Row("Transpose", [TABLE]),
    Row("Range", [np.array(7), np.array(-2), np.array(-3)]),
    Row("Range", [np.array(1), np.array(4), np.array(1)]),
    Row("Expand", [ints([1], [2]), ints(3)]), Row("Expand", [ints([1], [2]), ints(2, 2, 1)]),
    Row("Tile", [TABLE, ints(2, 1)]),
    *(Row(op, [TABLE, ints(axis)], {"keepdims": keep})
      for op in ("ReduceSum", "ReduceProd") for axis in (0, -1) for keep in (0, 1)),
    *(Row(op, [each], {"keepdims": keep})
      for op in ("ReduceSum", "ReduceProd") for each in (TABLE, SHAPE) for keep in (0, 1)),
    *(Row(op, [TABLE, ints()], {"noop_with_empty_axes": noop})
      for op in ("ReduceSum", "ReduceProd") for noop in (0, 1)),
]  # fmt: skip


def test_every_op_has_a_row() -> None:
    assert {*FOLDS} == {row.op for row in ROWS}


def test_what_needs_no_data_is_computed_as_onnx_runtime_does(tmp_path: Path) -> None:
    weights: dict[str, Array] = {}
    nodes = [helper.make_node("Shape", ["x"], [SHAPE])]
    results: list[str] = []
    for number, row in enumerate(ROWS):
        names: list[str] = []
        for at, each in enumerate(row.inputs):
            name = each if isinstance(each, str) else f"w{number}_{at}"
            names.append(name)
            if not isinstance(each, str):
                weights[name] = each
        found = [f"a{number}_{index}" for index in range(row.outputs)]
        nodes.append(helper.make_node(row.op, names, found))
        nodes[-1].attribute.extend(helper.make_attribute(*each) for each in row.attributes.items())
        for each in found:
            result = f"y{each[1:]}"
            nodes.append(helper.make_node("Cast", [each], [f"f{result}"], to=1))
            nodes.append(helper.make_node("Mul", [f"f{result}", "one"], [result]))
            results.append(result)
    nodes.append(helper.make_node("ReduceMax", ["x"], ["largest"], keepdims=0))
    nodes.append(helper.make_node("Sub", ["largest", "largest"], ["zero"]))
    nodes.append(helper.make_node("Exp", ["zero"], ["one"]))
    order = [nodes[0], *nodes[-3:], *nodes[1:-3]]
    outputs = [ValueInfoProto(name=each) for each in results]
    made = model(order, [value("x", ["n", "s"])], outputs, weights)
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    imported = import_onnx(tmp_path / "model.onnx", tmp_path / "net.mgn")
    net = meganeura.load(str(imported.program)).model(weights=imported.weights)
    session = session_of(str(tmp_path / "model.onnx"))
    for n, s in ((1, 1), (5, 3), (2, 7)):
        fed = {"x": drawn(n, s)}
        wanted, computed = session.run(None, fed), net.run(fed, device="cpu")
        for each, expected, found in zip(results, wanted, computed.values(), strict=True):
            row = ROWS[int(each[1:].partition("_")[0])]
            np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=str(row))


def test_a_size_is_divided_where_it_is_not_negative(tmp_path: Path) -> None:
    """ONNX truncates, and the language takes the floor."""
    weights = {"one": ints(1), "two": ints(2), "four": ints(4), "seven": ints(7)}
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], start=0, end=1),
        helper.make_node("Sub", ["shape", "four"], ["less"]),
        helper.make_node("Div", ["less", "two"], ["half"]),
        helper.make_node("Add", ["half", "seven"], ["size"]),
        helper.make_node("Concat", ["shape", "size"], ["both"], axis=0),
        helper.make_node("Unsqueeze", ["x", "one"], ["column"]),
        helper.make_node("Expand", ["column", "both"], ["y"]),
    ]
    made = model(nodes, [value("x", ["n"])], [ValueInfoProto(name="y")], weights)
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    text = import_onnx(tmp_path / "model.onnx", tmp_path / "net.mgn").program.read_text()
    assert "-> [n, n // 2 + 5]\n    where n - 4 >= 0:" in text
