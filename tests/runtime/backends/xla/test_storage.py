"""Values in memory: their float types and order, and the number of their reads."""

from collections.abc import Mapping
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import Sharding

from meganeura_dsl.ir.graph import Array, Builder, Graph, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Compare,
    Conv,
    ConvWeightGradient,
    Div,
    Input,
    MatMul,
    Maximum,
    MaxPool,
    MaxPoolGradient,
    Mul,
    Parameter,
    Reshape,
    Sub,
    Sum,
    Tanh,
    Where,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.base import NOTHING_SHARED, SessionError
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.session_guard import Guard
from meganeura_runtime.backends.xla import compile as compile_module
from meganeura_runtime.backends.xla import session
from meganeura_runtime.backends.xla.analysis.numerics import BFLOAT16, Numerics
from meganeura_runtime.backends.xla.compile import Program
from meganeura_runtime.backends.xla.config.measured_choices import (
    RELU_BACKWARD_FROM_OUTPUT,
    disabled,
)
from meganeura_runtime.backends.xla.device import transfers
from meganeura_runtime.backends.xla.device.devices import named
from meganeura_runtime.backends.xla.device.layouts import layout_of
from meganeura_runtime.backends.xla.device.placement import OneDevice
from meganeura_runtime.backends.xla.open_device import XlaDevice
from meganeura_runtime.backends.xla.session import XlaSession
from tests.runtime.backends.xla.device.test_compiler_options import gpu

BF16, F32 = ComputePrecision.BF16, ComputePrecision.F32
CHANNELS_LAST = (0, 2, 3, 1)


def device(precision: ComputePrecision) -> XlaDevice:
    found = choose_device("xla:cpu").at(precision)
    assert isinstance(found, XlaDevice)
    return found


def outputs(
    graph: Graph, feeds: Mapping[str, Array], precision: ComputePrecision
) -> dict[str, Array]:
    with device(precision).open(graph) as session:
        session.load({name: np.zeros((), np.float32) for name in session.names})
        return {**session.step(feeds)}


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def products(build: Builder) -> tuple[Value, Value]:
    """A product that another product reads, and that one."""
    x, a, b = (build.add(Input(name, DType.F32, (64, 64))) for name in "xab")
    first = build.add(MatMul(), x, a)
    return first, build.add(MatMul(), first, b)


def rounded(array: Array) -> Array:
    return np.asarray(np.asarray(array, jnp.bfloat16), np.float32)


def test_what_is_stored_in_bfloat16_is_rounded_for_all_that_read_it() -> None:
    build = Builder()
    first, second = products(build)
    doubled = build.add(Mul(), first, full(build, first.type, 2))
    graph = build.graph({"doubled": doubled, "second": second})
    feeds = {name: numbers(64, 64, seed=seed) for seed, name in enumerate("xab")}
    found = outputs(graph, feeds, BF16)["doubled"]
    np.testing.assert_array_equal(found, rounded(found))


def test_what_is_selected_is_narrow_where_it_is_so_already() -> None:
    build = Builder()
    first, second = products(build)
    zero, one = (full(build, first.type, number) for number in (0, 1))
    positive = build.add(Compare("gt"), first, zero)
    kept = build.add(Where(), positive, first, zero)
    filled = build.add(Where(), positive, first, one)
    other = build.add(Where(), positive, build.add(Tanh(), first), zero)
    graph = build.graph({"kept": kept, "filled": filled, "other": other, "second": second})
    stored = Numerics.of(graph, BF16).stored
    is_narrow = {name: stored[value.id] == BFLOAT16 for name, value in graph.outputs.items()}
    assert is_narrow == {"kept": True, "filled": False, "other": False, "second": False}


def test_gradients_of_pooling_are_narrow() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 3, 8, 8)))
    w = build.add(Input("w", DType.F32, (4, 3, 1, 1)))
    y = build.add(Conv((1, 1), (0, 0), (1, 1), 1), x, w)
    pool = MaxPool((2, 2), (2, 2), (0, 0))
    largest, indices = build.add_all(pool, y)
    back = MaxPoolGradient(pool.window, pool.stride, pool.padding, (8, 8))
    dy = build.add(back, indices, largest)
    dw = build.add(ConvWeightGradient((1, 1), (0, 0), (1, 1), 1, kernel=(1, 1)), x, dy)
    graph = build.graph({"dy": dy, "dw": dw, "read": build.add(Sum((0,)), dy)})
    assert Numerics.of(graph, BF16).stored[graph.outputs["dy"].id] == BFLOAT16
    feeds = {"x": numbers(2, 3, 8, 8), "w": numbers(4, 3, 1, 1)}
    narrow, wide = (outputs(graph, feeds, precision) for precision in (BF16, F32))
    np.testing.assert_allclose(narrow["dw"], wide["dw"], atol=0.02 * np.abs(wide["dw"]).max())


def test_long_axes_are_aligned_and_nothing_is_added() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 3, 8)))
    table = build.add(Parameter("table", DType.F32, (4099, 8), "param"))
    logits = build.add(MatMul(transpose_right=True), x, table)
    dx = build.add(MatMul(), logits, table)
    rows = build.add(Reshape((6, 4099)), logits)
    dtable = build.add(MatMul(transpose_left=True), rows, build.add(Reshape((6, 8)), x))
    training = build.graph({"logits": logits, "dx": dx}, {"table": dtable})
    inference = build.graph({"logits": logits})
    feeds, kept = {"x": numbers(2, 3, 8)}, {"table": numbers(4099, 8, seed=1)}

    def results(precision: ComputePrecision) -> list[Array]:
        with device(precision).open(training) as session:
            session.load(kept)
            return [*session.step(feeds).values(), session.read("table")]

    for found, expected in zip(results(BF16), results(F32), strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, atol=0.02 * np.abs(expected).max())
    assert "4104" in device(BF16).program(training).exported()
    assert "4104" not in device(BF16).program(inference).exported()
    assert "4104" not in device(F32).program(training).exported()


def test_odd_rows_of_an_inference_lie_in_columns_on_one_gpu() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 8, 8)))
    last = build.add(Input("last", DType.F32, (2, 8, 4099)))
    table = build.add(Parameter("table", DType.F32, (4099, 8), "param"))
    logits = build.add(MatMul(transpose_right=True), x, table)
    graph = build.graph({"logits": logits, "change": build.add(Sub(), logits, last)})
    kept = {"table": numbers(4099, 8, seed=1)}
    feeds = {"x": numbers(2, 8, 8), "last": numbers(2, 8, 4099, seed=2)}

    def results(placement: OneDevice) -> tuple[Format | Sharding, list[Array]]:
        with XlaSession(Program.of(graph, BF16, placement)) as session:
            session.load(kept)
            first = [session.step(feeds)[name] for name in ("logits", "change")]
            second = session.follow({"x": feeds["x"]}, {"last": "logits"})
            return session.program.given["logits"], [*first, second["change"]]

    given, expected = results(OneDevice(named("xla:cpu")))
    assert isinstance(given, Sharding)
    given, found = results(gpu())
    assert isinstance(given, Format)
    assert given.layout.major_to_minor == (2, 0, 1)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    assert not found[-1].any()
    assert "lhs_precision_type = bf16" in Program.of(graph, BF16, gpu()).exported()


@pytest.mark.parametrize(
    ("columns", "exchanged", "is_odd"),
    [
        (4099, "", True),
        (4104, "", False),
        (4091, "", False),
        (4099, "a CPU", False),
        (4099, "in f32", False),
        (4099, "a training", False),
        (4099, "read by a product", False),
    ],
)
def test_long_rows_of_an_inference_that_are_given_are_odd(
    columns: int, exchanged: str, *, is_odd: bool
) -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (16, 8)))
    w = build.add(Parameter("w", DType.F32, (8, columns), "param"))
    y = build.add(MatMul(), x, w)
    back = build.add(MatMul(transpose_right=True), y, w)
    outputs = {"y": back if exchanged == "read by a product" else y}
    graph = build.graph(outputs, {"w": w} if exchanged == "a training" else {})
    numerics = Numerics.of(graph, F32 if exchanged == "in f32" else BF16)
    numerics = replace(numerics, is_on_one_gpu=exchanged != "a CPU")
    (product,) = [each for each in graph.values if each.type.shape == (16, columns)]
    assert numerics.has_unaligned_output(product) == is_odd


@pytest.mark.parametrize(
    ("op", "size"),
    [
        (ConvWeightGradient((1, 1), (3, 3), (1, 1), 3, kernel=(7, 7)), 9),
        (ConvWeightGradient((2, 1), (1, 3), (1, 2), 3, kernel=(6, 5)), 12),
    ],
)
def test_gradients_of_large_depthwise_kernels_are_sums_of_taps_on_one_gpu(
    op: ConvWeightGradient, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_module, "create_handles", lambda _: None)
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 3, size, size)))
    w = build.add(Parameter("w", DType.F32, (3, 1, *op.kernel), "param"))
    y = build.add(Conv(op.stride, op.padding, op.dilation, 3), x, w)
    graph = build.graph({"dw": build.add(op, x, build.add(Mul(), y, y))})
    feeds, kept = (
        {"x": numbers(2, 3, size, size)},
        {"w": numbers(*concrete_shape(w.type.shape), seed=1)},
    )

    def gradient(placement: OneDevice) -> tuple[int, Array]:
        program = Program.of(graph, F32, placement)
        with XlaSession(program) as session:
            session.load(kept)
            found = np.asarray(session.step(feeds)["dw"])
        return program.exported().count("stablehlo.convolution"), found

    convolutions, expected = gradient(OneDevice(named("xla:cpu")))
    assert convolutions == 2
    convolutions, found = gradient(gpu())
    assert convolutions == 1
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_cudnn_has_gradients_of_other_kernels() -> None:
    for kernel, groups in (((5, 5), 3), ((7, 7), 1)):
        build = Builder()
        x = build.add(Input("x", DType.F32, (2, 3, 9, 9)))
        op = ConvWeightGradient((1, 1), (0, 0), (1, 1), groups, kernel=kernel)
        dy = build.add(Input("dy", DType.F32, (2, 3, 10 - kernel[0], 10 - kernel[1])))
        graph = build.graph({"dw": build.add(op, x, dy)})
        assert "stablehlo.convolution" in Program.of(graph, F32, gpu()).exported()
    for precision in (F32, BF16):
        build = Builder()
        x = build.add(Input("x", DType.F32, (2, 3, 9, 9)))
        dy = build.add(Input("dy", DType.F32, (2, 3, 3, 3)))
        op = ConvWeightGradient((1, 1), (0, 0), (1, 1), 3, kernel=(7, 7))
        text = Program.of(build.graph({"dw": build.add(op, x, dy)}), precision, gpu()).exported()
        assert ("stablehlo.convolution" in text) == (precision is BF16)


def statistics(axes: tuple[int, ...], *, trains: bool, divisor: int = 64) -> Graph:
    """The mean of squared deviations of a product that another product reads."""
    build = Builder()
    first, second = products(build)
    kept = tuple(axis for axis in range(2) if axis not in axes)
    mean = build.add(Sum(axes), first)
    count = full(build, mean.type, 64)
    mean = build.add(Div(), mean, full(build, mean.type, divisor))
    deviation = build.add(Sub(), first, build.add(Broadcast((64, 64), kept), mean))
    squares = build.add(Sum(axes), build.add(Mul(), deviation, deviation))
    outputs = {"variance": build.add(Div(), squares, count), "second": second}
    steps = build.add(Parameter("steps", DType.F32, (), "state"))
    more = build.add(Add(), steps, full(build, steps.type, 1))
    return build.graph(outputs, {"steps": more} if trains else {})


@pytest.mark.parametrize(
    ("axes", "precision", "trains", "is_one_pass"),
    [
        ((0,), BF16, False, True),
        ((1,), BF16, False, False),
        ((1,), BF16, True, True),
        ((0,), F32, True, False),
    ],
)
def test_a_variance_is_read_with_its_mean(
    axes: tuple[int, ...], precision: ComputePrecision, *, trains: bool, is_one_pass: bool
) -> None:
    graph = statistics(axes, trains=trains)
    lowered = device(precision).program(graph).graph
    assert any(isinstance(value.op, Maximum) for value in lowered.values) == is_one_pass
    # Means of ten standard deviations.
    feeds = {"x": numbers(64, 64), "a": numbers(64, 64, seed=1), "b": np.eye(64, dtype=np.float32)}
    feeds["x"][:, 0], feeds["a"][0] = 8, 10
    found = outputs(graph, feeds, precision)["variance"]
    product = (
        feeds["x"] @ feeds["a"]
        if precision is F32
        else rounded(rounded(feeds["x"]) @ rounded(feeds["a"]))
    )
    np.testing.assert_allclose(found, product.astype(np.float64).var(axes), rtol=1e-2)


def test_what_is_no_mean_is_no_mean() -> None:
    """Deviations from sum(x) / (n - 1) are not sums of squares less the product of two sums."""
    graph = statistics((0,), trains=True, divisor=63)
    lowered = device(BF16).program(graph).graph
    assert not any(isinstance(value.op, Maximum) for value in lowered.values)
    feeds = {"x": numbers(64, 64), "a": numbers(64, 64, seed=1), "b": np.eye(64, dtype=np.float32)}
    feeds["x"][:, 0], feeds["a"][0] = 8, 10
    found = outputs(graph, feeds, BF16)["variance"]
    product = rounded(rounded(feeds["x"]) @ rounded(feeds["a"])).astype(np.float64)
    expected = np.square(product - product.sum(0) / 63).mean(0)
    np.testing.assert_allclose(found, expected, rtol=1e-2)


def relu_step() -> Graph:
    """A relu between two products, and the product of its gradient."""
    build = Builder()
    bias = build.add(Input("bias", DType.F32, (64,)))
    first, _ = products(build)
    y = build.add(Add(), first, build.add(Broadcast((64, 64), (1,)), bias))
    zero = full(build, y.type, 0.0)
    mask = build.add(Compare("le"), y, zero)
    z = build.add(Where(), mask, zero, y)
    second = build.add(Input("c", DType.F32, (64, 64)))
    dz = build.add(MatMul(), build.add(MatMul(), z, second), second)
    dy = build.add(Where(), mask, zero, dz)
    return build.graph({"dy": dy, "dx": build.add(MatMul(), dy, second)})


@pytest.mark.parametrize(("precision", "reads_results"), [(BF16, True), (F32, False)])
def test_gradients_of_relus_read_what_these_gave(
    precision: ComputePrecision, *, reads_results: bool
) -> None:
    graph = relu_step()
    feeds = {name: numbers(64, 64, seed=seed) for seed, name in enumerate("xabc")}
    feeds["bias"] = numbers(64, seed=4)
    feeds["bias"][0] = np.nan
    found = outputs(graph, feeds, precision)
    lowered = device(precision).program(graph).graph
    compared = {each.operands[0].op for each in lowered.values if isinstance(each.op, Compare)}
    assert (Where() in compared) == reads_results
    with disabled(RELU_BACKWARD_FROM_OUTPUT):
        unchanged = device(precision).program(graph).graph
        conditions = [
            each.operands[0].op for each in unchanged.values if isinstance(each.op, Compare)
        ]
        assert Where() not in conditions
        expected = outputs(graph, feeds, precision)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


def training() -> Graph:
    """A convolution whose kernel a step moves, beside one that it only reads."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 3, 6, 6)))
    w = build.add(Parameter("w", DType.F32, (4, 3, 3, 3), "param"))
    fixed = build.add(Parameter("fixed", DType.F32, (4, 4, 1, 1), "param"))
    y = build.add(Tanh(), build.add(Conv((1, 1), (1, 1), (1, 1), 1), x, w))
    z = build.add(Conv((1, 1), (0, 0), (1, 1), 1), y, fixed)
    dw = build.add(ConvWeightGradient((1, 1), (1, 1), (1, 1), 1, kernel=(3, 3)), x, z)
    step = build.add(Mul(), dw, full(build, dw.type, 0.01))
    return build.graph({"z": z}, {"w": build.add(Sub(), w, step)})


def test_kernels_lie_as_convolutions_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = training()
    kept = {"w": numbers(4, 3, 3, 3), "fixed": numbers(4, 4, 1, 1, seed=1)}
    feeds = {"x": numbers(2, 3, 6, 6, seed=2)}

    def results() -> tuple[Array, Array, tuple[int, ...]]:
        with device(BF16).open(graph) as first, device(BF16).open(graph) as second:
            first.load(kept)
            first.step(feeds)
            second.share(first)
            z = second.step(feeds)["z"]
            layout = first.arrays["w"].format.layout.major_to_minor
            return first.read("w"), z, layout

    *expected, layout = results()
    assert layout == (0, 1, 2, 3)
    monkeypatch.setattr(
        compile_module, "layout_of", lambda of, _, precision: layout_of(of, "gpu", precision)
    )
    *found, layout = results()
    assert layout == CHANNELS_LAST
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_sessions_whose_kernels_lie_otherwise_share_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In f32 no convolution of a GPU reads channels last."""
    monkeypatch.setattr(
        compile_module, "layout_of", lambda of, _, precision: layout_of(of, "gpu", precision)
    )
    with device(BF16).open(training()) as narrow, device(F32).open(training()) as wide:
        for one, other in ((narrow, wide), (wide, narrow)):
            with pytest.raises(SessionError, match=NOTHING_SHARED):
                one.share(other)


def test_what_lies_in_columns_is_put_in_rows_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    columns = Format(Layout((1, 0)), jnp.zeros((1,), np.float32).sharding)
    arrays = {"y": jax.device_put(rows, columns)}
    outputs = session._Fetched(arrays, Guard())  # pyright: ignore[reportPrivateUsage]
    turned: list[Format] = []
    put = jax.device_put
    monkeypatch.setattr(
        transfers.jax, "device_put", lambda array, to: turned.append(to) or put(array, to)
    )
    for _ in range(3):
        np.testing.assert_array_equal(outputs["y"], [[0, 1, 2], [3, 4, 5]])
    assert len(turned) == 1
