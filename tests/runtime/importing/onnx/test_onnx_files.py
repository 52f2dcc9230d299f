"""Files that are refused before anything of them becomes a program."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from fuzz.onnx_models import convolutional, drawn, model, random, reshaped, value
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.importing.onnx import onnx_file, translation
from meganeura_runtime.importing.onnx.import_problems import (
    NoForm,
    UnreadableOnnx,
    UnsafeExternalData,
)
from meganeura_runtime.importing.onnx.importing import import_onnx
from meganeura_runtime.importing.onnx.onnx_file import read_onnx
from meganeura_runtime.importing.onnx.onnx_process import OnnxFailedError, OnnxProcess
from meganeura_runtime.importing.onnx.translation import translate


def written(made: ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def external(location: str, **said: str) -> ModelProto:
    """A model that keeps a weight of 4 x 4 beside it."""
    made = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [value("x", ["n", 4])],
        [value("y", ["n", 4])],
        {"w": np.zeros((4, 4), np.float32)},
    )
    (weight,) = made.graph.initializer
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, text in {"location": location, **said}.items():
        weight.external_data.add(key=key, value=text)
    return made


def test_data_beside_the_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    numbers = drawn(4, 4)
    (tmp_path / "deep" / "w.bin").write_bytes(b"1234" + numbers.tobytes())
    path = written(external("deep/w.bin", offset="4", length="64"), tmp_path)
    made = import_onnx(path, tmp_path / "net.mgn")
    assert made.difference < 1e-6
    assert "param w: [4, 4]" in made.program.read_text()


@pytest.mark.parametrize(
    "location", ["/etc/passwd", "../w.bin", "a/../../w.bin", "C:\\w.bin", "..\\w.bin", "", "a\0b"]
)
def test_no_other_file_is_read(location: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(64))
    with pytest.raises(ProblemError) as refused:
        translate(read_onnx(written(external(location), folder)), {})
    assert isinstance(refused.value.problem, UnsafeExternalData)


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(64))
    (folder / "w.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(ProblemError) as refused:
        translate(read_onnx(written(external("w.bin"), folder)), {})
    assert isinstance(refused.value.problem, UnsafeExternalData)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({}, "ends before `w` does"),
        ({"offset": "-1"}, "no number"),
        ({"offset": "9" * 30}, "no number"),
        ({"length": "63"}, "64 bytes is said to have 63"),
    ],
)
def test_data_of_another_length(said: dict[str, str], reason: str, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(63))
    with pytest.raises(ProblemError) as refused:
        translate(read_onnx(written(external("w.bin", **said), tmp_path)), {})
    assert isinstance(refused.value.problem, UnreadableOnnx)
    assert reason in refused.value.problem.reason


def _large(made: ModelProto) -> None:
    made.graph.initializer[0].dims[:] = [1 << 20, 1 << 20]


def _short(made: ModelProto) -> None:
    made.graph.initializer[0].raw_data = b"1234"


def _text(made: ModelProto) -> None:
    made.graph.initializer[0].data_type = TensorProto.STRING


def _twice(made: ModelProto) -> None:
    made.graph.initializer.append(made.graph.initializer[0])


def _deep(made: ModelProto) -> None:
    made.graph.initializer[0].dims[:] = [4, 3, 3, 3, *[1] * 13]


def _negative(made: ModelProto) -> None:
    made.graph.initializer[0].dims[:] = [-4, -3, 3, 3]


def _doubled(made: ModelProto) -> None:
    made.graph.input.append(made.graph.input[0])


def _old(made: ModelProto) -> None:
    made.opset_import[0].version = 6


def _elsewhere(made: ModelProto) -> None:
    made.opset_import[0].domain = "ai.onnx.ml"


def _headless(made: ModelProto) -> None:
    made.ClearField("graph")


def _empty(made: ModelProto) -> None:
    del made.graph.output[:]


def _undefined(made: ModelProto) -> None:
    made.graph.output[0].name = "nowhere"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_large, "1,099,511,627,776 elements"),
        (_short, "`stem.weight`"),
        (_text, "holds string"),
        (_twice, "as another is"),
        (_doubled, "two inputs are called `x`"),
        (_old, "its opset is 6"),
        (_elsewhere, "all its ops are of `ai.onnx.ml`, which is not read"),
        (_deep, "`stem.weight` has an impossible shape"),
        (_negative, "`stem.weight` has an impossible shape"),
        (_headless, "no graph"),
        (_empty, "no outputs"),
        (_undefined, "`nowhere` is not defined"),
    ],
)
def test_a_damaged_model(damage: Callable[[ModelProto], None], reason: str, tmp_path: Path) -> None:
    made = convolutional()
    damage(made)
    with pytest.raises(ProblemError) as refused:
        translate(read_onnx(written(made, tmp_path)), {})
    assert isinstance(refused.value.problem, UnreadableOnnx)
    assert reason in refused.value.problem.reason


@pytest.mark.parametrize("where", ["producer_name", "graph", "node", "input"])
def test_texts_that_are_none_are_refused_wherever_they_stand(where: str, tmp_path: Path) -> None:
    made, mark = convolutional(), "unlikely"
    match where:
        case "producer_name":
            made.producer_name = mark
        case "graph":
            made.graph.doc_string = mark
        case "node":
            made.graph.node[1].name = mark
        case _:
            made.graph.input[0].type.denotation = mark
    content = made.SerializeToString()
    assert content.count(mark.encode()) == 1
    (tmp_path / "a.onnx").write_bytes(content.replace(mark.encode(), b"\xff\xfenlikely"[:8]))
    with pytest.raises(ProblemError) as refused:
        read_onnx(tmp_path / "a.onnx")
    assert isinstance(refused.value.problem, UnreadableOnnx)


def test_what_is_no_protobuf(tmp_path: Path) -> None:
    for content in (b"", b"\xff" * 40, b"hello"):
        (tmp_path / "a.onnx").write_bytes(content)
        with pytest.raises(ProblemError) as refused:
            read_onnx(tmp_path / "a.onnx")
        assert isinstance(refused.value.problem, UnreadableOnnx)
    with pytest.raises(ProblemError):
        read_onnx(tmp_path / "nowhere.onnx")
    with pytest.raises(ProblemError):
        read_onnx(tmp_path)


def test_nodes_and_nesting_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(convolutional(), tmp_path)
    monkeypatch.setattr(onnx_file, "MOST_NODES", 5)
    with pytest.raises(ProblemError, match="cannot read") as refused:
        read_onnx(path)
    assert "more than 5 nodes" in str(refused.value.problem)


def test_functions_that_call_themselves_end(tmp_path: Path) -> None:
    made = convolutional()
    node = helper.make_node("Own", ["x"], ["y"], domain="own")
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    made.functions.append(helper.make_function("own", "Own", ["x"], ["y"], [node], opsets))
    made.graph.node[2].op_type, made.graph.node[2].domain = "Own", "own"
    with pytest.raises(ProblemError) as refused:
        translate(read_onnx(written(made, tmp_path)), {})
    assert "nested more than 16 deep" in str(refused.value.problem)


def test_what_functions_stand_for_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each calls the one before it twice, so that a little file is many nodes."""
    made = model(
        [helper.make_node("F6", ["x"], ["y"], domain="own")], [value("x", [2])], [value("y", [2])]
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    made.opset_import.append(opsets[1])
    for index in range(7):
        callee, domain = (f"F{index - 1}", "own") if index else ("Abs", "")
        nodes = [helper.make_node(callee, [a], [b], domain=domain) for a, b in ("xz", "zy")]
        made.functions.append(helper.make_function("own", f"F{index}", ["x"], ["y"], nodes, opsets))
    file = read_onnx(written(made, tmp_path))
    translate(file, {})
    monkeypatch.setattr(translation, "MOST_NODES", sum(2**index for index in range(8)) - 1)
    with pytest.raises(ProblemError) as refused:
        translate(file, {})
    assert "nodes, functions included" in str(refused.value.problem)


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (helper.make_node("NonZero", ["x"], ["y"]), "not among the ops that are read"),
        (helper.make_node("Own", ["x"], ["y"], domain="com.example"), "`com.example` is not read"),
        (helper.make_node("Reshape", ["x", "s"], ["y"]), "its sizes depend on data"),
        (helper.make_node("Relu", ["z"], ["y"]), "`z` is not defined"),
        *(
            (helper.make_node(op, [], ["y"], shape=[2, 3]), "not among the ops that are read")
            for op in ("RandomNormal", "RandomUniform")
        ),
        (helper.make_node("Transpose", ["x"], ["y"], perm=[0, 0]), "no order of the axes"),
        (helper.make_node("Concat", ["x", "x"], ["y"], axis=5), "no axis 5 of 2"),
        (helper.make_node("MatMul", ["x", "x"], ["y"]), "sums over one size"),
        (helper.make_node("Dropout", ["x", "", "one"], ["y"]), "drops at random"),
        (helper.make_node("NonZero", ["x"], ["y"]), "not among the ops"),
        (helper.make_node("ReduceSum", ["x", "twice"], ["y"]), "an axis is named twice"),
        (helper.make_node("Unsqueeze", ["x", "twice"], ["y"]), "an axis is named twice"),
        (helper.make_node("ReduceMean", ["s"], ["y"]), "the mean of whole numbers"),
        (helper.make_node("ReduceL2", ["x", "far"], ["y"]), "no axis 2147483648 of 2"),
        (helper.make_node("ScatterElements", ["x", "ids", "u"], ["y"]), "along all other axes"),
        (helper.make_node("Add", ["s", "far"], ["y"]), "more than 32 bits"),
        (helper.make_node("Add", ["s", "low"], ["y"]), "more than 32 bits"),
        *(
            (helper.make_node("Add", ["s", name], ["y"]), "more than 32 bits")
            for name in ("farther", "lower")
        ),
    ],
)
def test_a_node_without_a_form_is_named(node: object, reason: str, tmp_path: Path) -> None:
    weights = {
        "one": np.array(1), "f": np.array(0.5, np.float32), "twice": np.array([1, 1]),
        "far": np.array([1 << 31]), "low": np.array([-(1 << 31) - 1]),
        "farther": np.array([1, 1 << 31]), "lower": np.array([1, -(1 << 31) - 1]),
        "ids": np.zeros((1, 2), np.int64), "u": np.ones((1, 2), np.float32),
    }  # fmt: skip
    inputs = [value("x", [2, 3]), value("s", [1], TensorProto.INT64)]
    made = model([node], inputs, [value("y", [2, 3])], weights)  # pyright: ignore[reportArgumentType] - a node
    with pytest.raises(ProblemError) as refused:
        translate(read_onnx(written(made, tmp_path)), {})
    problem = refused.value.problem
    assert isinstance(problem, NoForm)
    assert reason in problem.reason
    assert problem.node == "y"


def test_nothing_is_written_of_what_is_refused(tmp_path: Path) -> None:
    made = reshaped()
    made.graph.node[-1].op_type = "NonZero"
    with pytest.raises(ProblemError):
        import_onnx(written(made, tmp_path), tmp_path / "net.mgn")
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]


# --- what a file makes of the comparison ----------------------------------------------------------


def absolute(shape: Sequence[int | str], kind: int = TensorProto.FLOAT) -> ModelProto:
    """|x|."""
    node = helper.make_node("Abs", ["x"], ["y"])
    return model([node], [value("x", shape, kind)], [value("y", shape, kind)])


def test_what_ends_onnx_runtime_is_a_message(tmp_path: Path) -> None:
    process, path = OnnxProcess(), written(absolute([2]), tmp_path)
    feeds = {"x": np.array([-1, 2], np.float32)}
    assert process.run(path, feeds, ["y"])[0].tolist() == [1, 2]
    assert process.worker.running is not None
    process.worker.running[1].kill()
    process.worker.running[1].wait()
    with pytest.raises(OnnxFailedError, match="its process ended with"):
        process.run(path, feeds, ["y"])
    assert process.run(path, feeds, ["y"])[0].tolist() == [1, 2]
    with pytest.raises(OnnxFailedError, match=r"(?i)input"):
        process.run(path, {}, ["y"])


def repeated(iterations: Sequence[int], nodes: Sequence[NodeProto], *, is_read: bool) -> ModelProto:
    """A loop in a loop in a loop around some nodes from `a` to `b`, of so many iterations each."""
    kinds = [("i", TensorProto.INT64, []), ("go", TensorProto.BOOL, []), ("a", 1, [2])]
    inner = list(nodes)
    for depth, count in enumerate(reversed(iterations)):
        body = helper.make_graph(
            [*inner, helper.make_node("Identity", ["go"], ["on"])], f"body{depth}",
            [value(name, shape, kind) for name, kind, shape in kinds],
            [value("on", [], TensorProto.BOOL), value("b", [2])],
        )  # fmt: skip
        number = numpy_helper.from_array(np.array(count), f"iterations{depth}")
        inner = [
            helper.make_node("Constant", [], [f"iterations{depth}"], value=number),
            helper.make_node("Loop", [f"iterations{depth}", "", "a"], ["b"], body=body),
        ]
    start = [helper.make_node("Abs", ["x"], ["a"])]
    end = helper.make_node("Neg", ["b" if is_read else "x"], ["y"])
    return model([*start, *inner, end], [value("x", [2])], [value("y", [2])])


DOUBLE = (helper.make_node("Add", ["a", "a"], ["b"]),)
MUCH = (
    helper.make_node("Constant", [], ["to"], value=numpy_helper.from_array(np.array([1 << 20, 2]))),
    helper.make_node("Expand", ["a", "to"], ["wide"]),
    helper.make_node("Constant", [], ["rows"], value=numpy_helper.from_array(np.array([0]))),
    helper.make_node("ReduceMax", ["wide", "rows"], ["b"], keepdims=0),
)


@pytest.mark.parametrize(
    ("iterations", "nodes", "reason"),
    [
        ([10**12], DOUBLE, "it takes 2,000,000,000,00"),
        (
            [1 << 10, 1 << 10, 4],
            DOUBLE,
            "steps with all iterations of its loops, at most 1,048,576",
        ),
        ([1 << 15], MUCH, "numbers with all iterations of its loops, at most 17,179,869,184"),
    ],
)
@pytest.mark.parametrize("is_read", [True, False])
def test_a_loop_of_many_iterations_is_not_run(
    tmp_path: Path, iterations: list[int], nodes: Sequence[NodeProto], reason: str, *, is_read: bool
) -> None:
    """A few bytes of a file are hours of work, also of what no output needs."""
    with pytest.raises(ProblemError) as caught:
        import_onnx(
            written(repeated(iterations, nodes, is_read=is_read), tmp_path), tmp_path / "net.mgn"
        )
    assert reason in str(caught.value.problem.report())
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]


def test_a_loop_of_some_iterations_is_run(tmp_path: Path) -> None:
    path = written(repeated([10, 10], DOUBLE, is_read=True), tmp_path)
    assert import_onnx(path, tmp_path / "net.mgn").difference == 0


def test_products_that_take_hours_are_not_computed(tmp_path: Path) -> None:
    side = 1 << 14
    made = model(
        [helper.make_node("MatMul", ["x", "x"], ["y"])],
        [value("x", [side, side])],
        [value("y", [side, side])],
    )
    with pytest.raises(ProblemError) as caught:
        import_onnx(written(made, tmp_path), tmp_path / "net.mgn")
    assert "additions and multiplications, at most" in str(caught.value.problem.report())


def test_a_run_of_onnx_runtime_that_does_not_end_is_ended(tmp_path: Path) -> None:
    process, path = OnnxProcess(1.0), written(repeated([10**12], DOUBLE, is_read=True), tmp_path)
    feeds = {"x": np.array([-1, 2], np.float32)}
    with pytest.raises(OnnxFailedError, match="it takes more than 1 seconds"):
        process.run(path, feeds, ["y"])
    process.worker.longest = 60.0
    path = written(absolute([2]), tmp_path)
    assert process.run(path, feeds, ["y"])[0].tolist() == [1, 2]


def test_values_that_are_too_large_are_not_computed(tmp_path: Path) -> None:
    with pytest.raises(ProblemError) as caught:
        import_onnx(written(absolute([2, 1 << 31]), tmp_path), tmp_path / "net.mgn")
    assert "it computes 4,294,967,296 numbers at once" in str(caught.value.problem.report())


def test_values_that_nothing_needs_are_too_large_as_well(tmp_path: Path) -> None:
    """ONNX Runtime computes them."""
    made = absolute([2, 3])
    made.graph.initializer.append(numpy_helper.from_array(np.array([0, 0, 1 << 31, 0]), "pads"))
    made.graph.node.append(helper.make_node("Pad", ["x", "pads"], ["z"]))
    with pytest.raises(ProblemError) as caught:
        import_onnx(written(made, tmp_path), tmp_path / "net.mgn")
    assert "it computes 6,442,450,950 numbers at once" in str(caught.value.problem.report())


def test_random_numbers_that_nothing_needs(tmp_path: Path) -> None:
    """The program has no counter then; ONNX Runtime is fed one."""
    made = random()
    made.graph.input.append(value("x", [2]))
    made.graph.node.append(helper.make_node("Abs", ["x"], ["unrelated"]))
    del made.graph.output[:]
    made.graph.output.append(value("unrelated", [2]))
    assert import_onnx(written(made, tmp_path), tmp_path / "net.mgn").difference == 0


def test_indices_of_little_tables(tmp_path: Path) -> None:
    """The places of `GatherND` are computed of two indices, which 0 and 1 may lead out of."""
    made = model(
        [helper.make_node("GatherND", ["x", "ids"], ["y"])],
        [value("x", [1, 2, 3]), value("ids", [4, 2], TensorProto.INT64)],
        [value("y", [4, 3])],
    )
    assert import_onnx(written(made, tmp_path), tmp_path / "net.mgn").difference == 0


def test_parts_that_are_not_results(tmp_path: Path) -> None:
    split = helper.make_node("Split", ["x"], ["y", "z"], axis=0, num_outputs=1 << 31)
    made = model([split], [value("x", [4])], [value("y", [2]), value("z", [2])])
    with pytest.raises(ProblemError) as caught:
        import_onnx(written(made, tmp_path), tmp_path / "net.mgn")
    assert "2 results and 2147483648 parts" in str(caught.value.problem.report())


def test_constants_of_double_precision(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["w"], ["v"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["d", "d2"], ["e"]),
        helper.make_node("Cast", ["e"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "v"], ["z"]),
        helper.make_node("Mul", ["z", "f"], ["y"]),
    ]
    weights = {"w": drawn(3).astype("f8"), "d": np.array([1.0, 2, 3]), "d2": np.array([3.0, 7, 9])}
    made = model(nodes, [value("x", [2, 3])], [value("y", [2, 3])], weights)
    assert import_onnx(written(made, tmp_path), tmp_path / "net.mgn").difference < 1e-6
