"""Standard models as ONNX: symbolic sizes, standard functions, names, what is refused."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_runtime.export.onnx.comparison import session_of
from meganeura_runtime.export.onnx.differences import ALLOWED, ROUNDED, allowed
from meganeura_runtime.export.onnx.export import Exported, export_onnx
from meganeura_runtime.export.onnx.onnx_problems import NoOnnxForm, OnnxDiffers
from meganeura_runtime.export.onnx.options import NEWEST_OPSET, OLDEST_OPSET, OnnxOptions
from meganeura_runtime.export.reference_run import random_inputs, reference_run
from tests.effort import effort
from tests.narrow import NARROW, trained_values


@dataclass(frozen=True)
class Model:
    """A model whose sizes stay open."""

    target: str
    config: Mapping[str, StaticValue]

    def elaborate(self, sizes: Mapping[str, int], *, training: bool = False) -> Elaboration:
        """Its graph."""
        program = pipeline.load(self.target)
        return pipeline.elaborate_model(program, config=self.config, sizes=sizes, training=training)

    def export(self, path: Path, options: OnnxOptions) -> Exported:
        """Write it with weights as of a trained model."""
        values = trained_values(self.elaborate({}).parameters)
        return export_onnx(self.target, self.elaborate, values, path, options)


VIT: Mapping[str, StaticValue] = {"d": 12, "layers": 1, "heads": 3, "image": 32}
MODELS = {
    **{name: Model(each.target, each.config) for name, each in NARROW.items()},
    "whisper_tiny": Model("whisper_tiny", {**NARROW["whisper_tiny"].config, "positions": 32}),
    "digits_mlp": Model("digits_mlp", {}),
    "gpt2_tiny": Model("gpt2_tiny", {"layers": 1, "positions": 16}),
    "unet_tiny": Model("unet_tiny", {"base": 8, "groups": 4}),
    "vit_tiny": Model("vit_tiny_patch16_224", VIT),
    "mamba_tiny": Model("mamba_tiny", {"vocabulary": 16, "d": 8}),
    "tagger": Model("tagger", {"words": 16, "d": 6, "hidden": 4, "tags": 3}),
}


BY_DAY = (
    "resnet18", "resnet50", "digits_mlp", "gpt2_tiny", "vit_tiny", "mamba_tiny", "tagger",
    "unet_tiny",
)  # fmt: skip
OPTIONS = [OnnxOptions(OLDEST_OPSET), OnnxOptions(NEWEST_OPSET, fold_batch_norm=True)]


@pytest.mark.parametrize(
    ("name", "options"),
    effort(
        [(name, OPTIONS[number % 2]) for number, name in enumerate(BY_DAY)],
        [*product(MODELS, OPTIONS)],
    ),
)
def test_onnx_runtime_gives_what_the_model_gives(
    name: str, options: OnnxOptions, tmp_path: Path
) -> None:
    made = MODELS[name].export(tmp_path / "model.onnx", options)
    assert made.difference <= 1e-5
    assert len(made.sizes) == 2


def read(name: str, folder: Path, options: OnnxOptions | None = None) -> onnx.ModelProto:
    """The file of a model."""
    MODELS[name].export(folder / "model.onnx", options or OnnxOptions())
    return onnx.load(str(folder / "model.onnx"))


def ops(model: onnx.ModelProto) -> Counter[str]:
    """Returns the number of nodes of each op."""
    return Counter(node.op_type for node in model.graph.node)


def test_sizes_stay_symbols_and_parameters_keep_their_names(tmp_path: Path) -> None:
    model = read("whisper_tiny", tmp_path)
    (mel,), (output,) = model.graph.input, model.graph.output
    shapes = [
        [each.dim_param or each.dim_value for each in one.type.tensor_type.shape.dim]
        for one in (mel, output)
    ]
    assert shapes == [["n", 5, "t"], ["n", "ceil(t/2)", 12]]
    written = {each.name for each in model.graph.initializer if not each.name.startswith("/")}
    elaborated = MODELS["whisper_tiny"].elaborate({})
    assert written == {each.name for each in elaborated.parameters}


def test_standard_functions_are_used_where_they_fit(tmp_path: Path) -> None:
    gpt2 = ops(read("gpt2_tiny", tmp_path))
    assert (gpt2["LayerNormalization"], gpt2["Gelu"], gpt2["Softmax"]) == (3, 1, 1)
    assert {"Exp", "Tanh", "Sqrt", "ReduceMean"}.isdisjoint(gpt2)
    assert "Gelu" not in ops(read("gpt2_tiny", tmp_path, OnnxOptions(OLDEST_OPSET)))
    resnet = ops(read("resnet18", tmp_path))
    assert resnet["BatchNormalization"] == resnet["Conv"]
    assert resnet["Relu"] > 0
    assert (resnet["Gemm"], resnet["Where"], resnet["MatMul"]) == (1, 0, 0)


def test_batch_norms_are_folded_on_request(tmp_path: Path) -> None:
    model = read("resnet18", tmp_path, OnnxOptions(fold_batch_norm=True))
    assert "BatchNormalization" not in ops(model)
    names = {each.name for each in model.graph.initializer}
    assert {"conv1.weight", "conv1.bias"} <= names
    assert not any("running" in name or "bn1" in name for name in names)


def test_equal_models_are_equal_files(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        MODELS["lm_tiny"].export(tmp_path / name, OnnxOptions())
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def program(text: str, folder: Path) -> Model:
    """A model of a text."""
    path = folder / "net.mgn"
    path.write_text(text)
    return Model(str(path), {})


def refusal(model: Model, folder: Path, options: OnnxOptions | None = None) -> ProblemError:
    """Returns the problem of writing a model."""
    with pytest.raises(ProblemError) as caught:
        model.export(folder / "net.onnx", options or OnnxOptions())
    assert not list(folder.glob("*.onnx*"))
    assert not list(folder.glob(".*"))
    return caught.value


NOISE = "block Noise()(x: [n]) -> [n]:\n  return x + random_uniform([n])\n\nmodel noise = Noise()\n"


LAST = """\
block Last()(x: [n, s, 3]) -> [n, 3]{}:
  h = x[:, 0]
  scan t in 1..s:
    h = h + x[:, t]
  return h

model last = Last()
"""


def test_a_scan_that_may_have_no_iteration_is_refused(tmp_path: Path) -> None:
    """ONNX Runtime ends by a floating point exception at a `Scan` of an empty axis."""
    error = refusal(program(LAST.format(""), tmp_path), tmp_path)
    assert isinstance(error.problem, NoOnnxForm)
    assert "net.mgn:3" in str(error)
    assert "there is no iteration where s = 1" in str(error)
    assert "--set" in str(error)
    certain = program(LAST.format(" where s >= 2"), tmp_path)
    certain.export(tmp_path / "net.onnx", OnnxOptions())


def test_a_real_number_of_an_open_size_is_refused_with_its_line(tmp_path: Path) -> None:
    text = "block Net()(x: [n, s]) -> [n, s]:\n  return x * (6.25 / s)\n\nmodel net = Net()\n"
    error = refusal(program(text, tmp_path), tmp_path)
    assert isinstance(error.problem, NoOnnxForm)
    assert "net.mgn:2" in str(error)
    assert "it follows from a size that is open" in str(error)


def test_random_numbers_are_refused_with_their_line_in_opset_17(tmp_path: Path) -> None:
    error = refusal(program(NOISE, tmp_path), tmp_path, OnnxOptions(OLDEST_OPSET))
    assert isinstance(error.problem, NoOnnxForm)
    assert "net.mgn:2" in str(error)


def test_random_numbers_are_those_of_the_seed_and_the_step(tmp_path: Path) -> None:
    program(NOISE, tmp_path).export(tmp_path / "net.onnx", OnnxOptions())
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(
        str(tmp_path / "net.onnx"), onnxruntime.SessionOptions(), providers
    )
    given = {"x": np.zeros(5, np.float32), "counter": np.array([2**31 + 7, 3], np.uint32)}
    (drawn,) = session.run(["output"], given)
    model = pipeline.elaborate_model(pipeline.load(str(tmp_path / "net.mgn")), sizes={"n": 5})
    assert np.array_equal(drawn, reference_run(model.graph, {}, given)["output"])


LOOPS = """\
block Loops()(x: [n, s, 3], w: [3, 3]) -> [n, 3], [s, n], [n, s, 3]:
  h = zeros([n, 3])
  g = zeros([n])
  scan t in 0..s:
    h = tanh(x[:, t] + h @ w) / (1 + f32(t))
    scan k in 0..3:
      g = g + h[:, k]
    y[t] = g
  return h, y, reverse(cummax(reverse(x, 1), 1), 1)

model loops = Loops()
"""


POWERS = """\
block Powers()(x: [n, 3], w: [3, 3]) -> [n, 3]:
  scan t in 0..4:
    x = tanh(x @ w)
  return x

model powers = Powers()
"""


def test_a_loop_that_reads_no_slice_has_its_iterations(tmp_path: Path) -> None:
    made = program(POWERS, tmp_path).export(tmp_path / "net.onnx", OnnxOptions(OLDEST_OPSET))
    assert made.difference <= 1e-5


def test_loops_within_loops(tmp_path: Path) -> None:
    made = program(LOOPS, tmp_path).export(tmp_path / "net.onnx", OnnxOptions(OLDEST_OPSET))
    assert made.difference <= 1e-5
    assert len(made.sizes) == 2


def test_sizes_are_solved_from_products_and_sums(tmp_path: Path) -> None:
    text = (
        "block Parts()(x: [n, 2 * h + 1], y: [n * h, n * k * h + k]) -> [n, h * k]:\n"
        "  left = sum(x[:, :h] + x[:, h + 1:], 1) * h\n"
        "  right = sum(y) * k\n"
        "  return expand(left * right, [n] -> [n, h * k])\n\n"
        "model parts = Parts()\n"
    )
    made = program(text, tmp_path).export(tmp_path / "net.onnx", OnnxOptions())
    assert made.difference <= 1e-5
    assert len(made.sizes) == 2


SHAPES = (
    "h - h // 2", "w * h + 2 * h - 1", "h % 3 + 1", "(h + 2 * w) // (w + 1)", "h * w * w",
    "(w * h - 1) % (h + 1) + 1", "3 * w - (w - h // 4)",
)  # fmt: skip
"""Sizes that follow from `h` and `w`."""


@pytest.mark.parametrize("axis", SHAPES)
def test_sizes_are_what_they_say_wherever_they_lie(axis: str, tmp_path: Path) -> None:
    """Not only at the sizes that are compared before a file is written, where `h` is `w`."""
    text = (
        f"block Sizes()(x: [w, n, h], _y: [2 * n + 1]) -> [n, {axis}]:\n"
        f"  return expand(sum(x, 0, 2), [n] -> [n, {axis}])\n\nmodel sizes = Sizes()\n"
    )
    program(text, tmp_path).export(tmp_path / "net.onnx", OnnxOptions())
    session = session_of(str(tmp_path / "net.onnx"))
    for n, h, w in ((1, 5, 4), (3, 2, 7), (2, 9, 2)):
        x = np.random.default_rng(0).normal(size=(w, n, h)).astype(np.float32)
        given = {"x": x, "_y": np.zeros(2 * n + 1, np.float32)}
        (found,) = map(np.asarray, session.run(None, given))
        wide = np.repeat(x.sum((0, 2))[:, None], eval(axis, {}, {"h": h, "w": w}), axis=1)  # noqa: S307  a row of the table above
        np.testing.assert_allclose(found, wide, rtol=1e-5, atol=1e-5)


def shapes(values: Iterable[onnx.ValueInfoProto]) -> dict[str, list[str | int]]:
    """The shapes of inputs or outputs, by their names."""
    return {
        each.name: [size.dim_param or size.dim_value for size in each.type.tensor_type.shape.dim]
        for each in values
    }


NAMED = {
    "an input is called as the result": (
        "(output: [n]) -> [n] = output + 1",
        {"output": ["n"]},
        {"output_": ["n"]},
    ),
    "a parameter is called as a result": (
        (
            "(x: [n, 3]) -> [n, 3], [n]:\n"
            "  param output1: [3] = normal(1)\n  return x * output1, sum(x, 1)"
        ),
        {"x": ["n", 3]},
        {"output0": ["n", 3], "output1_": ["n"]},
    ),
    "a size and an axis of a rest have one name": (
        "(x: [...s, d], y: [s0]) -> [...s, d] = x * sum(y)",
        {"x": ["s0'", "d"], "y": ["s0"]},
        {"output": ["s0'", "d"]},
    ),
    "an input is called as the seed, and nothing is drawn": (
        "(counter: [n]) -> [n] = counter * 2",
        {"counter": ["n"]},
        {"output": ["n"]},
    ),
}
"""Headers and bodies, and the shapes of their inputs and outputs by the names in the file."""


@pytest.mark.parametrize("case", NAMED)
def test_each_tensor_and_each_size_has_a_name_of_its_own(case: str, tmp_path: Path) -> None:
    text, inputs, outputs = NAMED[case]
    model = program(f"block Net(){text}\n\nmodel net = Net()\n", tmp_path)
    model.export(tmp_path / "net.onnx", OnnxOptions())
    graph = onnx.load(str(tmp_path / "net.onnx")).graph
    assert (shapes(graph.input), shapes(graph.output)) == (inputs, outputs)
    assert {each.name for each in model.elaborate({}).parameters} <= {
        each.name for each in graph.initializer
    }


REPEATED = (
    "(_x: [n]) -> [1, 1] = full([1, 1], 2.0)",
    "(x: [n]) -> [1, n] = expand(sum(x), [] -> [1, n])",
    "(x: [n]) -> [1] = expand(sum(x), [] -> [1])",
    "(x: [k]) -> [1, n, k] = expand(expand(x, [a] -> [n, a]), [a, b] -> [1, a, b])",
    "(x: [k]) -> [n, 1, k] = expand(expand(x, [a] -> [n, a]), [a, b] -> [a, 1, b])",
    "(x: [k]) -> [n, k, m] = expand(x, [a] -> [n, a, m])",
    "(x: [k]) -> [1, n, k] = expand(relu(expand(x, [a] -> [n, a])), [a, b] -> [1, a, b])",
    (
        "(x: [n, k]) -> [n, 1, m] =\n"
        "  expand(relu(expand(sum(x, 1), [a] -> [a, m])), [a, b] -> [a, 1, b])"
    ),
    "(x: [1, k]) -> [n, 1, k] = expand(x, [a, b] -> [n, a, b]) * 2",
    (
        "(x: [k, n]) -> [n, k]:\n  y = expand(x, [a, b] -> [m, a, b])\n"
        "  return rearrange(sum(y * y, 0), [a, b] -> [b, a])"
    ),
    (
        "(x: [n, k]) -> [n, m], [m, n]:\n  y = expand(sum(x, 1), [a] -> [a, m])\n"
        "  return relu(y), rearrange(sigmoid(y), [a, b] -> [b, a])"
    ),
)
"""Headers and results of blocks that repeat what they are given, also where ONNX need not."""
RARE = (
    "(x: u32[n]) -> u32[n] = cumsum(x, 0)",
    (
        "(x: [n, 2]) -> [2], i32[n]:\n  h = zeros([2])\n  scan t in 0..n:\n"
        "    h = tanh(h + x[t])\n    z[t] = t\n  return h, z"
    ),
    "(x: [n, 3, 8, 8]) -> [n, 3, 11, 11] = conv(x, full([3, 1, 2, 2], 0.25), pad=2, groups=3)",
    "(x: [n, 3, 8, 8]) -> [n, 3, 9, 9] = conv(x, full([3, 1, 2, 2], 0.25), pad=1, groups=3)",
    (
        "(x: [n, 3, 8, 8]) -> [n, 3, 5, 5] =\n"
        "  conv(x, full([3, 1, 2, 2], 0.2), stride=2, pad=1, groups=3)"
    ),
)
"""Of types and with operands for which ONNX has no node, or only a rare form of one."""


@pytest.mark.parametrize("text", [*REPEATED, *RARE])
def test_a_block_is_itself_at_sizes_that_differ(text: str, tmp_path: Path) -> None:
    header, _, rest = text.partition(")")
    given = f"{header}{', _m: [m]' if 'm' in rest else ''}{', _n: [n]' if 'n' in rest else ''})"
    model = program(f"block Net(){given}{rest}\n\nmodel net = Net()\n", tmp_path)
    model.export(tmp_path / "net.onnx", OnnxOptions())
    session = session_of(str(tmp_path / "net.onnx"))
    for sizes in ({"n": 2, "m": 3, "k": 5}, {"n": 4, "m": 1, "k": 2}):
        graph = model.elaborate(sizes).graph
        inputs = random_inputs(graph, 0)
        expected = reference_run(graph, {}, inputs)
        for found, (name, array) in zip(session.run(None, inputs), expected.items(), strict=True):
            np.testing.assert_allclose(found, array, rtol=1e-5, atol=1e-6, err_msg=name)


NORM = "y = (conv(x, weight) + b) |> bn: batch_norm"
FOLDED = {
    "a bias of its own": (f"{NORM}\n  return y", 0, {"weight", "bias"}),
    "a bias that is read elsewhere": (f"{NORM}\n  return y + b", 0, {"weight", "bias", "bn.bias"}),
    "a parameter called as the bias": (
        "y = conv(x, weight) |> bn: batch_norm\n  return y + b",
        0,
        {"weight", "bias", "bn.bias"},
    ),
    "weights that are read elsewhere": (f"{NORM}\n  return y * sum(weight)", 1, None),
    "a convolution that is read elsewhere": (
        "y = conv(x, weight) + b\n  return (y |> bn: batch_norm) + y",
        1,
        None,
    ),
    "one norm for two convolutions": (
        f"{NORM} |> relu\n  return y |> other: conv2d(3, 1) |> bn",
        2,
        None,
    ),
    "one convolution for two norms": (
        f"{NORM}\n  return y + ((conv(x, weight) + b) |> o: batch_norm)",
        2,
        None,
    ),
}
"""Bodies, how many norms are left, and the parameters that are left where none is."""


@pytest.mark.parametrize("case", FOLDED)
def test_norms_are_folded_where_nothing_else_reads_what_changes(case: str, tmp_path: Path) -> None:
    body, norms, names = FOLDED[case]
    text = (
        "block Net()(x: [n, 3, h, h]) -> [n, 3, h, h]:\n"
        "  param bias: [3] = normal(1)\n  param weight: [3, 3, 1, 1] = normal(1)\n"
        f"  b = expand(bias, [c] -> [n, c, h, h])\n  {body}\n\nmodel net = Net()\n"
    )
    options = OnnxOptions(fold_batch_norm=True)
    assert program(text, tmp_path).export(tmp_path / "net.onnx", options).difference < 1e-5
    model = onnx.load(str(tmp_path / "net.onnx"))
    assert ops(model)["BatchNormalization"] == norms
    written = {each.name for each in model.graph.initializer if not each.name.startswith("/")}
    assert names in (None, written)


PICKED = """\
block Picked()(x: [v, 3], at: i32[e]) -> [e, 3] where 0 <= at, at < v:
  return gather(x, at)

model picked = Picked()
"""


BRIEF = """\
block Brief()(x: [n, s]) -> [n] where s <= 20:
  return sum(x, 1)

model brief = Brief()
"""


def test_it_is_compared_at_sizes_that_it_takes(tmp_path: Path) -> None:
    """A text may be short, and a table may have one row."""
    made = program(BRIEF, tmp_path).export(tmp_path / "net.onnx", OnnxOptions())
    assert made.sizes == ({"n": 1, "s": 8}, {"n": 2, "s": 16})
    made = program(PICKED, tmp_path).export(tmp_path / "net.onnx", OnnxOptions())
    assert made.sizes == ({"e": 1, "v": 1}, {"e": 2, "v": 2})


def test_a_difference_is_allowed_that_rounding_makes() -> None:
    reference = {"y": np.array([1, 1 - 2e-4])}

    def most(difference: float, *exact: float) -> float:
        return allowed(difference, "y", reference, lambda: {"y": np.array(exact)})

    assert most(1e-4) == ALLOWED, "nothing is computed where little differs"
    assert most(1, 1, 1) == pytest.approx(4e-4)
    assert most(1, 1, 1 - 2.1e-4) == ALLOWED
    assert most(1, 1, 2) == ROUNDED
    assert most(1, 1, np.nan) == ALLOWED
    assert most(np.nan, 1, 1 - 2e-4) == ALLOWED


def test_what_differs_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("digits_mlp", {})
    monkeypatch.setattr(
        "meganeura_runtime.export.onnx.export.reference_run",
        lambda *given: {"output": np.ones((len(given[2]["image"]), 10), np.float32)},
    )
    error = refusal(model, tmp_path)
    assert isinstance(error.problem, OnnxDiffers)
    assert error.problem.reason.startswith("`output` differs by ")


def test_sizes_that_where_needs_are_found(tmp_path: Path) -> None:
    program = tmp_path / "net.mgn"
    program.write_text(
        "block Net()(x: [n, s, 2]) -> [n, s - 500, 2]\n"
        "    where s >= 512, n <= 3:\n"
        "  return x[:, 500:]\n\nmodel net = Net()\n"
    )
    made = Model(str(program), {}).export(tmp_path / "net.onnx", OnnxOptions())
    assert [dict(each) for each in made.sizes] == [{"n": 1, "s": 512}, {"n": 2, "s": 1024}]
