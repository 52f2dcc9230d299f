"""The weights of a file: trained ones, constants, and shared ones."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper

import meganeura as api
from fuzz.onnx_models import convolutional, drawn, model, value
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array
from meganeura_runtime.importing.onnx.importing import Imported, import_onnx

X = value("x", ["b", 4, 4])
Y = value("y", ["b", 4, 4])


def imported(made: ModelProto, folder: Path) -> Imported:
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    return import_onnx(folder / "model.onnx", folder / "net.mgn")


def text(made: Imported) -> str:
    return made.program.read_text()


def normed(momentum: float | None) -> ModelProto:
    made = convolutional()
    if momentum is not None:
        made.graph.node[1].attribute.append(helper.make_attribute("momentum", momentum))
    return made


@pytest.mark.parametrize(
    ("stays", "said"),
    [(0.99, "batch_norm(momentum=0.01)"), (0.9997, "batch_norm(momentum=0.0003)"),
     (1.0, "batch_norm(momentum=0.0)"), (0.0, "batch_norm(momentum=1.0)"),
     (0.9, "batch_norm |>"), (None, "batch_norm |>")],
)  # fmt: skip
def test_the_momentum_of_a_norm_is_read(stays: float | None, said: str, tmp_path: Path) -> None:
    assert said in text(imported(normed(stays), tmp_path))


def test_a_momentum_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="BatchNormalization"):
        imported(normed(1.5), tmp_path)


@pytest.mark.parametrize(("momentum", "stays"), [("0.01", 0.99), ("0.1", 0.9), ("0.0", 1.0)])
def test_the_momentum_of_a_norm_is_written(momentum: str, stays: float, tmp_path: Path) -> None:
    program = tmp_path / "net.mgn"
    program.write_text(
        "block Net()(x: [n, 3, h, w]) -> [n, 3, h, w]:\n"
        f"  return x |> bn: batch_norm(momentum={momentum})\n\nmodel net = Net()\n"
    )
    api.load(str(program)).model(seed=0).export(tmp_path / "net.onnx")
    (node,) = onnx.load(str(tmp_path / "net.onnx")).graph.node[:1]  # pyright: ignore[reportUnknownMemberType] - PathLike is left open
    assert node.op_type == "BatchNormalization"
    found = {each.name: each.f for each in node.attribute}
    assert found["momentum"] == pytest.approx(stays, abs=1e-7)


def masked(mask: Array) -> ModelProto:
    nodes = [
        helper.make_node("Add", ["x", "mask"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"], axis=-1),
    ]
    return model(nodes, [X], [Y], {"mask": mask})


def test_a_mask_with_infinities_runs_and_is_not_trained(tmp_path: Path) -> None:
    made = imported(masked(np.triu(np.full((4, 4), -np.inf, np.float32), 1)), tmp_path)
    assert (made.trained, made.constants) == ([], ["mask_infinite"])
    network = api.load(str(made.program)).model(weights=made.weights)
    found = network.run({"x": np.zeros((1, 4, 4), np.float32)}, device="cpu")["output"]
    np.testing.assert_allclose(found[0, 1], [0.5, 0.5, 0, 0], atol=1e-6)


def test_weights_with_infinities_are_trained_where_they_are_finite(tmp_path: Path) -> None:
    table = drawn(4, 4)
    table[0, 3], table[2, 1], table[1, 1] = -np.inf, -np.inf, np.inf
    nodes = [helper.make_node("Add", ["x", "t.weight"], ["a"]),
             helper.make_node("Sigmoid", ["a"], ["y"])]  # fmt: skip
    made = imported(model(nodes, [X], [Y], {"t.weight": table}), tmp_path)
    assert (made.trained, made.constants) == (["t.weight"], ["t.weight_infinite"])
    network = api.load(str(made.program)).model(weights=made.weights)
    found = network.run({"x": np.zeros((1, 4, 4), np.float32)}, device="cpu")["output"]
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(found[0], 1 / (1 + np.exp(-table)), atol=1e-6)


def test_weights_with_nan_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="cannot say this `Add`"):
        imported(masked(np.full((4, 4), np.nan, np.float32) + drawn(4, 4)), tmp_path)


def test_masks_bounds_and_choices_are_not_trained(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "mask"], ["a"]),
        helper.make_node("Where", ["is", "a", "fill"], ["b"]),
        helper.make_node("Add", ["b", "w"], ["y"]),
    ]
    weights = {
        "mask": np.tril(np.ones((4, 4), np.float32)), "is": np.eye(4, dtype=bool),
        "fill": drawn(4), "w": drawn(4, 4),
    }  # fmt: skip
    made = imported(model(nodes, [X], [Y], weights), tmp_path)
    assert made.trained == ["w"]
    assert sorted(made.constants) == ["fill", "is", "mask"]


def test_what_pytorch_says_of_a_value_counts(tmp_path: Path) -> None:
    made = model([helper.make_node("Add", ["x", "w"], ["a"]),
                  helper.make_node("Mul", ["a", "p"], ["y"])],
                 [X], [Y], {"w": drawn(4), "p": drawn(4)})  # fmt: skip
    for name, kind in (("w", "BUFFER"), ("p", "PARAMETER")):
        entry = made.graph.value_info.add(name=name).metadata_props.add()
        entry.key, entry.value = "pkg.torch.export.graph_signature.InputSpec.kind", kind
    found = imported(made, tmp_path)
    assert (found.trained, found.constants) == (["p"], ["w"])


NUMBERS = """\
block Net()(x: [n, 4]) -> [n, 4]:
  param scale: [] = ones
  param rates: [4] = ones
  frozen param shift: [4] = ones
  return exp(scale) * x + expand(exp(rates) + shift, [d] -> [n, d])

model net = Net()
"""


def test_numbers_that_a_program_trains_are_trained_when_read_again(tmp_path: Path) -> None:
    program = tmp_path / "net.mgn"
    program.write_text(NUMBERS)
    api.load(str(program)).model(seed=0).export(tmp_path / "net.onnx")
    found = import_onnx(tmp_path / "net.onnx", tmp_path / "back.mgn")
    assert sorted(found.trained) == ["rates", "scale"]
    assert "exp(scale)" in text(found)


def test_what_a_file_says_wrongly_of_its_weights_is_passed_over(tmp_path: Path) -> None:
    made = model([helper.make_node("Add", ["x", "w"], ["y"])], [X], [Y], {"w": drawn(4)})
    entry = made.metadata_props.add(key="meganeura.leaves")
    for said in ("[", "[1]", '{"w": 3, "other": "param"}', '{"w": "param"}', ""):
        entry.value = said
        found = imported(made, tmp_path)
        assert [*found.trained, *found.constants] == ["w"]
    entry.value = '{"w": "frozen"}'
    assert imported(made, tmp_path).constants == ["w"]


def test_statistics_that_no_layer_keeps_are_not_trained(tmp_path: Path) -> None:
    made = convolutional()
    del made.graph.initializer[2]
    made.graph.input.append(value("norm.bias", [4]))
    found = imported(made, tmp_path)
    assert sorted(found.constants) == ["norm.running_mean", "norm.running_var"]


@pytest.mark.parametrize("name", ["w.0.0", "p2o.pd_op.reshape.0.0", "a.1.2.3.4", "0.1", "7"])
def test_names_that_end_in_numbers(name: str, tmp_path: Path) -> None:
    made = imported(model([helper.make_node("Add", ["x", name], ["y"])], [X], [Y],
                          {name: drawn(4)}), tmp_path)  # fmt: skip
    assert len(made.trained) == 1


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("other", ["gate.correction", "gate.scale.weight"])
def test_names_below_a_layer_stay(first: int, other: str, tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "gate.weight"], ["a"]),
             helper.make_node("Mul", ["x", other], ["b"])]  # fmt: skip
    made = model([*(nodes if first else nodes[::-1]), helper.make_node("Add", ["a", "b"], ["y"])],
                 [X], [Y], {"gate.weight": drawn(4, 4), other: drawn(4)})  # fmt: skip
    found = imported(made, tmp_path)
    assert sorted(found.trained) == sorted(["gate.weight", other])
    assert not found.renamed


def test_layers_below_a_layer_keep_their_names(tmp_path: Path) -> None:
    nodes = [helper.make_node("Gemm", ["x", "gate.weight"], ["a"], transB=1),
             helper.make_node("Gemm", ["a", "gate.up.weight"], ["y"], transB=1)]  # fmt: skip
    weights = {"gate.weight": drawn(4, 4), "gate.up.weight": drawn(4, 4, seed=1)}
    found = imported(
        model(nodes, [value("x", ["n", 4])], [value("y", ["n", 4])], weights), tmp_path
    )
    assert found.trained == ["gate.weight", "gate.up.weight"]
    assert not found.renamed
    assert "gate.up: linear(4, bias=false)" in text(found)


CLAMPED = """\
block Net()(x: [n, 4]) -> [n, 4]:
  param low: [] = zeros
  param high: [] = ones
  return minimum(maximum(x, low), high)

model net = Net()
"""


def test_a_bound_that_is_trained_stays_trained(tmp_path: Path) -> None:
    program = tmp_path / "net.mgn"
    program.write_text(CLAMPED)
    api.load(str(program)).model(seed=0).export(tmp_path / "net.onnx")
    made = onnx.load(str(tmp_path / "net.onnx"))  # pyright: ignore[reportUnknownMemberType] - PathLike is left open
    made.graph.node[0].CopyFrom(helper.make_node("Clip", ["x", "low", "high"], ["clipped"]))
    made.graph.node[1].CopyFrom(
        helper.make_node("Identity", ["clipped"], list(made.graph.node[1].output))
    )
    found = imported(made, tmp_path)
    assert sorted(found.trained) == ["high", "low"]
    assert "minimum(maximum(x, low), high)" in text(found)


def applied_twice(second: str) -> ModelProto:
    nodes = [
        helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["a"], transB=1),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("Gemm", ["b", "fc.weight", second], ["y"], transB=1),
    ]
    weights = {"fc.weight": drawn(4, 4), "fc.bias": drawn(4), "other": drawn(4, seed=1)}
    return model(nodes, [value("x", ["n", 4])], [value("y", ["n", 4])], weights)


def test_a_layer_is_applied_again(tmp_path: Path) -> None:
    made = imported(applied_twice("fc.bias"), tmp_path)
    assert "|> fc: linear(4)" in text(made)
    assert "|> fc\n" in text(made)
    assert made.trained == ["fc.weight", "fc.bias"]


def test_a_weight_that_two_layers_share_is_one(tmp_path: Path) -> None:
    made = imported(applied_twice("other"), tmp_path)
    assert made.trained == ["fc.weight", "fc.bias", "other"]
    assert "fc.weight" in text(made)


def test_a_table_that_is_read_again_is_one(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["wte.weight", "ids"], ["e"]),
        helper.make_node("Transpose", ["wte.weight"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["e", "t"], ["y"]),
    ]
    ids, out = value("ids", ["n", "s"], onnx.TensorProto.INT64), value("y", ["n", "s", 9])
    made = imported(model(nodes, [ids], [out], {"wte.weight": drawn(9, 4)}), tmp_path)
    assert "wte: embedding(9, 4)" in text(made)
    assert made.trained == ["wte.weight"]


def described(made: ModelProto, **scopes: str) -> ModelProto:
    """A model with the modules of its nodes, as PyTorch's exporter writes them."""
    for node in made.graph.node:
        module = scopes.get(node.output[0])
        if module is not None:
            for key, text_ in (
                ("pkg.torch.onnx.name_scopes", f"['', '{module}', 'linear']"),
                ("pkg.torch.onnx.class_hierarchy", "['Net', 'Linear', 'aten.linear.default']"),
            ):
                entry = node.metadata_props.add()
                entry.key, entry.value = key, text_
    return made


def optimized(table: Array, folded: Array) -> ModelProto:
    """A product with a transposed table, as PyTorch's optimizer computes it beforehand."""
    nodes = [
        helper.make_node("Gather", ["wte.weight", "ids"], ["e"]),
        helper.make_node("MatMul", ["e", "val_1"], ["y"]),
    ]
    ids, out = value("ids", ["n", "s"], onnx.TensorProto.INT64), value("y", ["n", "s", 9])
    made = model(nodes, [ids], [out], {"wte.weight": table, "val_1": folded})
    entry = made.graph.value_info.add(name="val_1").metadata_props.add()
    entry.key, entry.value = "pkg.onnxscript.optimizer.folded_from", "['wte.weight']"
    return described(made, y="head")


def test_a_tie_that_an_optimizer_hid_is_one_weight(tmp_path: Path) -> None:
    table = drawn(9, 4)
    made = imported(optimized(table, np.ascontiguousarray(table.T)), tmp_path)
    assert made.trained == ["wte.weight"]


def test_what_is_not_the_transpose_is_a_weight_of_its_own(tmp_path: Path) -> None:
    made = imported(optimized(drawn(9, 4), drawn(4, 9, seed=1)), tmp_path)
    assert len(made.trained) == 2


def test_a_product_of_an_optimized_file_is_a_layer(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "val_1"], ["m"]),
             helper.make_node("Add", ["m", "fc.bias"], ["y"])]  # fmt: skip
    made = model(nodes, [X], [Y], {"val_1": drawn(4, 4), "fc.bias": drawn(4)})
    entry = made.graph.value_info.add(name="val_1").metadata_props.add()
    entry.key, entry.value = "pkg.onnxscript.optimizer.folded_from", "['fc.weight']"
    found = imported(described(made, m="fc", y="fc"), tmp_path)
    assert "return x |> fc: linear(4)" in text(found)
    assert found.trained == ["fc.weight", "fc.bias"]


def test_equal_weights_of_several_modules_are_apart(tmp_path: Path) -> None:
    """Exporters keep one of several equal initializers, as norms have before training."""
    norm = ["a.weight", "a.bias"]
    nodes = [
        helper.make_node("LayerNormalization", ["x", *norm], ["s"]),
        helper.make_node("Tanh", ["s"], ["t"]),
        helper.make_node("LayerNormalization", ["t", *norm], ["y"]),
    ]
    weights = {"a.weight": np.ones(4, np.float32), "a.bias": np.zeros(4, np.float32)}
    made = model(nodes, [X], [Y], weights)
    assert imported(made, tmp_path).trained == norm
    found = imported(described(made, s="a", y="b"), tmp_path)
    assert found.trained == ["a.weight", "a.bias", "b.weight", "b.bias"]
