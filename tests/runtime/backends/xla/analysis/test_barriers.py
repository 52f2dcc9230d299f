"""Barriers of a training step on one GPU: what is computed together, and what is one vector."""

from collections.abc import Callable

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph, Value
from meganeura_dsl.ir.ops import (
    Add,
    Conv,
    ConvInputGradient,
    ConvWeightGradient,
    Input,
    MatMul,
    Mul,
    Parameter,
    Sum,
    Tanh,
)
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step
from meganeura_runtime.backends.base import leaf_types
from meganeura_runtime.backends.xla import compile as compile_module
from meganeura_runtime.backends.xla.analysis.barriers import Barriers
from meganeura_runtime.backends.xla.analysis.numerics import Numerics
from meganeura_runtime.backends.xla.compile import Program
from meganeura_runtime.backends.xla.device.devices import named
from meganeura_runtime.backends.xla.device.placement import OneDevice
from meganeura_runtime.backends.xla.lowering.contraction import has_unaligned_axis
from meganeura_runtime.backends.xla.session import XlaSession
from tests.effort import effort
from tests.runtime.backends.xla.device.test_compiler_options import gpu

BARRIER = "stablehlo.optimization_barrier"
BF16, F32 = ComputePrecision.BF16, ComputePrecision.F32


def layers(*, width: int = 8, classes: int = 8) -> Graph:
    """A step of SGD with momentum, of three layers with biases."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (4, width)))
    for number, size in enumerate((width, width, classes)):
        w = build.add(Parameter(f"w{number}", DType.F32, (x.type.shape[1], size), "param"))
        b = build.add(Parameter(f"b{number}", DType.F32, (size,), "param"))
        y = build.add(MatMul(), x, w)
        x = build.add(Tanh(), build.add(Add(), y, build.add(Broadcast(y.type.shape, (1,)), b)))
    loss = build.add(Sum((0, 1)), build.add(Mul(), x, x))
    settings = TrainingSettings(Sgd(lr=0.01, momentum=0.9))
    return training_step(build.graph({"loss": loss}), settings)


def images() -> Graph:
    """A step of two convolutions."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 3, 6, 6)))
    for name, channels in (("a", 3), ("b", 4)):
        w = build.add(Parameter(name, DType.F32, (4, channels, 3, 3), "param"))
        x = build.add(Tanh(), build.add(Conv((1, 1), (1, 1), (1, 1), 1), x, w))
    loss = build.add(Sum((0, 1, 2, 3)), build.add(Mul(), x, x))
    return training_step(build.graph({"loss": loss}), TrainingSettings(Sgd(lr=0.01)))


def normed() -> Graph:
    """A residual of a product, what lies between its rows and their sums, and both read again."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (4, 8)))
    a, b = (build.add(Parameter(name, DType.F32, (8, 8), "param")) for name in "ab")
    residual = build.add(Add(), x, build.add(MatMul(), build.add(Tanh(), x), a))
    sums = build.add(Broadcast((4, 8), (0,)), build.add(Sum((1,)), residual))
    norm = build.add(Mul(), residual, sums)
    return build.graph({"loss": build.add(Add(), build.add(MatMul(), norm, b), residual)})


def rates() -> Graph:
    """Updates of three vectors by two numbers that are products of different factors."""
    build = Builder()
    x, y = (build.add(Input(name, DType.F32, ())) for name in "xy")
    spread = [build.add(Broadcast((5,), ()), build.add(Mul(), x, each)) for each in (x, y)]
    updates: dict[str, Value] = {}
    for name in "abc":
        new = build.add(Parameter(name, DType.F32, (5,), "param"))
        for each in spread:
            new = build.add(Add(), build.add(Mul(), new, each), each)
        updates[name] = new
    loss = build.add(Sum((0,)), build.add(Mul(), updates["a"], updates["b"]))
    return build.graph({"loss": loss}, updates)


def groups(graph: Graph) -> list[list[str]]:
    """Returns the ops that are computed together, as kinds and shapes."""
    found = Barriers.of(graph, Numerics.of(graph, BF16)).computed_jointly
    values = {value.id: value for value in graph.values}
    return sorted(
        sorted(f"{type(values[each].op).__name__} {values[each].type}" for each in group)
        for group in {*found.values()}
    )


def test_both_products_of_a_cotangent_are_computed_before_either_is_read() -> None:
    both = ["MatMul f32[4, 8]", "MatMul f32[8, 8]"]
    assert groups(layers()) == [both, both, ["MatMul f32[8, 8]"]]
    weights = "ConvWeightGradient f32[4, 4, 3, 3]"
    assert groups(images()) == [
        ["ConvInputGradient f32[2, 4, 6, 6]", weights],
        ["ConvWeightGradient f32[4, 3, 3, 3]"],
    ]
    assert {ConvInputGradient, ConvWeightGradient} <= {type(each.op) for each in images().values}


def test_a_residual_is_stored_beside_the_norm_of_its_rows() -> None:
    assert groups(normed()) == [["Add f32[4, 8]", "Mul f32[4, 8]"]]
    text = Program.of(normed(), BF16, gpu()).exported()
    (barrier,) = [line for line in text.splitlines() if BARRIER in line]
    assert barrier.count("tensor<4x8xbf16>") == 2


def test_norms_of_rows_that_tiles_do_not_divide_are_of_all_rows() -> None:
    def graph(rows: int, *, trains: bool = False) -> Graph:
        build = Builder()
        x = build.add(Input("x", DType.F32, (2, rows, 8)))
        a, b = (build.add(Parameter(name, DType.F32, (8, 8), "param")) for name in "ab")
        scale = build.add(Parameter("scale", DType.F32, (8,), "param"))
        residual = build.add(Add(), x, build.add(MatMul(), build.add(Tanh(), x), a))
        level = build.add(Mul(), sums := build.add(Sum((2,)), residual), sums)
        norm = build.add(Mul(), residual, build.add(Broadcast((2, rows, 8), (0, 1)), level))
        norm = build.add(Mul(), norm, build.add(Broadcast((2, rows, 8), (2,)), scale))
        y = build.add(Add(), build.add(MatMul(), norm, b), residual)
        return build.graph({"y": y}, {"scale": scale} if trains else {})

    def ranks(graph: Graph) -> set[int]:
        return {each.operands[0].type.rank for each in graph.values if isinstance(each.op, Sum)}

    assert ranks(graph(5)) == {3}
    assert ranks(Program.of(graph(5), BF16, gpu()).graph) == {2}
    assert groups(Program.of(graph(5), BF16, gpu()).graph) == [["Add f32[10, 8]", "Mul f32[10, 8]"]]
    for other, precision in ((graph(16), BF16), (graph(5), F32), (graph(5, trains=True), BF16)):
        assert ranks(Program.of(other, precision, gpu()).graph) == {3}
    numbers = np.random.default_rng(0)
    feeds = {"x": numbers.standard_normal((2, 5, 8), np.float32)}
    kept = {name: 0.3 * numbers.standard_normal((8, 8), np.float32) for name in "ab"}
    kept["scale"] = numbers.standard_normal(8, np.float32)

    def given(placement: OneDevice) -> Array:
        with XlaSession(Program.of(graph(5), BF16, placement)) as session:
            session.load(kept)
            return np.asarray(session.step(feeds)["y"])

    found, expected = given(gpu()), given(OneDevice(named("xla:cpu")))
    np.testing.assert_allclose(found, expected, atol=0.02 * np.abs(expected).max())


def test_what_is_cut_of_an_aligned_product_has_its_own_barrier() -> None:
    graph = layers(classes=4099)
    both = ["MatMul f32[4, 8]", "MatMul f32[8, 8]"]
    assert groups(graph) == [both, ["MatMul f32[8, 8]"]]
    (gradient,) = {each for each in graph.values if str(each.type) == "f32[8, 4099]"} & {
        each for each in graph.values if isinstance(each.op, MatMul)
    }
    assert has_unaligned_axis(gradient.type)
    text = Program.of(graph, BF16, gpu()).exported()
    barriers = [line for line in text.splitlines() if BARRIER in line]
    assert any("tensor<8x4104xf32>" in line for line in barriers)
    assert not any("tensor<8x4099xf32>" in line for line in barriers)


def test_updates_of_small_parameters_of_one_shape_read_one_array() -> None:
    graph = layers()
    shared = Barriers.of(graph, Numerics.of(graph, BF16)).shared_scalars
    values = {value.id: value for value in graph.values}
    types = ["f32[8, 8]", "f32[8]"]
    assert sorted({str(values[each].type) for each in shared}) == types
    # Those of the momentum and of the rate.
    assert sorted(str(values[each].type) for each in {*shared.values()}) == sorted(2 * types)
    assert all(
        values[each].operands[0].op == values[first].operands[0].op
        for each, first in shared.items()
    )
    for other in (layers(classes=5), layers(width=2048)):
        assert not Barriers.of(other, Numerics.of(other, BF16)).shared_scalars


@pytest.mark.parametrize(("names", "count"), [("ab", 0), ("abc", 1), ("abcd", 1)])
def test_a_number_that_each_update_spreads_by_itself_is_stored_once(names: str, count: int) -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, ()))
    updates = {
        name: build.add(Mul(), w, build.add(Broadcast((5,), ()), x))
        for name in names
        for w in (build.add(Parameter(name, DType.F32, (5,), "param")),)
    }
    text = Program.of(build.graph({}, updates), F32, gpu()).exported()
    assert text.count(BARRIER) == count


@pytest.mark.parametrize(
    ("precision", "placement", "count"),
    [(BF16, gpu(), 7), (F32, gpu(), 7), (F32, OneDevice(named("xla:cpu")), 0)],
)
def test_barriers_are_those_of_a_training_on_one_gpu(
    precision: ComputePrecision, placement: OneDevice, count: int
) -> None:
    text = Program.of(layers(), precision, placement).exported()
    assert text.count(BARRIER) == count
    build = Builder()
    x = build.add(Input("x", DType.F32, (4, 4)))
    inference = build.graph({"y": build.add(MatMul(), x, x)})
    assert BARRIER not in Program.of(inference, precision, placement).exported()


@pytest.mark.parametrize("made", effort([layers, normed], [layers, images, normed, rates]))
def test_barriers_change_no_result(
    made: Callable[[], Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = made()
    monkeypatch.setattr(compile_module, "create_handles", lambda _: None)
    generator = np.random.default_rng(0)
    kept, fed = leaf_types(graph)
    values, feeds = (
        {
            name: generator.standard_normal(concrete_shape(of.shape), np.float32)
            for name, of in types.items()
        }
        for types in (kept, fed)
    )

    def losses(placement: OneDevice) -> list[Array]:
        with XlaSession(Program.of(graph, BF16, placement)) as session:
            session.load(values)
            return [np.asarray(session.step(feeds)["loss"]) for _ in range(3)]

    np.testing.assert_allclose(losses(gpu()), losses(OneDevice(named("xla:cpu"))), rtol=1e-5)
