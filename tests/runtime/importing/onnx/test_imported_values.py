"""Sequences, ranges of sizes, branches, empty tensors and biases, and what a comparison tells."""

import math
from pathlib import Path

import numpy as np
import pytest
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

import meganeura as api
from fuzz.onnx_models import drawn, model, value
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.export.onnx.differences import untold
from meganeura_runtime.importing.onnx.import_problems import NoForm
from meganeura_runtime.importing.onnx.importing import Imported, import_onnx

X = value("x", ["n", 6, 4])
FOUR = [value("y", ["n", 4])]
ints = np.array


def imported(made: ModelProto, folder: Path) -> Imported:
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    return import_onnx(folder / "model.onnx", folder / "net.mgn")


def text(made: Imported) -> str:
    return made.program.read_text()


@pytest.mark.parametrize("sizes", [ints(2), ints(4), ints([1, 2, 3]), None])
def test_parts_of_a_sequence(
    sizes: "np.ndarray[tuple[int, ...], np.dtype[np.int64]] | None", tmp_path: Path
) -> None:
    given = ["x"] + ([] if sizes is None else ["sizes"])
    nodes = [
        helper.make_node("SplitToSequence", given, ["parts"], axis=1, keepdims=1),
        helper.make_node("SequenceAt", ["parts", "first"], ["a"]),
        helper.make_node("SequenceAt", ["parts", "last"], ["b"]),
        helper.make_node("Concat", ["b", "a"], ["y"], axis=1),
    ]
    weights = {"first": ints(0), "last": ints(-1)} | ({} if sizes is None else {"sizes": sizes})
    made = imported(model(nodes, [X], [value("y", ["n", "m", 4])], weights), tmp_path)
    assert made.difference == 0
    assert "concat(x[:, " in text(made)


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (np.tri(6, 4, -1) > 0, "<= -1"),
        (np.tri(6, 4, 1) < 1, ">= 2"),
        (np.arange(24).reshape(6, 4) < 2, "constant1"),
    ],
)
def test_a_triangle_of_bools_is_said_by_positions(
    mask: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]", said: str, tmp_path: Path
) -> None:
    nodes = [
        helper.make_node("Constant", [], ["mask"], value=numpy_helper.from_array(mask)),
        helper.make_node("Where", ["mask", "x", "zero"], ["y"]),
    ]
    made = imported(
        model(nodes, [X], [value("y", ["n", 6, 4])], {"zero": np.zeros((), np.float32)}), tmp_path
    )
    assert made.difference == 0
    assert said in text(made)


NUMBERS = {"zero": 0.0, "three": 3.0, "six": 6.0, "slope": 0.2}


@pytest.mark.parametrize(
    ("ops", "said"),
    [
        ([("GreaterOrEqual", "x six"), ("Relu", "x"), ("Where", "0 six 1")], "relu6(x)"),
        ([("GreaterOrEqual", "x three"), ("Relu", "x"), ("Where", "0 six 1")], "where(x >= 3.0"),
        ([("GreaterOrEqual", "x six"), ("Relu", "x"), ("Where", "0 three 1")], "3.0, relu(x))"),
        ([("Greater", "x zero"), ("Mul", "slope x"), ("Where", "0 x 1")], "leaky_relu(slope=0.2)"),
        ([("Less", "x zero"), ("Mul", "slope x"), ("Where", "0 x 1")], "x < 0.0, x, 0.2 * x)"),
        ([("LeakyRelu", "x")], "leaky_relu(x)"),
        (
            [("Add", "x three"), ("GreaterOrEqual", "0 six"), ("Relu", "0"),
             ("Where", "1 six 2"), ("Div", "3 six"), ("Mul", "x 4")],
            "hard_swish(x)",
        ),
        (
            [("Add", "x three"), ("GreaterOrEqual", "0 six"), ("Relu", "0"),
             ("Where", "1 six 2"), ("Div", "3 three")],
            "relu6(x + 3.0) / 3.0",
        ),
    ],
)  # fmt: skip
def test_formulas_of_activations(ops: list[tuple[str, str]], said: str, tmp_path: Path) -> None:
    results = [*map(str, range(len(ops) - 1)), "y"]
    nodes = [
        helper.make_node(op, given.split(), [result])
        for (op, given), result in zip(ops, results, strict=True)
    ]
    weights = {name: np.array(number, np.float32) for name, number in NUMBERS.items()}
    made = imported(model(nodes, [X], [value("y", ["n", 6, 4])], weights), tmp_path)
    assert made.difference < 1e-6
    assert said in text(made)


def test_sequences_that_are_built_and_joined(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["two"]),
        helper.make_node("Neg", ["x"], ["z"]),
        helper.make_node("SequenceInsert", ["two", "z", "one"], ["three"]),
        helper.make_node("SequenceErase", ["three", "zero"], ["left"]),
        helper.make_node("ConcatFromSequence", ["left"], ["y"], axis=1, new_axis=1),
    ]
    weights = {"one": ints(1), "zero": ints(0)}
    made = imported(model(nodes, [X], [value("y", ["n", 2, 6, 4])], weights), tmp_path)
    assert made.difference == 0


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([helper.make_node("SequenceAt", ["parts", "far"], ["y"])], "no place 9"),
        ([helper.make_node("Neg", ["parts"], ["y"])], "is a sequence of tensors"),
    ],
)
def test_sequences_that_are_read_wrongly(nodes: list[object], reason: str, tmp_path: Path) -> None:
    split = helper.make_node("SplitToSequence", ["x"], ["parts"], axis=1)
    made = model([split, *nodes], [X], [value("y", ["n", 1, 4])], {"far": ints(9)})  # pyright: ignore[reportArgumentType] - nodes
    with pytest.raises(ProblemError) as caught:
        imported(made, tmp_path)
    assert reason in str(caught.value.problem)


@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.FLOAT])
def test_a_range_over_a_size(kind: int, tmp_path: Path) -> None:
    """As PyTorch writes `arange(x.shape[1])`: bounds that are casts of constants, or floats."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=1, end=2),
        helper.make_node("Squeeze", ["s"], ["whole"]),
        helper.make_node("Cast", ["whole"], ["size"], to=kind),
        helper.make_node("CastLike", ["zero", "size"], ["start"]),
        helper.make_node("CastLike", ["one", "size"], ["step"]),
        helper.make_node("Range", ["start", "size", "step"], ["r"]),
        helper.make_node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "f"], ["y"]),
    ]
    weights = {"zero": ints(0, np.float32), "one": ints(1, np.float32)}
    of = ["n", "s"]
    made = imported(model(nodes, [value("x", of)], [value("y", of)], weights), tmp_path)
    assert "f32(iota(s))" in text(made)


def branch(op: str, shape: list[int | str]) -> GraphProto:
    output = [value("z", shape)]
    return helper.make_graph([helper.make_node(op, ["x"], ["z"])], op, [], output)


def decided(otherwise: GraphProto) -> ModelProto:
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["is"]),
        helper.make_node("If", ["is"], ["y"], then_branch=branch("Neg", ["n", 6, 4]),
                         else_branch=otherwise),
    ]  # fmt: skip
    return model(nodes, [X], [value("y", ["n", "m", 4])], {"zero": ints(0, np.float32)})


def test_a_branch_that_data_decides(tmp_path: Path) -> None:
    made = imported(decided(branch("Exp", ["n", 6, 4])), tmp_path)
    network = api.load(str(made.program)).model(weights=made.weights)
    for sign in (1, -1):
        x = sign * np.abs(drawn(2, 6, 4))
        found = network.run({"x": x}, device="cpu")["output"]
        np.testing.assert_allclose(found, -x if sign == 1 else np.exp(x), atol=1e-6)


def test_branches_of_other_shapes_are_refused(tmp_path: Path) -> None:
    sums, axis = [helper.make_node("ReduceSum", ["x", "axis"], ["z"])], value("z", ["n", 1, 4])
    one = helper.make_tensor("axis", TensorProto.INT64, [1], [1])
    short = helper.make_graph(sums, "short", [], [axis], [one])
    with pytest.raises(ProblemError) as caught:
        imported(decided(short), tmp_path)
    assert "data decides whether it gives" in str(caught.value.problem)


def test_an_empty_tensor_drops_out_of_a_concatenation(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["n"], start=0, end=1),
        helper.make_node("Concat", ["n", "rest"], ["shape"], axis=0),
        helper.make_node("ConstantOfShape", ["shape"], ["none"]),
        helper.make_node("Mul", ["none", "low"], ["nowhere"]),
        helper.make_node("Less", ["nowhere", "none"], ["where"]),
        helper.make_node("Cast", ["where"], ["ones"], to=TensorProto.FLOAT),
        helper.make_node("Slice", ["x", "zero", "zero", "one"], ["nothing"]),
        helper.make_node("Concat", ["ones", "x", "nowhere", "nothing"], ["y"], axis=1),
    ]
    low = np.array(-1e9, np.float32)
    weights = {"rest": ints([0, 4]), "zero": ints([0]), "one": ints([1]), "low": low}
    made = imported(model(nodes, [X], [value("y", ["n", 6, 4])], weights), tmp_path)
    assert "return x" in text(made)


def test_a_bias_of_zeros_is_none(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["four"], ["zeros"]),
        helper.make_node("Conv", ["x", "c.weight", "zeros"], ["a"]),
        helper.make_node("Flatten", ["a"], ["b"]),
        helper.make_node("Gemm", ["b", "l.weight", "zeros"], ["y"], transB=1),
    ]
    weights = {"four": ints([4]), "c.weight": drawn(4, 3, 3, 3), "l.weight": drawn(4, 4)}
    made = imported(model(nodes, [value("x", ["n", 3, 3, 3])], FOUR, weights), tmp_path)
    assert "c: conv2d(4, 3, bias=false)" in text(made)
    assert "l: linear(4, bias=false)" in text(made)


def test_a_comparison_that_tells_nothing_is_no_pass(tmp_path: Path) -> None:
    weights = {"l.weight": np.zeros((4, 4), np.float32), "l.bias": np.ones(4, np.float32)}
    nodes = [helper.make_node("Gemm", ["x", "l.weight", "l.bias"], ["y"], transB=1)]
    made = imported(model(nodes, [value("x", ["n", 4])], [value("y", ["n", 4])], weights), tmp_path)
    assert made.untold == {"y": "1"}
    assert math.isnan(made.difference)


def test_other_inputs_are_tried_where_the_first_tell_nothing(tmp_path: Path) -> None:
    nodes = [helper.make_node("Log", ["x"], ["a"]), helper.make_node("ReduceSum", ["a"], ["y"])]
    made = imported(model(nodes, [X], [value("y", [1, 1, 1])]), tmp_path)
    assert not made.untold
    assert made.difference < 1e-5


def test_what_outputs_tell() -> None:
    nan, one, rows = np.full(2, np.nan), np.ones(2), np.array([1.0, np.inf, 2.0])
    assert untold([{"a": nan, "b": one, "c": rows}]) == {"a": "NaN or infinite", "b": "1"}
    assert untold([{"b": one}, {"b": 2 * one}]) == {}
    assert untold([]) == {}


def refusal(made: ModelProto, folder: Path) -> NoForm:
    with pytest.raises(ProblemError) as caught:
        imported(made, folder)
    assert isinstance(caught.value.problem, NoForm)
    return caught.value.problem


def test_the_sizes_that_would_help_are_named(tmp_path: Path) -> None:
    pool = helper.make_node(
        "MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"
    )
    of = value("x", ["n", 3, "h", "w"])
    found = refusal(model([pool], [of], [value("y", ["n", 3, "a", "b"])]), tmp_path)
    assert found.sizes == ("h", "w")
    assert "--set h=NUMBER --set w=NUMBER" in str(ProblemError(found))


def test_no_size_is_named_that_would_not_help(tmp_path: Path) -> None:
    node = helper.make_node("NonZero", ["x"], ["y"])
    assert refusal(model([node], [X], [value("y", [3, "k"])]), tmp_path).sizes == ()


def test_the_element_type_that_is_not_there_is_named(tmp_path: Path) -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.COMPLEX64)
    made = model([node], [X], [value("y", ["n", 6, 4], TensorProto.COMPLEX64)])
    assert "type complex64" in refusal(made, tmp_path).reason


def test_nodes_of_branches_are_counted(tmp_path: Path) -> None:
    assert imported(decided(branch("Exp", ["n", 6, 4])), tmp_path).nodes == 5


def decomposed(inverse: str, squared: str, *, centered: bool) -> ModelProto:
    """A norm node by node, as exporters write it."""
    nodes = [helper.make_node("ReduceMean", ["x"], ["m"], axes=[-1], keepdims=1)] * centered
    nodes += [helper.make_node("Sub", ["x", "m"], ["d"])] * centered
    d = "d" if centered else "x"
    square = {
        "Pow": helper.make_node("Pow", [d, "two"], ["s"]),
        "Mul": helper.make_node("Mul", [d, d], ["s"]),
    }
    nodes += [
        square[squared],
        helper.make_node("ReduceMean", ["s"], ["v"], axes=[2], keepdims=1),
        helper.make_node("Add", ["eps", "v"], ["e"]),
        helper.make_node("Sqrt", ["e"], ["r"]),
    ]
    nodes += {
        "Div": [helper.make_node("Div", [d, "r"], ["q"])],
        "Reciprocal": [helper.make_node("Reciprocal", ["r"], ["i"]),
                       helper.make_node("Mul", ["i", d], ["q"])],
        "one": [helper.make_node("Div", ["one", "r"], ["i"]),
                helper.make_node("Mul", [d, "i"], ["q"])],
    }[inverse]  # fmt: skip
    nodes.append(helper.make_node("Mul", ["n.weight", "q"], ["w" if centered else "y"]))
    nodes += [helper.make_node("Add", ["w", "n.bias"], ["y"])] * centered
    numbers = {"two": 2, "one": 1, "eps": 1e-3}
    weights = {name: ints(each, np.float32) for name, each in numbers.items()}
    weights |= {"n.weight": drawn(4), "n.bias": drawn(4)}
    return model(nodes, [X], [value("y", ["n", 6, 4])], weights, opset=17)


@pytest.mark.parametrize(
    ("inverse", "squared"), [("Div", "Pow"), ("Reciprocal", "Pow"), ("one", "Mul")]
)
@pytest.mark.parametrize("layer", ["layer_norm", "rms_norm"])
def test_norms_that_are_written_out(layer: str, inverse: str, squared: str, tmp_path: Path) -> None:
    made = imported(decomposed(inverse, squared, centered=layer == "layer_norm"), tmp_path)
    assert f"return x |> n: {layer}(eps=0.001)" in text(made)


@pytest.mark.parametrize("place", [1, 3])
def test_what_is_nearly_a_norm_is_none(place: int, tmp_path: Path) -> None:
    """Another axis, or a square of something else."""
    made = decomposed("Div", "Pow", centered=False)
    if place == 1:
        del made.graph.node[1].attribute[:]
        made.graph.node[1].attribute.append(helper.make_attribute("axes", [1]))
    else:
        made.graph.node[4].input[0] = "e"
    assert "rms_norm" not in text(imported(made, tmp_path))
