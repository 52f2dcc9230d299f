"""`Scan` and `Loop` as scans of the language."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper

from fuzz.onnx_models import drawn, looped, model, value
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.ir.graph import Array
from meganeura_runtime.export.onnx.export import export_onnx
from meganeura_runtime.export.onnx.options import OnnxOptions
from meganeura_runtime.importing.onnx.importing import import_onnx
from meganeura_runtime.io.weights import initial_values
from tests.runtime.importing.onnx.test_imported_models import body, imported

NODE = helper.make_node
START = {"zero": np.zeros(4, np.float32), "start": drawn(4)}
COUNTS = [value("i", [], TensorProto.INT64), value("on", [], TensorProto.BOOL)]
ON = value("on", [], TensorProto.BOOL)


def rounds(nodes: Sequence[NodeProto], inputs: str, outputs: str) -> GraphProto:
    """The body of a scan of rows of four."""
    return helper.make_graph(
        list(nodes), "body", [value(each, [4]) for each in inputs.split()],
        [value(each, [4]) for each in outputs.split()],
    )  # fmt: skip


def text(
    nodes: Sequence[NodeProto], outputs: Sequence[ValueInfoProto], folder: Path, **weights: Array
) -> str:
    """The program of nodes of x: [n, 4], which gives what ONNX Runtime gives."""
    made = model(nodes, [value("x", ["n", 4])], outputs, {**START, **weights})
    return body(imported(made, folder))


def test_a_loop_around_a_scan(tmp_path: Path) -> None:
    assert (
        body(imported(looped(), tmp_path))
        == """\
block Net()(x: [s, 3]) -> [3], [s, 3]:
  param start: [3] = zeros
  param w: [3, 3] = zeros
  y = start
  scan t in 0..s:
    u = y
    scan k in 0..s:
      a = rearrange(rearrange(u, [a] -> [1, a]) @ w, [1, a] -> [a]) + x[k]
      v[k] = a
      u = tanh(a)
    z[t] = gather(v, t)
    y = u
  return y, z

model net = Net()
"""
    )


def test_carries_change_places_and_some_are_never_read(tmp_path: Path) -> None:
    nodes = [
        NODE("Add", ["a", "x"], ["t"]), NODE("Mul", ["t", "d"], ["g"]),
        NODE("Identity", ["b"], ["a2"]), NODE("Identity", ["a"], ["b2"]),
        NODE("Identity", ["x"], ["c2"]), NODE("Identity", ["d"], ["d2"]),
    ]  # fmt: skip
    scan = NODE(
        "Scan", ["zero", "start", "zero", "start", "x"], [*"ABCDG"], num_scan_inputs=1,
        body=rounds(nodes, "a b c d x", "a2 b2 c2 d2 g"),
    )  # fmt: skip
    outputs = [*(value(each, [4]) for each in "ABCD"), value("G", ["n", 4])]
    found = text([scan], outputs, tmp_path)
    assert "scan t in 0..n:" in found
    assert "[n - 1]" in found


def test_axes_and_directions(tmp_path: Path) -> None:
    nodes = [NODE("Add", ["a", "x"], ["t"]), NODE("Mul", ["t", "r"], ["u"])]
    scan = NODE(
        "Scan", ["zero", "x", "x"], ["A", "G"], body=rounds(nodes, "a x r", "t u"),
        num_scan_inputs=2, scan_input_directions=[0, 1], scan_output_axes=[-1],
        scan_output_directions=[1],
    )  # fmt: skip
    found = text([scan], [value("A", [4]), value("G", [4, "n"])], tmp_path)
    assert "= reverse(x, 0)" in found
    assert "return z, reverse(u, 1)" in found


@pytest.mark.parametrize("backward", [0, 1])
def test_a_linear_recurrence(backward: int, tmp_path: Path) -> None:
    nodes = [NODE("Mul", ["x", "h"], ["m"]), NODE("Add", ["r", "m"], ["t"])]
    scan = NODE(
        "Scan", ["none", "x", "x"], ["A", "G"],
        body=rounds([*nodes, NODE("Identity", ["t"], ["u"])], "h x r", "t u"), num_scan_inputs=2,
        scan_input_directions=[backward] * 2, scan_output_directions=[backward],
    )  # fmt: skip
    none = NODE("ConstantOfShape", ["four"], ["none"])
    outputs = [value("A", [4]), value("G", ["n", 4])]
    found = text([none, scan], outputs, tmp_path, four=np.array([4]))
    assert "linear_recurrence(" in found
    assert "scan" not in found


def test_a_loop_without_carries_counts(tmp_path: Path) -> None:
    nodes = [NODE("Cast", ["i"], ["f"], to=TensorProto.FLOAT)]
    graph = helper.make_graph(nodes, "body", COUNTS, [ON, value("f", [])])
    loop = NODE("Loop", ["four", ""], ["H"], body=graph)
    outputs = [value("y", ["n", 4])]
    found = text([loop, NODE("Add", ["H", "x"], ["y"])], outputs, tmp_path, four=np.array(4))
    assert "    y[t] = f32(t)\n" in found


@pytest.mark.parametrize(
    ("count", "nodes", "why"),
    [
        ("", [NODE("Neg", ["h"], ["g"])], "when it ends depends on data"),
        ("four", [NODE("Cast", ["h"], ["on"], to=9), NODE("Neg", ["h"], ["g"])], "when it ends"),
        ("four", [NODE("Concat", ["h", "h"], ["g"], axis=0)], "what it carries becomes"),
    ],
)
def test_loops_that_data_decide_are_refused(
    count: str, nodes: Sequence[NodeProto], why: str, tmp_path: Path
) -> None:
    graph = helper.make_graph(
        list(nodes), "body", [*COUNTS, value("h", [4])], [ON, value("g", [4])]
    )
    loop = NODE("Loop", [count, "", "start"], ["y"], body=graph)
    with pytest.raises(ProblemError, match="cannot say this `Loop`") as caught:
        text([loop], [value("y", [4])], tmp_path, four=np.array(4))
    assert why in str(caught.value.problem.report())


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"scan_output_axes": [2]}, "it collects along an axis that is not there"),
        ({"scan_output_axes": [-3]}, "it collects along an axis that is not there"),
        ({"scan_input_axes": [2]}, "no axis 2 of 2"),
        ({"scan_input_axes": [0, 0]}, "it has 2 `scan_input_axes`, not 1"),
        ({"scan_output_directions": []}, "it has 0 `scan_output_directions`, not 1"),
        ({"num_scan_inputs": 3}, "it has other operands than it says"),
        ({"num_scan_inputs": 0}, "it has other operands than it says"),
    ],
)
def test_scans_of_what_is_not_there_are_refused(
    attributes: dict[str, int | list[int]], why: str, tmp_path: Path
) -> None:
    nodes = [NODE("Add", ["a", "x"], ["t"]), NODE("Neg", ["t"], ["u"])]
    scan = NODE("Scan", ["zero", "x"], ["A", "G"], body=rounds(nodes, "a x", "t u"))
    of = helper.make_attribute
    given = {"num_scan_inputs": 1, **attributes}
    scan.attribute.extend(
        of(name, each, attr_type=7 if isinstance(each, list) else 2) for name, each in given.items()
    )
    with pytest.raises(ProblemError, match="cannot say this `Scan`") as caught:
        text([scan], [value("A", [4]), value("G", ["n", 4])], tmp_path)
    assert why in str(caught.value.problem.report())


@pytest.mark.parametrize(
    ("count", "begins", "why"),
    [
        ("four", "no", "whether it begins depends on data"),
        ("four", "data", "whether it begins depends on data"),
        ("two", "", "its iterations are not one number"),
        ("none", "", "a loop has no iterations"),
    ],
)
def test_loops_that_may_not_begin_are_refused(
    count: str, begins: str, why: str, tmp_path: Path
) -> None:
    nodes = [NODE("Neg", ["h"], ["g"])]
    graph = helper.make_graph(nodes, "body", [*COUNTS, value("h", [4])], [ON, value("g", [4])])
    loop = NODE("Loop", [count, begins, "start"], ["y"], body=graph)
    cast = [NODE("ReduceMax", ["x"], ["most"], keepdims=0), NODE("Cast", ["most"], ["data"], to=9)]
    weights = {
        "four": np.array(4),
        "two": np.array([4, 4]),
        "none": np.array(0),
        "no": np.zeros(1, np.bool_),
    }
    with pytest.raises(ProblemError, match="cannot say this `Loop`") as caught:
        text([*cast, loop], [value("y", [4])], tmp_path, **weights)
    assert why in str(caught.value.problem.report())


@pytest.mark.parametrize("more", ["", "p", "u"])
def test_a_layer_in_a_loop_keeps_its_bias(more: str, tmp_path: Path) -> None:
    """Of h = tanh(w x + b) + h; what the loop also collects is not changed."""
    nodes = [
        NODE("MatMul", ["r", "turned"], ["p"]), NODE("Add", ["p", "cell.bias"], ["s"]),
        NODE("Tanh", ["s"], ["t"]), NODE("Add", ["t", "h"], ["h2"]),
        *([NODE("Identity", ["p"], ["u"])] if more == "u" else []),
    ]  # fmt: skip
    rows = helper.make_graph(
        nodes, "body", [value(each, [2, 4]) for each in "hr"],
        [value(each, [2, 4]) for each in ["h2", *more]],
    )  # fmt: skip
    scan = NODE("Scan", ["zeros", "x"], ["y", *["z" for _ in more]], num_scan_inputs=1, body=rows)
    outputs = [value("y", [2, 4]), *(value("z", ["n", 2, 4]) for _ in more)]
    weights = {
        "zeros": drawn(2, 4), "cell.weight": drawn(4, 4, seed=1), "cell.bias": drawn(4, seed=2)
    }  # fmt: skip
    nodes = [NODE("Transpose", ["cell.weight"], ["turned"], perm=[1, 0]), scan]
    made = imported(model(nodes, [value("x", ["n", 2, 4])], outputs, weights), tmp_path)
    assert ("cell: linear(4)" in body(made)) is not bool(more)
    assert "param zeros_2: [2, 4] = zeros\n" in body(made)


def test_a_row_that_a_scan_replaces_is_read_again(tmp_path: Path) -> None:
    program = pipeline.load_text(
        Source(
            "net.mgn",
            """\
block Net()(x: [n, 4]) -> [n, 4]:
  y = x |> fc: linear(4)
  scan t in 0..n:
    y[t, :] = 2 * y[t, :] + x[0]
  return y

model net = Net()
""",
        )
    )

    def elaborate(sizes: Mapping[str, int] | None = None, *, training: bool = False) -> Elaboration:
        return pipeline.elaborate_model(program, "net", sizes=sizes, training=training)

    weights = initial_values(elaborate({"n": 3}).parameters, 0)
    path = tmp_path / "net.onnx"
    export_onnx("net", elaborate, weights, path, OnnxOptions())
    read = import_onnx(path, tmp_path / "back.mgn")
    assert read.difference < 1e-5
    assert "scan" in read.program.read_text()
