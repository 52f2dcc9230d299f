"""Precisions: which values are bfloat16, how far results are off, and who refuses what."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh

import meganeura
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_dsl.ir.graph import Array, Builder, Graph, Value
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import (
    Add,
    Cast,
    Compare,
    Concat,
    Conv,
    Exp,
    Input,
    MatMul,
    Mul,
    Parameter,
    RandomBits,
    Reshape,
    Slice,
    Sub,
    Sum,
    Tanh,
    Transpose,
    Where,
)
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast, full
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.types import DType
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_dsl.transforms.optimizers.optimizers import Adam, Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step
from meganeura_runtime.backends.narrow_storage import MOVES
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.xla.analysis.numerics import BFLOAT16, Numerics
from meganeura_runtime.backends.xla.compile import Program
from meganeura_runtime.backends.xla.device.devices import named
from meganeura_runtime.backends.xla.device.placement import AXIS, SeveralDevices
from meganeura_runtime.backends.xla.lowering import table
from meganeura_runtime.backends.xla.open_device import XlaDevice
from meganeura_runtime.backends.xla.session import XlaSession
from tests.runtime.runs import Workspace
from tests.samples import SAMPLES
from tests.scans import forward

BF16, F32, TF32 = ComputePrecision.BF16, ComputePrecision.F32, ComputePrecision.TF32


MEAN_OVER_ROUNDS = """
block Net()(x: [s, 4]) -> [4, 4], [s, 4, 4]:
  mean = ones([4, 4])
  scan t in 0..s:
    mean = 0.999 * mean + 0.001 * x[t]
    read[t] = mean @ mean
  return mean, read

model net = Net()
"""
WIDE, NARROW = np.dtype(np.float32), np.dtype(BFLOAT16)


def test_what_moves_elements_is_lowered_as_such() -> None:
    assert table.MOVES.keys() == MOVES


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
@pytest.mark.parametrize("is_conv", [False, True])
@pytest.mark.parametrize("precision", [F32, TF32, BF16])
def test_what_contractions_compute_in(
    precision: ComputePrecision, dtype: DType, *, is_conv: bool
) -> None:
    """Of two in a row, the first gives what the second reads."""
    build = Builder()
    shapes = ((2, 3, 5, 5), (3, 3, 1, 1)) if is_conv else ((4, 8), (8, 8))
    x, w = (build.add(Input(name, dtype, shape)) for name, shape in zip("xw", shapes, strict=True))
    op = Conv((1, 1), (0, 0), (1, 1), 1) if is_conv else MatMul()
    first = build.add(op, x, w)
    second = build.add(op, first, w)
    moved = build.add(Reshape((150 if is_conv else 32,)), second)
    graph = build.graph({"y": build.add(Exp(), moved)})
    numerics = Numerics.of(graph, precision)
    highest, default = lax.Precision.HIGHEST, lax.Precision.DEFAULT
    # The operands' type (none if it stays), what both give, how exactly, and what people are told.
    expected = {
        (F32, DType.F32): (WIDE, WIDE, highest, "float32"),
        (TF32, DType.F32): (WIDE, WIDE, default, "tf32"),
        (BF16, DType.F32): (NARROW, NARROW, default, "bfloat16"),
        (F32, DType.F16): (
            WIDE if is_conv else None,
            WIDE,
            highest,
            "float32" if is_conv else "float16",
        ),
        (TF32, DType.F16): (None, WIDE, highest, "float16"),
        (BF16, DType.F16): (None, WIDE, highest, "float16"),
    }
    operands, result, exactly, told = expected[precision, dtype]
    for value in (first, second):
        found = numerics.arithmetic(value)
        last = WIDE if value is second else result
        assert (found.operands, found.result, found.precision) == (operands, last, exactly)
        flags = (found.pads_to_alignment, found.unaligned_output, found.sums_taps)
        assert flags == (False, False, False)
        taps = replace(numerics, is_on_one_gpu=True).arithmetic(value).sums_taps
        assert taps == (dtype is DType.F32 and precision is not BF16)
        assert numerics.computed_in(value) == f"{told}, summed in float32"
    told_of = {type(each.op).__name__: numerics.computed_in(each) for each in graph.values}
    assert (told_of["Reshape"], told_of["Exp"]) == ("moved", "float32")


def test_products_read_copies_of_parameters_that_no_step_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (4, 8)))
    a = build.add(Parameter("a", DType.F32, (2, 8, 4), "param"))
    b = build.add(Parameter("b", DType.F32, (8,), "param"))
    shown = build.add(Parameter("shown", DType.F32, (8, 8), "param"))
    flat = build.add(Reshape((8, 8)), build.add(Transpose((1, 0, 2)), a))
    y = build.add(MatMul(), build.add(MatMul(), x, flat), shown)
    total = build.add(Add(), y, build.add(Broadcast((4, 8), (1,)), b))
    read_too = build.add(Tanh(), shown)
    graph = build.graph({"total": total, "read_too": read_too}, {})
    generator = np.random.default_rng(0)
    values = {
        name: generator.standard_normal(shape, np.float32)
        for name, shape in {"a": (2, 8, 4), "b": (8,), "shown": (8, 8)}.items()
    }
    feeds = {"x": generator.standard_normal((4, 8), np.float32)}
    device = choose_device("xla:cpu").at(BF16)
    assert isinstance(device, XlaDevice)
    assert set(device.program(graph).copies) == {"a", "shown"}
    assert device.program(graph).copied_bytes == 2 * (64 + 64)

    def results() -> list[Array]:
        with device.open(graph) as session, device.open(graph) as other:
            session.load(values)
            first = [session.step(feeds)[name] for name in ("total", "read_too")]
            session.write("a", 2 * values["a"])
            second = session.step(feeds)["total"]
            np.testing.assert_array_equal(session.read("a"), 2 * values["a"])
            other.share(session)
            session.write("shown", 2 * values["shown"])
            return [*first, second, other.step(feeds)["total"]]

    copied = results()
    monkeypatch.setattr(Program, "copies", {})
    for found, expected in zip(copied, results(), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert np.abs(copied[2] - copied[0]).max() > 0.1
    assert np.abs(copied[3] - copied[2]).max() > 0.1


def test_a_step_iterations_what_it_updates_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (4, 8)))
    a, b = (build.add(Parameter(name, DType.F32, (8, 8), "param")) for name in "ab")
    turned = build.add(Transpose((1, 0)), b)
    y = build.add(MatMul(), build.add(Tanh(), build.add(MatMul(), x, a)), turned)
    loss = build.add(Sum((0, 1)), build.add(Mul(), y, y))
    step = training_step(build.graph({"loss": loss}), TrainingSettings(Sgd(lr=0.01)))
    inference = build.graph({"y": y})
    generator = np.random.default_rng(0)
    values = {name: generator.standard_normal((8, 8), np.float32) for name in "ab"}
    feeds = {"x": generator.standard_normal((4, 8), np.float32)}
    device = choose_device("xla:cpu").at(BF16)
    assert isinstance(device, XlaDevice)
    roundings: list[Program] = []
    rounded = Program.rounded.func

    def counted(program: Program) -> object:
        roundings.append(program)
        return rounded(program)

    monkeypatch.setattr(Program, "rounded", property(counted))

    def results() -> list[Array]:
        roundings.clear()
        with device.open(step) as session, device.open(inference) as other:
            session.load(values)
            other.share(session)
            found = [np.array(session.step(feeds)["loss"]) for _ in range(3)]
            found.append(np.array(other.step(feeds)["y"]))
            assert len(roundings) <= 1
            session.write("b", 2 * values["b"])
            found += [np.array(session.step(feeds)["loss"]) for _ in range(2)]
            return [*found, session.read("a"), session.read("b")]

    copied = results()
    assert len(roundings) == 2
    monkeypatch.setattr(Program, "copies", {})
    for found, expected in zip(copied, results(), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert len({float(loss) for loss in copied[:3]}) == 3


@pytest.mark.parametrize("sharding", [*DeviceSharding])
def test_on_several_devices_copies_lie_and_are_gathered_as_their_parameters(
    sharding: DeviceSharding, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One device in the place of several: XLA is given the same program.
    placement = SeveralDevices(Mesh([named("xla:cpu")], (AXIS,)), sharding, {"x": 1})
    build = Builder()
    x = build.add(Input("x", DType.F32, (4, 8)))
    w = build.add(Parameter("w", DType.F32, (8, 8), "param"))
    y = build.add(MatMul(), build.add(Tanh(), build.add(MatMul(), x, w)), w)
    loss = build.add(Sum((0, 1)), build.add(Mul(), y, y))
    graph = training_step(build.graph({"loss": loss}), TrainingSettings(Sgd(lr=0.01)))
    program = Program.of(graph, BF16, placement)
    assert program.copies.keys() == {"w"}
    assert program.copied_bytes == 2 * 64
    gathered = [
        line.split(" loc(")[0].split()[-1]
        for line in program.exported().splitlines()
        if "sdy.sharding_constraint" in line
    ]
    assert gathered == (["tensor<8x8xbf16>"] if sharding is DeviceSharding.FSDP else [])
    generator = np.random.default_rng(0)
    values = {"w": generator.standard_normal((8, 8), np.float32)}
    feeds = {"x": generator.standard_normal((4, 8), np.float32)}

    def results() -> list[Array]:
        with XlaSession(Program.of(graph, BF16, placement)) as session:
            session.load(values)
            losses = [np.array(session.step(feeds)["loss"]) for _ in range(3)]
            return [*losses, session.read("w")]

    copied = results()
    monkeypatch.setattr(Program, "copies", {})
    for found, expected in zip(copied, results(), strict=True):
        np.testing.assert_array_equal(found, expected)


def narrow(graph: Graph) -> set[int]:
    """The ids of the values that are stored in bfloat16."""
    numerics = Numerics.of(graph, BF16)
    return {value.id for value in graph.values if numerics.stored[value.id] == BFLOAT16}


def residual() -> tuple[Graph, dict[str, Value]]:
    """A residual, y = x + (tanh(x a) + c) b, read twice, with a mean beside."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (4, 8)))
    a, b = (build.add(Parameter(name, DType.F32, (8, 8), "param")) for name in "ab")
    c = build.add(Parameter("c", DType.F32, (8,), "param"))
    first = build.add(MatMul(), x, a)
    spread = build.add(Broadcast((4, 8), (1,)), c)
    biased = build.add(Add(), first, spread)
    active = build.add(Tanh(), biased)
    second = build.add(MatMul(), active, b)
    scaled = build.add(Mul(), x, full(build, x.type, 2))
    y = build.add(Add(), scaled, second)
    both = build.add(Concat(1), y, active)
    mean = build.add(Sum((0,)), both)
    transposed = build.add(MatMul(transpose_right=True), y, build.add(Mul(), a, b))
    named = {
        "first": first,
        "biased": biased,
        "active": active,
        "second": second,
        "scaled": scaled,
        "y": y,
        "both": both,
        "mean": mean,
        "last": transposed,
    }
    return build.graph({"mean": mean, "last": transposed}), named


def test_activations_and_residuals_are_narrow_and_nothing_else() -> None:
    graph, named = residual()
    found = narrow(graph)
    is_narrow = {name for name, value in named.items() if value.id in found}
    assert is_narrow == {"first", "active", "second", "y", "both"}
    assert len(found) == len(is_narrow)
    for precision in (F32, TF32):
        stored = set(Numerics.of(graph, precision).stored.values())
        assert BFLOAT16 not in stored


@pytest.mark.parametrize("is_read_twice", [False, True])
def test_a_sum_is_narrow_where_several_read_it(*, is_read_twice: bool) -> None:
    """A sum with one reader is computed where it is read."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (4, 8)))
    a, b = (build.add(Parameter(name, DType.F32, (8, 8), "param")) for name in "ab")
    sum_ = build.add(Add(), build.add(MatMul(), x, a), x)
    outputs = {"y": build.add(MatMul(), build.add(Tanh(), sum_), b)}
    if is_read_twice:
        outputs["z"] = build.add(Exp(), sum_)
    assert (sum_.id in narrow(build.graph(outputs))) == is_read_twice


@pytest.mark.parametrize("is_shown", [False, True])
def test_a_moved_parameter_that_is_shown_is_not_rounded(*, is_shown: bool) -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (4, 8)))
    turned = build.add(Transpose((1, 0)), build.add(Parameter("w", DType.F32, (8, 8), "param")))
    outputs = {"y": build.add(MatMul(), x, turned)} | ({"shown": turned} if is_shown else {})
    assert (turned.id in narrow(build.graph(outputs))) is not is_shown


def test_statistics_are_not_narrow_and_what_is_drawn_is() -> None:
    """A sum of a product and of means, read twice; and what a product reads of a state's bits."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (4, 8)))
    a = build.add(Parameter("a", DType.F32, (8, 8), "param"))
    means = build.add(Broadcast((4, 8), (1,)), build.add(Sum((0,)), x))
    centred = build.add(Add(), build.add(MatMul(), x, a), means)
    counter = build.add(Parameter("counter", DType.U32, (2,), "state"))
    drawn = build.add(Cast(DType.F32), build.add(RandomBits(1, (4, 8)), counter))
    products = [build.add(MatMul(), each, a) for each in (build.add(Tanh(), centred), drawn)]
    outputs = {"y": products[0], "z": build.add(Exp(), centred), "drawn": products[1]}
    found = narrow(build.graph(outputs))
    assert centred.id not in found
    assert drawn.id in found


def test_what_a_training_keeps_and_what_changes_it_is_float32() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (4, 8)))
    a, b = (build.add(Parameter(name, DType.F32, (8, 8), "param")) for name in "ab")
    y = build.add(MatMul(), build.add(Tanh(), build.add(MatMul(), x, a)), b)
    loss = build.add(Sum((0, 1)), build.add(Mul(), y, y))
    step = training_step(build.graph({"loss": loss}), TrainingSettings(Adam()))
    found = narrow(step)
    products = [value for value in step.values if isinstance(value.op, MatMul)]
    gradients = [value for value in products if value.type.shape == (8, 8)]
    assert len(gradients) == 2
    for value in products:
        assert (value.id in found) == (value not in gradients)
    assert not found & {value.id for value in step.roots}


CONTRACTIONS = {
    (type(sample.op), len(sample.operands[0].shape)): sample
    for sample in SAMPLES
    if isinstance(sample.op, MatMul | Convolution)
}
"""One of each kind and rank."""


@pytest.mark.parametrize("form", ["as it is", "moved", "selected", "a part"])
def test_a_mean_over_steps_that_a_product_reads_is_not_rounded_by_any_of_them(form: str) -> None:
    """A mean of 1 moves by 1/1000 a step, where bfloat16 has no number between 1 and 1 + 1/128."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (4, 4)))
    mean = build.add(Parameter("mean", DType.F32, (4, 4), "state"))
    away = build.add(Sub(), build.add(MatMul(), x, x), mean)
    new = build.add(Add(), mean, build.add(Mul(), away, full(build, away.type, 1e-3)))
    kept = new
    match form:
        case "moved":
            kept = build.add(Transpose((1, 0)), new)
        case "selected":
            kept = build.add(Where(), build.add(Compare("gt"), x, mean), mean, new)
        case "a part":
            kept = build.add(
                Concat(0), *(build.add(Slice((k, 0), (k + 2, 4), (1, 1)), new) for k in (0, 2))
            )
        case _:
            pass
    reads = build.add(Add(), build.add(MatMul(), kept, x), build.add(MatMul(), new, x))
    graph = build.graph({"y": build.add(MatMul(), reads, x)}, {"mean": kept})
    assert not narrow(graph) & {new.id, kept.id}
    with choose_device("xla:cpu", precision=BF16).open(graph) as session:
        session.load({"mean": np.ones((4, 4), np.float32)})
        for _ in range(20):
            session.step({"x": np.full((4, 4), 0.875, np.float32)})
        found = session.read("mean")
    np.testing.assert_allclose(found, 1 + (4 * 0.875**2 - 1) * (1 - 0.999**20), 1e-5)


def test_a_mean_over_iterations_that_a_product_reads_is_not_rounded_by_any_of_them() -> None:
    graph = forward(MEAN_OVER_ROUNDS, s=100)
    feeds = {"x": np.full((100, 4), 2, np.float32)}
    with choose_device("xla:cpu", precision=BF16).open(graph) as session:
        found = session.step(feeds)["output0"]
    np.testing.assert_allclose(found, evaluate(graph, feeds).outputs["output0"], 1e-5)
    np.testing.assert_allclose(found, 2 - 0.999**100, 1e-5)


def test_a_cache_that_a_product_reads_is_float32_behind_each_step() -> None:
    """The new keys and values are what a product reads."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (4, 8)))
    cache = build.add(Parameter("cache", DType.F32, (4, 8), "cache"))
    new = build.add(Add(), cache, build.add(Tanh(), x))
    y = build.add(MatMul(transpose_right=True), new, x)
    graph = build.graph({"y": y}, {"cache": new})
    assert new.id in narrow(graph)
    fed = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    with choose_device("xla:cpu", precision=BF16).open(graph) as session:
        session.load({"cache": np.zeros((4, 8), np.float32)})
        for _ in range(3):
            session.step({"x": fed})
        kept = session.read("cache")
    assert kept.dtype == np.float32
    np.testing.assert_allclose(kept, 3 * np.tanh(fed), 0, 0.03)


def test_contractions_are_within_the_rounding_of_their_operands() -> None:
    build = Builder()
    feeds: dict[str, Array] = {}
    outputs: dict[str, Value] = {}
    for number, sample in enumerate(CONTRACTIONS.values()):
        names = [f"x{number}.{workspace}" for workspace in range(len(sample.operands))]
        leaves = [
            build.add(Input(name, each.dtype, each.shape))
            for name, each in zip(names, sample.types, strict=True)
        ]
        feeds |= dict(zip(names, sample.operands, strict=True))
        outputs[sample.name] = build.add(sample.op, *leaves)
    graph = build.graph(outputs)
    with choose_device("xla:cpu", precision=BF16).open(graph) as session:
        found = session.step(feeds)
        for name, value in evaluate(graph, feeds).outputs.items():
            scale = np.abs(value).astype(np.float64).max()
            np.testing.assert_allclose(found[name], value, 0, 2**-7 * scale, err_msg=name)
            assert found[name].dtype == value.dtype


# --- runs ----------------------------------------------------------------------------------------


def test_a_training_in_bf16_learns_what_one_in_f32_does(tmp_path: Path) -> None:
    program = meganeura.load("digits_mlp")
    runs = {
        device: program.train(
            device=device,
            out=tmp_path / precision,
            settings={"epochs": 1, "precision": precision},
        )
        for device, precision in (("cpu", "f32"), ("xla:cpu", "bf16"))
    }
    assert runs["xla:cpu"].epochs == pytest.approx(runs["cpu"].epochs, rel=0.02)
    assert runs["xla:cpu"].epochs != runs["cpu"].epochs
    model = program.model(weights=runs["xla:cpu"].weights)
    image = np.arange(3 * 64, dtype=np.float32).reshape(3, 1, 8, 8) % 17
    exact = model.run({"image": image}, device="cpu")["output"]
    rough = model.run({"image": image}, device="xla:cpu", precision="bf16")["output"]
    assert 1e-4 < np.abs(exact - rough).max() / np.abs(exact).max() < 0.03


def test_what_python_runs_computes_in_the_precision_of_its_settings(tmp_path: Path) -> None:
    program = meganeura.load("digits_mlp")
    program.model(seed=1).save(tmp_path / "weights.safetensors")
    weights = tmp_path / "weights.safetensors"
    data = {
        "image": np.random.default_rng(0).uniform(0, 16, (8, 1, 8, 8)).astype(np.float32),
        "label": np.arange(8, dtype=np.int32),
    }
    found: list[tuple[float, ...]] = []
    for precision in ("f32", "bf16"):
        settings = {"precision": precision, "batch": 8, "device": "xla:cpu", "optimize": False}
        with program.trainer(settings=settings, weights=weights) as trainer:
            loss = trainer.step(data).loss
        measured = program.evaluate(weights=weights, data=data, settings=settings)["loss"]
        run = program.train(weights=weights, data=data, settings=settings, out=tmp_path / precision)
        found.append((loss, measured, *run.epochs))
    exact, rough = np.array(found)
    np.testing.assert_allclose(rough, exact, rtol=0.02)
    assert (np.abs(rough - exact) > 1e-5).all()


def test_a_run_goes_on_in_another_precision(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    device = choose_device("xla:cpu", precision=ComputePrecision.BF16)
    workspace.start("run", "precision=bf16", "epochs=2", steps=7, open_session=device.open)
    folder = workspace.resume("run", "precision=f32")
    assert json.loads(folder.settings.read_text())["precision"] == "f32"


@pytest.mark.parametrize(
    ("device", "precision", "told"),
    [
        ("cpu", "bf16", "E0559.*`cpu` does not compute in bf16"),
        ("cpu", "tf32", "E0559.*`cpu` does not compute in tf32"),
        ("xla:cpu", "tf32", "E0559.*`xla:cpu` does not compute in tf32"),
        pytest.param("wgpu", "bf16", "E0559.*`wgpu`", marks=pytest.mark.adapter),
        ("auto", "bf16", "E0551.*no GPU computes in bf16 here; `xla:cpu` can, slowly"),
        ("cpu", "f64", "E0513.*`precision` must be f32, tf32, f16 or bf16"),
    ],
)
def test_what_a_device_does_not_compute_in_is_refused(
    device: str, precision: str, told: str, tmp_path: Path
) -> None:
    program = meganeura.load("digits_mlp")
    with pytest.raises((ProblemError, ProblemsError), match=told):
        program.train(device=device, out=tmp_path / "run", settings={"precision": precision})
    assert not (tmp_path / "run").exists()
