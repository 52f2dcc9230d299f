"""Models as programs: their text, and that they are what was exported."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import meganeura as api
from fuzz.onnx_models import (
    branched,
    convolutional,
    model,
    random,
    repeated,
    reshaped,
    resized,
    value,
)
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, Sink
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.syntax.formatter.formatter import find_comments, format_module
from meganeura_dsl.syntax.parser.parser import parse
from meganeura_dsl.syntax.parser.source_files import read_source
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_runtime.export.onnx.options import OnnxOptions
from meganeura_runtime.importing.onnx.importing import Imported, import_onnx
from tests.effort import effort
from tests.runtime.export.onnx.test_onnx_models import MODELS


def imported(made: ModelProto, folder: Path, **sizes: int) -> Imported:
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    return import_onnx(folder / "model.onnx", folder / "net.mgn", sizes)


def body(made: Imported) -> str:
    """The program without the comment above it."""
    return made.program.read_text().partition("\n\n")[2]


@pytest.mark.parametrize(
    "name",
    effort(
        ["digits_cnn", "tagger"], ["digits_cnn", "gpt2_tiny", "vit_tiny", "mamba_tiny", "tagger"]
    ),
)
def test_what_was_exported_is_read_again(name: str, tmp_path: Path) -> None:
    MODELS[name].export(tmp_path / "model.onnx", OnnxOptions())
    made = import_onnx(tmp_path / "model.onnx", tmp_path / "net.mgn")
    assert made.difference <= 1e-5
    wanted = {each.name: each.type for each in MODELS[name].elaborate({}).parameters}
    model = api.load(str(made.program)).model(weights=made.weights)
    found = {each.name: each.type for each in model.parameters}
    assert found == wanted
    assert not made.renamed
    assert made.sizes


def test_layers_have_their_labels(tmp_path: Path) -> None:
    assert (
        body(imported(convolutional(), tmp_path))
        == """\
block Net()(x: [n, 3, h, w]) -> [n, 2]:
  return x |> stem: conv2d(4, 3, pad=1, bias=false) |> norm: batch_norm |> relu |> mean(2, 3)
           |> fc: linear(2)

model net = Net()
"""
    )


def test_sizes_stay_symbols(tmp_path: Path) -> None:
    made = imported(reshaped(), tmp_path)
    assert (
        body(made)
        == """\
block Net()(x: [n, s, 8]) -> [n, 4, 2 * s]:
  return x |> proj: linear(8) |> rearrange([a, b, c] -> [a, b * c])
           |> rearrange([a, b * 4] -> [a, 4, b]) |> softmax

model net = Net()
"""
    )
    assert made.renamed == {"proj.weight": "onnx::MatMul_7"}


def test_layers_that_repeat_are_a_loop(tmp_path: Path) -> None:
    assert (
        body(imported(repeated(), tmp_path))
        == """\
block Layer()(x: [n, s, 6], y: bool[n, s, 6]) -> [n, s, 6]:
  param fc.weight: [6, 6] = zeros
  param scale: [6] = zeros
  return x + where(y, (x |> norm: layer_norm) @ fc.weight * scale, x)

block Net()(x: [n, s, 6], gate: [n, s, 6]) -> [n, s, 6]:
  y = x
  for i in 0..3:
    y = y |> encoder.layers[i]: Layer()(gate > 0.5)
  return y

model net = Net()
"""
    )


def test_a_loop_ends_where_something_else_is_read(tmp_path: Path) -> None:
    made = repeated()
    made.graph.output.append(value("e1", ["n", "s", 6]))
    text = body(imported(made, tmp_path))
    assert "for i in 0..2:" in text
    assert "encoder.layers[2].norm: layer_norm" in text


def test_a_loop_is_the_straight_program(tmp_path: Path) -> None:
    """Outputs equal those of the same layers written one by one."""
    loop = imported(repeated(5), tmp_path)
    one = api.load(str(loop.program)).model(weights=loop.weights)
    other = tmp_path / "other"
    other.mkdir()
    made = repeated(5)
    made.graph.output.append(value("e2", ["n", "s", 6]))
    straight = imported(made, other)
    two = api.load(str(straight.program)).model(weights=straight.weights)
    generator = np.random.default_rng(0)
    fed = {name: generator.normal(size=(2, 3, 6)).astype(np.float32) for name in ("x", "gate")}
    assert "for i in" in loop.program.read_text()
    found = two.run(fed, device="cpu")["output0"]
    assert np.array_equal(one.run(fed, device="cpu")["output"], found)


@pytest.mark.parametrize("make", [branched, resized])
def test_functions_branches_and_resizing(make: Callable[[], ModelProto], tmp_path: Path) -> None:
    assert imported(make(), tmp_path).difference < 1e-5


def test_the_text_is_formatted_and_checked(tmp_path: Path) -> None:
    made = imported(repeated(), tmp_path)
    source, sink = read_source(made.program), Sink()
    module = parse(source, sink)
    assert format_module(module, find_comments(source)) == source.text
    assert api.check(str(made.program)).fine


def test_weights_that_two_nodes_read_are_one(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["table.weight", "ids"], ["a"]),
        helper.make_node("Transpose", ["table.weight"], ["b"], perm=[1, 0]),
        helper.make_node("MatMul", ["a", "b"], ["y"]),
    ]
    weights = {"table.weight": np.arange(12, dtype=np.float32).reshape(4, 3)}
    inputs = [value("ids", ["n", "s"], TensorProto.INT64)]
    made = imported(model(nodes, inputs, [value("y", ["n", "s", 4])], weights), tmp_path)
    program = api.load(str(made.program)).model(weights=made.weights)
    assert [each.name for each in program.parameters] == ["table.weight"]


def test_sizes_and_switches_are_given(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Equal", ["rate", "wanted"], ["same"]),
        helper.make_node(
            "If",
            ["same"],
            ["z"],
            then_branch=helper.make_graph(
                [helper.make_node("Relu", ["x"], ["a"])], "then", [], [value("a", ["n", "s"])]
            ),
            else_branch=helper.make_graph(
                [helper.make_node("Neg", ["x"], ["b"])], "else", [], [value("b", ["n", "s"])]
            ),
        ),
        helper.make_node("Identity", ["z"], ["y"]),
    ]
    inputs = [value("x", ["n", "s"]), value("rate", [], TensorProto.INT64)]
    whole = model(nodes, inputs, [value("y", ["n", "s"])], {"wanted": np.array(16000)})
    assert "where(rate == 16000, relu(x), -x)" in body(imported(whole, tmp_path))
    for rate, op in ((16000, "relu(x)"), (8000, "-x")):
        text = body(imported(whole, tmp_path, rate=rate, s=7))
        assert f"(x: [n, 7]) -> [n, 7]:\n  return {op}\n" in text
    with pytest.raises(ProblemError, match="cannot read"):
        imported(whole, tmp_path, t=7)


def test_a_switch_may_be_a_row_of_one(tmp_path: Path) -> None:
    nodes = [helper.make_node("Expand", ["x", "times"], ["y"])]
    inputs = [value("x", [1]), value("times", [1], TensorProto.INT64)]
    made = model(nodes, inputs, [value("y", ["m"])])
    assert "(x: [1]) -> [7]:" in body(imported(made, tmp_path, times=7))


def test_initializers_may_be_listed_among_the_inputs(tmp_path: Path) -> None:
    """Before version 4 of the format they all were."""
    text = body(imported(convolutional(), tmp_path))
    made = convolutional()
    made.graph.input.extend(
        helper.make_tensor_value_info(each.name, each.data_type, each.dims)
        for each in made.graph.initializer
    )
    made.ir_version = 3
    assert body(imported(made, tmp_path)) == text


def test_names_that_the_language_has_one_for_stay_apart(tmp_path: Path) -> None:
    """Of inputs, of sizes and of weights; a path may lie above another."""
    names = ["p-q", "p_q", "p.q", "p", "p.q.r", "0", "if", "p::q"]
    weights = {name: np.array([1, 2, index], np.float32) for index, name in enumerate(names)}
    nodes = [
        helper.make_node("Transpose", ["x_1"], ["y0"], perm=[1, 0, 2]),
        helper.make_node("Add", ["x-1", "y0"], ["z0"]),
        *(helper.make_node("Mul", [f"z{index}", name], [f"z{index + 1}"])
          for index, name in enumerate(names)),
    ]  # fmt: skip
    inputs = [value("x-1", ["a.b", "a_b", 3]), value("x_1", ["a_b", "a.b", 3])]
    last = f"z{len(names)}"
    made = imported(model(nodes, inputs, [value(last, ["a.b", "a_b", 3])], weights), tmp_path)
    assert "(x_1: [a_b, a_b2, 3], x_1_2: [a_b2, a_b, 3]) -> [a_b, a_b2, 3]:" in body(made)
    net = api.load(str(made.program)).model(weights=made.weights)
    renamed = {each.name: made.renamed.get(each.name, each.name) for each in net.parameters}
    assert sorted(renamed.values()) == sorted(names)
    x = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    found = net.run({"x_1": x, "x_1_2": x.transpose(1, 0, 2)}, device="cpu")["output"]
    np.testing.assert_allclose(found, 2 * x * np.prod([*weights.values()], axis=0), rtol=1e-5)


def test_a_size_of_minus_one_is_open(tmp_path: Path) -> None:
    made = model([helper.make_node("Abs", ["x"], ["y"])], [value("x", [-1, 3])], [value("y", [2])])
    made.graph.output[0].type.Clear()
    assert "(x: [n, 3]) -> [n, 3] = abs(x)" in body(imported(made, tmp_path)).replace(
        ":\n  return", " ="
    )


@pytest.mark.parametrize("name", ["layer", "linear", "in", "2d"])
def test_a_program_is_called_as_its_file_and_as_nothing_else(name: str, tmp_path: Path) -> None:
    """Not as the block of a layer, a name of the library or a word of the language."""
    (tmp_path / "model.onnx").write_bytes(repeated().SerializeToString())
    found = import_onnx(tmp_path / "model.onnx", tmp_path / f"{name}.mgn")
    text = found.program.read_text()
    assert "for i in 0..3:" in text
    assert len(re.findall(r"^block ", text, re.MULTILINE)) == 2
    fed = {each: np.zeros((2, 3, 6), np.float32) for each in ("x", "gate")}
    assert api.load(str(found.program)).model(weights=found.weights).run(fed, device="cpu")


def test_layers_that_repeat_have_names_for_sizes_that_are_computed(tmp_path: Path) -> None:
    made = repeated()
    for index, name in enumerate(("x", "gate")):
        node = helper.make_node("Concat", [name, name], [f"{name}{name}"], axis=1)
        for each in made.graph.node:
            each.input[:] = [f"{name}{name}" if name == read else read for read in each.input]
        made.graph.node.insert(index, node)
    made.graph.output[0].CopyFrom(value("e2", ["n", "t", 6]))
    text = body(imported(made, tmp_path))
    assert "block Layer()(x: [n, s1, 6], y: bool[n, s1, 6]) -> [n, s1, 6]:" in text
    assert "for i in 0..3:" in text
    assert "-> [n, 2 * s, 6]:" in text


def test_what_must_be_true_of_sizes_is_stated(tmp_path: Path) -> None:
    weights = {"w": np.ones((1, 1, 5), np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Add", ["c", "z"], ["y"]),
    ]
    inputs = [value("x", ["n", 1, "t"]), value("z", ["n", 1, "u"])]
    text = body(imported(model(nodes, inputs, [value("y", ["n", 1, "u"])], weights), tmp_path))
    assert "where t >= 5, u == t - 4:" in text


def test_repvgg_collapses_to_its_inference_form(tmp_path: Path) -> None:
    """The optimizer makes of the imported training form what it makes of the model itself."""
    MODELS["repvgg_b1g4"].export(tmp_path / "model.onnx", OnnxOptions())
    made = import_onnx(tmp_path / "model.onnx", tmp_path / "net.mgn")
    given = [(str(made.program), {}), ("repvgg_b1g4", MODELS["repvgg_b1g4"].config)]
    counts = [_ops(*each) for each in given]
    assert counts[0] == counts[1]
    assert not {"Sqrt", "Div"} & {*counts[0]}


def _ops(target: str, config: Mapping[str, StaticValue]) -> Counter[str]:
    """Returns the number of ops of each kind in a model's optimized graph."""
    program = pipeline.load(target)
    sizes = {"n": 1, "h": 32, "w": 32}
    graph = pipeline.elaborate_model(program, config=config, sizes=sizes).graph
    found = optimize(graph, mode="infer").graph
    return Counter(type(each.op).__name__ for each in found.values)


# --- random numbers ------------------------------------------------------------------------------

DRAWS = """block Walk()(x: [n]) -> [n]:
  y = x + random_normal([n])
  scan i in 0..3:
    y = y + random_uniform([n])
  return y

model walk = Walk()
"""


def test_random_numbers_are_the_same_when_read(tmp_path: Path) -> None:
    (tmp_path / "walk.mgn").write_text(DRAWS)
    api.load(tmp_path / "walk.mgn").model().export(tmp_path / "walk.onnx")
    made = import_onnx(tmp_path / "walk.onnx", tmp_path / "back.mgn")
    text = made.program.read_text()
    assert made.difference < 1e-6
    assert text.count("random_uniform([n])") == 1
    assert text.count("random_normal([n])") == 1
    assert "counter" not in text


def _shifted(made: ModelProto) -> None:
    made.graph.node[0].attribute[0].i += 1


def _counted(made: ModelProto) -> None:
    made.graph.node.append(helper.make_node("Cast", ["counter"], ["c"], to=TensorProto.FLOAT))
    made.graph.node.append(helper.make_node("ReduceSum", ["c"], ["z"]))
    made.graph.output.append(value("z", [1]))


def _fed(made: ModelProto) -> None:
    made.graph.input.append(value("other", [2], TensorProto.UINT32))
    made.graph.node[0].input[0] = "other"


def _otherwise(made: ModelProto) -> None:
    made.functions[1].node[-2].op_type = "Max"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_shifted, "its stream is not the next of the model's own block"),
        (_counted, "a counter of random numbers is read by something else"),
        (_fed, "its counter is not the input `counter`"),
        (_otherwise, "differs by"),
    ],
)
def test_random_numbers_that_no_program_draws(
    damage: Callable[[ModelProto], None], reason: str, tmp_path: Path
) -> None:
    made = random()
    damage(made)
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(ProblemError) as caught:
        import_onnx(tmp_path / "net.onnx", tmp_path / "net.mgn")
    assert reason in str(caught.value.problem.report())


def test_halves_have_parameters_of_their_own(tmp_path: Path) -> None:
    """Layers of the library have parameters of f32."""
    half = np.float16
    weights = {
        "fc.weight": np.ones((3, 4), half), "fc.bias": np.ones(3, half),
        "conv.weight": np.ones((4, 3, 1), half), "norm.weight": np.array([1, 2, 3, 4], half),
        "norm.bias": np.array([1, 2, 3, 4], half),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"], perm=[0, 2, 1]),
        helper.make_node("LayerNormalization", ["b", "norm.weight", "norm.bias"], ["c"]),
        helper.make_node("ReduceMean", ["c", "one"], ["d"], keepdims=0),
        helper.make_node("Gemm", ["d", "fc.weight", "fc.bias"], ["y"], transB=1),
    ]
    of = TensorProto.FLOAT16
    made = model(
        nodes, [value("x", ["n", 3, 5], of)], [value("y", ["n", 3], of)],
        {**weights, "one": np.array([1])},
    )  # fmt: skip
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    back = import_onnx(tmp_path / "net.onnx", tmp_path / "net.mgn")
    assert "f16[n, 3, 5]) -> f16[n, 3]" in back.program.read_text()


@pytest.mark.parametrize("orders", [[[0, 2, 1, 3], [0, 1, 3, 2]], [[0, 2, 3, 1]]])
def test_keys_are_turned_as_the_library_turns_them(
    orders: Sequence[Sequence[int]], tmp_path: Path
) -> None:
    """However a file does it, so that attention is found."""
    nodes = [helper.make_node("Reshape", ["x", "heads"], ["k0"])]
    for at, order in enumerate(orders):
        nodes.append(helper.make_node("Transpose", [f"k{at}"], [f"k{at + 1}"], perm=order))
    nodes.append(helper.make_node("MatMul", ["q", f"k{len(orders)}"], ["y"]))
    weights = {"heads": np.array([0, 0, 2, 4])}
    given = [value("q", ["n", 2, "s", 4]), value("x", ["n", "s", 8])]
    made = imported(model(nodes, given, [value("y", ["n", 2, "s", "s"])], weights), tmp_path)
    assert "-> [a, 2, b, c]), [a, b, c, d] -> [a, b, d, c])" in body(made)
