"""Behaviour of the standard layers and models, without another implementation."""

from collections.abc import Callable, Mapping
from math import erf, prod
from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.ir.graph import Array, Graph, continued
from meganeura_dsl.ir.initializers import KaimingUniform, Ones, Uniform, Zeros, sample
from meganeura_dsl.ir.interpreter import Interpreter, Precision, Results, evaluate, storage_type
from meganeura_dsl.ir.ops import Conv, Input, Parameter
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.pipeline import (
    Program,
    check,
    elaborate_model,
    elaborate_train,
    load,
    loader_beside,
)
from meganeura_dsl.transforms.autodiff import differentiate
from meganeura_runtime.backends.registry import choose_device


def program(text: str) -> Program:
    sink = Sink()
    module = Linker(loader_beside(Path("net.mgn")), sink).link(Source("net.mgn", text))
    assert not sink.has_errors, sink.reports
    return Program(module)


def model(text: str, *, training: bool = False, **sizes: int) -> Elaboration:
    """The model `net` of a program."""
    return elaborate_model(program(text), "net", sizes=sizes, training=training)


def block(inputs: str, expression: str) -> str:
    return f"block Net()({inputs}) = {expression}\nmodel net = Net()\n"


def output(elaboration: Elaboration, inputs: Mapping[str, Array]) -> Array:
    """The output for the first values of all parameters, in double precision."""
    interpreter = Interpreter(elaboration.graph, Precision.DOUBLE)
    values: dict[str, Array] = {}
    for info in elaboration.parameters:
        if info.name in interpreter.leaves:
            first = sample(info.initializer, 0, info.name, concrete_shape(info.type.shape))
            values[info.name] = first.astype(storage_type(info.type.dtype))
    return interpreter.run({**values, **inputs}).outputs["output"]


def noise(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


# --- time ----------------------------------------------------------------------------------------

DECODERS = {
    "lm": "from lm import lm_tiny\nmodel net = lm_tiny()\n",
    "gpt2": "from gpt2 import gpt2_tiny\nmodel net = gpt2_tiny()\n",
}


@pytest.mark.parametrize("text", DECODERS.values(), ids=DECODERS)
def test_no_token_sees_those_after_it(text: str) -> None:
    ids = np.random.default_rng(0).integers(0, 256, (2, 9)).astype(np.int32)
    whole = output(model(text, n=2, s=9), {"ids": ids})
    prefix = output(model(text, n=2, s=5), {"ids": ids[:, :5]})
    np.testing.assert_allclose(whole[:, :5], prefix, rtol=1e-12, atol=1e-12)
    changed = ids.copy()
    changed[:, 5:] = (ids[:, 5:] + 1) % 256
    np.testing.assert_array_equal(
        output(model(text, n=2, s=9), {"ids": changed})[:, :5], whole[:, :5]
    )


def test_a_window_ends_what_a_token_remembers() -> None:
    heads = "n, 1, s, 4"
    text = block(f"x: [{heads}], y: [{heads}], z: [{heads}]",
                 "attention(x, y, z, causal=true, window=3)")  # fmt: skip
    elaboration = model(text, n=1, s=7)
    x, y, z = (noise(1, 1, 7, 4, seed=seed) for seed in range(3))
    forgotten = z.copy()
    forgotten[:, :, :4] = 100.0
    before = output(elaboration, {"x": x, "y": y, "z": z})
    after = output(elaboration, {"x": x, "y": y, "z": forgotten})
    np.testing.assert_array_equal(before[:, :, 6], after[:, :, 6])
    assert np.abs(before[:, :, 5] - after[:, :, 5]).max() > 0.01


def test_rotary_positions_matter_by_their_distance_only() -> None:
    turned = model(block("x: [1, 1, s, 6]", "x |> rope(100.0)"), s=9)
    query, key = noise(6), noise(6, seed=1)
    queries = output(turned, {"x": np.broadcast_to(query, (1, 1, 9, 6)).copy()})[0, 0]
    keys = output(turned, {"x": np.broadcast_to(key, (1, 1, 9, 6)).copy()})[0, 0]
    scores = queries @ keys.T
    for distance in range(-8, 9):
        diagonal = np.diagonal(scores, distance)
        np.testing.assert_allclose(diagonal, diagonal[0], rtol=1e-12, atol=1e-12)
    assert np.ptp(scores) > 0.1


@pytest.mark.parametrize("frames", [101, 299, 3000])
def test_whisper_hears_clips_of_any_length_that_fits(frames: int) -> None:
    elaboration = elaborate_model(load("whisper_tiny"), sizes={"n": 1, "t": frames})
    (out,) = elaboration.graph.outputs.values()
    assert out.type.shape == (1, (frames + 1) // 2, 384)


TOO_LONG = {
    "whisper": ("whisper_tiny", "mel: [1, 80, 3001]", "t <= 2 * positions"),
    "gpt2": ("gpt2", "ids: i32[1, 1025]", "s <= positions"),
}


@pytest.mark.parametrize("file", TOO_LONG)
def test_more_than_there_are_positions_is_refused(file: str) -> None:
    name, given, bound = TOO_LONG[file]
    text = f"""\
from {file} import {name}
train fit({given}):
  minimize mean({given.partition(":")[0]} |> {name})
"""
    with pytest.raises(ProblemError) as refused:
        elaborate_train(program(text), sizes={}, training=True)
    assert refused.value.problem.code == "E0311"
    assert bound in refused.value.problem.report().headline


# --- batches -------------------------------------------------------------------------------------

BATCHED = {
    "resnet": ("ResNet([1, 1, 1, 1], width=4)", {"h": 40, "w": 33}),
    "repvgg": ("RepVGG([1, 1, 1, 1], a=0.1, b=0.1)", {"h": 40, "w": 33}),
    "whisper": ("WhisperEncoder(d=8, heads=2, layers=1, ffn=8)", {"t": 21}),
    "vit": ("ViT(d=8, layers=1, heads=2, image=8, patch=4)", {}),
}


@pytest.mark.parametrize("name", BATCHED)
def test_an_example_is_alone_in_its_batch(name: str) -> None:
    made, sizes = BATCHED[name]
    text = f"from {name} import {made.partition('(')[0]}\nmodel net = {made}\n"
    together, alone = model(text, n=3, **sizes), model(text, n=1, **sizes)
    ((given, wanted),) = together.inputs.items()
    data = noise(*concrete_shape(wanted.shape))
    whole = output(together, {given: data})
    for row in range(3):
        single = output(alone, {given: data[row : row + 1]})
        np.testing.assert_allclose(whole[row : row + 1], single, rtol=1e-10, atol=1e-12)


def test_a_norm_over_one_element_is_refused_or_told() -> None:
    text = "block Net()(x: [n, 3, {0}, {0}]) = x |> bn: batch_norm\nmodel net = Net()\n"
    with pytest.raises(ProblemError) as refused:
        model(text.format("1").replace("[n,", "[1,"), training=True)
    assert refused.value.problem.code == "E0314"
    notes = model(text.format("1"), training=True).notes
    assert [note.code for note in notes] == ["N0002"]
    assert not model(text.format("2"), training=True).notes


def trained(norm: str, x: Array, upstream: Array) -> tuple[Mapping[str, Array], ...]:
    """The output of a norm and its gradients, and the next states."""
    text = block("x: [n, 3, 2, 2]", f"x |> bn: {norm}")
    elaboration = model(text, training=True, n=len(x))
    build, graph = continued(elaboration.graph)
    leaves = {
        value.op.name: value
        for value in graph.values
        if isinstance(value.op, Input | Parameter) and "running" not in value.op.name
    }
    learned = {name: each for name, each in leaves.items() if each.type.dtype is DType.F32}
    seed = build.add(Input("upstream", DType.F32, upstream.shape))
    slopes = differentiate(build, graph.outputs["output"], tuple(learned.values()), seed)
    results = {"output": graph.outputs["output"], **dict(zip(learned, slopes, strict=True))}
    values = {
        "x": x,
        "upstream": upstream,
        **{f"bn.{name}": noise(3, seed=3) for name in ("weight", "bias", "running_mean")},
        "bn.running_var": np.ones(3),
        "bn.num_batches_tracked": np.zeros((), np.int32),
    }

    def run(graph: Graph) -> Results:
        interpreter = Interpreter(graph, Precision.DOUBLE)
        return interpreter.run({name: values[name] for name in interpreter.leaves})

    return run(build.graph(results)).outputs, run(elaboration.graph).updates


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_a_group_of_examples_is_a_batch_to_its_norm(groups: int) -> None:
    x, upstream = 3 + noise(6, 3, 2, 2), noise(6, 3, 2, 2, seed=1)
    norm = "(momentum=0.3, eps=0.1)"
    found, states = trained(f"ghost_batch_norm({groups}, momentum=0.3, eps=0.1)", x, upstream)
    parts = zip(np.split(x, groups), np.split(upstream, groups), strict=True)
    outputs, updates = zip(*(trained(f"batch_norm{norm}", *part) for part in parts), strict=True)
    for name in ("output", "x"):
        wanted = np.concatenate([each[name] for each in outputs])
        np.testing.assert_allclose(found[name], wanted, rtol=1e-9, atol=1e-12)
    for name in ("bn.weight", "bn.bias"):
        wanted = np.sum([each[name] for each in outputs], 0)
        np.testing.assert_allclose(found[name], wanted, rtol=1e-9, atol=1e-12)
    assert states.keys() == updates[0].keys()
    for name, state in states.items():
        wanted = np.mean([each[name] for each in updates], 0)
        np.testing.assert_allclose(state, wanted, rtol=1e-9, err_msg=name)


def test_groups_of_examples_divide_the_batch_in_training_alone() -> None:
    text = block("x: [n, 3, 2, 2]", "x |> bn: ghost_batch_norm(2)")
    plain = block("x: [n, 3, 2, 2]", "x |> bn: batch_norm")
    alone = model(text, n=1)
    values = {"x": noise(1, 3, 2, 2)}
    np.testing.assert_array_equal(output(alone, values), output(model(plain, n=1), values))
    with pytest.raises(ProblemError) as refused:
        model(text, n=5, training=True)
    assert refused.value.problem.code == "E0311"
    with pytest.raises(ProblemError) as refused:
        model(text.replace(", 2, 2]", "]"), n=2, training=True)
    assert refused.value.problem.code == "E0314"


def test_resnet_on_32_pixels_normalises_over_the_batch_alone() -> None:
    train = """\
from resnet import resnet18
train fit(x: [batch, 3, {0}, {0}]):
  minimize mean(x |> resnet18)
"""
    at_32 = elaborate_train(program(train.format(32)), sizes={}, training=True)
    at_33 = elaborate_train(program(train.format(33)), sizes={}, training=True)
    assert {note.code for note in at_32.notes} == {"N0002"}
    assert not at_33.notes


@pytest.mark.parametrize(("name", "convolutions"), [("resnet18", 20), ("resnet50", 53)])
def test_every_layer_is_one_node_and_has_its_own_norm(name: str, convolutions: int) -> None:
    elaboration = elaborate_model(load(name), training=True)
    found = [value for value in elaboration.graph.values if isinstance(value.op, Conv)]
    assert len(found) == convolutions
    assert sum(key.endswith("running_mean") for key in elaboration.graph.updates) == convolutions


def test_a_tower_grows_by_its_layers() -> None:
    text = """\
block Net(depth)(x: [n, 8]) -> [n, 8]:
  for i in 0..depth:
    x = x + (x |> layers[i]: linear(8) |> relu)
  return x
model net = Net({})
"""
    short, middle, long = (len(model(text.format(depth)).graph.values) for depth in (10, 20, 400))
    assert long - short == 39 * (middle - short)


# --- formulas ------------------------------------------------------------------------------------


def log_softmax(x: Array) -> Array:
    return x - np.log(np.sum(np.exp(x), axis=-1, keepdims=True))


FORMULAS: Mapping[str, Callable[[Array, Array], Array]] = {
    "log_softmax(x)": lambda x, _: log_softmax(x),
    "gelu(x)": lambda x, _: x * (1 + np.vectorize(erf)(x / 2**0.5)) / 2,
    "cross_entropy(x, y)": lambda x, y: -np.sum(y * log_softmax(x)) / len(x),
}


@pytest.mark.parametrize("expression", FORMULAS)
def test_a_layer_is_its_formula(expression: str) -> None:
    x, y = noise(3, 5), np.abs(noise(3, 5, seed=1))
    net = model(block("x: [n, c], y: [n, c]", f"{expression} + 0 * sum(y)"), n=3, c=5)
    expected = FORMULAS[expression](x, y)
    np.testing.assert_allclose(output(net, {"x": x, "y": y}), expected, rtol=1e-9, atol=1e-12)


def test_a_variance_beside_a_large_mean_keeps_its_digits() -> None:
    x = (noise(2, 6) + 1e4).astype(np.float32)
    net = model(block("x: [n, c]", "variance(x, 1)"), n=2, c=6)
    found = Interpreter(net.graph).run({"x": x}).outputs["output"]
    np.testing.assert_allclose(found, np.var(x.astype(np.float64), 1), rtol=1e-2)


# --- losses --------------------------------------------------------------------------------------


def loss_and_slope(
    expression: str, logits: Array, labels: Array, device: str = "cpu"
) -> tuple[float, Array]:
    kind = "i32[n]" if labels.dtype == np.int32 else "[n, c]"
    elaboration = model(
        block(f"x: [n, c], y: {kind}", expression), n=len(logits), c=logits.shape[1]
    )
    build, graph = continued(elaboration.graph)
    (x,) = (value for value in graph.values if isinstance(value.op, Input) and value.op.name == "x")
    (slope,) = differentiate(build, graph.outputs["output"], (x,))
    wanted = build.graph({"loss": graph.outputs["output"], "slope": slope})
    with choose_device(device).open(wanted) as session:
        found = session.step({"x": logits.astype(np.float32), "y": labels})
        return float(found["loss"]), np.asarray(found["slope"])


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_a_loss_of_enormous_logits_is_finite(size: float) -> None:
    logits = np.array([[size, 0.0, -size], [0.0, size, size]])
    for expression, labels in (
        ("cross_entropy(x, y)", logits.argmin(1).astype(np.int32)),
        ("cross_entropy(x, y)", np.full((2, 3), 1 / 3, np.float32)),
        ("bce(x, y)", np.array([[0.0, 0.5, 1.0], [1.0, 0.0, 1.0]], np.float32)),
    ):
        loss, slope = loss_and_slope(expression, logits, labels)
        assert np.isfinite(loss)
        assert loss > 0
        assert np.isfinite(slope).all()
        assert np.abs(slope).max() > 0


def test_a_loss_without_a_label_is_zero() -> None:
    logits, nobody = noise(3, 4), np.full(3, -100, np.int32)
    loss, slope = loss_and_slope("masked_cross_entropy(x, y)", logits, nobody)
    assert loss == 0
    np.testing.assert_array_equal(slope, np.zeros((3, 4)))


@pytest.mark.parametrize(
    "device", ["cpu", "xla:cpu", pytest.param("wgpu", marks=pytest.mark.adapter)]
)
def test_a_smooth_l1_of_no_width_is_the_absolute_difference(device: str) -> None:
    x, y = np.array([[3.0, -1.0], [0.5, 2.0]]), np.array([[1.0, -1.0], [1.0, 2.5]], np.float32)
    loss, slope = loss_and_slope("smooth_l1(0.0)(x, y)", x, y, device)
    assert loss == 0.75
    np.testing.assert_array_equal(slope, [[0.25, 0], [-0.25, -0.25]])


# --- dropout -------------------------------------------------------------------------------------


def dropped(step: int, *, training: bool = True) -> tuple[Array, Array]:
    """Ones after each of two dropouts of one network."""
    text = """\
block Net()(x: [n, d]) -> [2, n, d]:
  a = x |> dropout(0.25)
  b = x |> dropout(0.25)
  return concat(insert_axis(a, 0, 1), insert_axis(b, 0, 1), axis=0)
model net = Net()
"""
    elaboration = model(text, training=training, n=50, d=80)
    given = {"x": np.ones((50, 80)), "counter": np.array([7, step], np.uint32)}
    first, second = output(elaboration, {name: given[name] for name in elaboration.inputs})
    return first, second


def test_dropout_drops_its_share_and_scales_up_the_rest() -> None:
    for found in dropped(0):
        np.testing.assert_allclose(np.unique(found), [0, 4 / 3])
        assert np.mean(found == 0) == pytest.approx(0.25, abs=0.03)


def test_dropouts_differ_from_each_other_and_from_step_to_step() -> None:
    first, second = dropped(0)
    assert np.mean(first != second) > 0.2
    assert np.mean(first != dropped(1)[0]) > 0.2
    np.testing.assert_array_equal(first, dropped(0)[0])


def test_dropout_does_nothing_outside_of_training() -> None:
    for found in dropped(0, training=False):
        np.testing.assert_array_equal(found, np.ones((50, 80)))


@pytest.mark.parametrize(("block", "axes"), [("drop_path", (1, 2)), ("dropout2d", (2,))])
def test_what_is_dropped_is_dropped_whole(block: str, axes: tuple[int, ...]) -> None:
    text = f"block Net()(x: [n, c, s]) -> [n, c, s] = x |> {block}(0.25)\nmodel net = Net()\n"
    given = {"x": np.ones((400, 3, 4)), "counter": np.array([7, 0], np.uint32)}
    for training in (True, False):
        made = model(text, training=training, n=400, c=3, s=4)
        found = output(made, {name: given[name] for name in made.inputs})
        np.testing.assert_array_equal(found, found.max(axes, keepdims=True) + 0 * found)
        np.testing.assert_allclose(np.unique(found), [0, 4 / 3] if training else [1])
        assert np.mean(found == 0) == pytest.approx(0.25 if training else 0, abs=0.06)


def test_dropping_everything_gives_zeros_and_no_gradient() -> None:
    elaboration = model(
        "block Net()(x: [n]) -> []:\n  return sum(x |> dropout(1.0))\nmodel net = Net()\n",
        training=True,
        n=5,
    )
    build, graph = continued(elaboration.graph)
    x = next(value for value in graph.values if value.op == Input("x", DType.F32, (5,)))
    (slope,) = differentiate(build, graph.outputs["output"], [x])
    given = {"x": np.ones(5, np.float32), "counter": np.array([7, 0], np.uint32)}
    found = evaluate(build.graph({"y": graph.outputs["output"], "slope": slope}), given).outputs
    assert found["y"] == 0
    np.testing.assert_array_equal(found["slope"], np.zeros(5))


# --- heads and initial values ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "head", "config", "width"),
    [
        ("resnet:resnet18", "fc", {"depths": [1, 1, 1, 1], "width": 4}, 32),
        ("resnet:resnet50", "fc", {"depths": [1, 1, 1, 1], "width": 2}, 64),
        ("repvgg:repvgg_a0", "head.fc", {"depths": [1, 1, 1, 1], "a": 0.125, "b": 0.0625}, 32),
    ],
)
def test_without_classes_the_features_under_the_head_come_out(
    file: str, head: str, config: dict[str, StaticValue], width: int
) -> None:
    module, _, name = file.partition(":")

    def made(classes: int) -> tuple[Elaboration, Array]:
        given = {**config, "classes": classes}
        sizes = {"n": 2, "h": 33, "w": 32}
        elaboration = elaborate_model(load(module), name, config=given, sizes=sizes)
        return elaboration, output(elaboration, {"x": noise(2, 3, 33, 32)})

    whole, logits = made(5)
    bare, features = made(0)
    assert features.shape == (2, width)
    names = [info.name for info in whole.parameters]
    assert [info.name for info in bare.parameters] == [
        name for name in names if not name.startswith(head)
    ]
    weight, bias = (
        sample(info.initializer, 0, info.name, concrete_shape(info.type.shape))
        for info in whole.parameters
        if info.name.startswith(head)
    )
    np.testing.assert_allclose(features @ weight.T.astype(float) + bias, logits, atol=1e-9)


def test_the_biased_resnet_begins_as_graphspec_documents() -> None:
    parameters = elaborate_model(load("resnet"), "resnet18_biased").parameters
    trained = {info.name: info for info in parameters if info.kind == "param"}
    assert len(trained) == 82
    for name, info in trained.items():
        is_norm = "bn" in name or "downsample.1" in name
        if name.endswith("bias"):
            assert info.initializer == Zeros()
        else:
            assert info.initializer == (Ones() if is_norm else KaimingUniform())
    plain = elaborate_model(load("resnet"), "resnet18", config={"conv_bias": True}).parameters
    (first,) = (info for info in plain if info.name == "conv1.bias")
    assert first.initializer == Uniform((3 * 7 * 7) ** -0.5)  # PyTorch's


# --- the page of the models ----------------------------------------------------------------------


def test_the_program_on_the_page_is_fine() -> None:
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    text = page.partition("```mgn\n")[2].partition("```")[0]
    result = check(Source("gray.mgn", text), loader_beside(Path("gray.mgn")))
    assert result.proved == ("Gray",)
    assert not result.reports


def test_the_page_counts_the_weights() -> None:
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    for name in ("lm_tiny", "digits_cnn", "digits_mlp", "unet_tiny", "smollm2_135m", "gpt2"):
        parameters = elaborate_model(load(name), name).parameters
        weights = sum(prod(concrete_shape(info.type.shape)) for info in parameters
                      if info.kind != "state")  # fmt: skip
        assert f"{weights:,}" in page
