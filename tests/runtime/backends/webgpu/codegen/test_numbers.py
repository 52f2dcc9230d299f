"""Precision of kernels' arithmetic, beyond the needs of training where that is cheap."""

from collections.abc import Callable
from math import erf

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Op
from meganeura_dsl.ir.ops import (
    ArgMax,
    Cast,
    Compare,
    Cos,
    Div,
    Erf,
    Exp,
    Expm1,
    Input,
    Log,
    Log1p,
    Logistic,
    Maximum,
    MaxPool,
    Minimum,
    Mul,
    RandomBits,
    ReduceMax,
    Sin,
    Sqrt,
    Sum,
    Tanh,
)
from meganeura_dsl.ir.ops.primitive.elementwise import Relation
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.errors import LimitError
from meganeura_runtime.backends.webgpu.config.limits import Style
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.runtime.running import assert_as_reference, graph_of, run
from tests.samples import dtype_of

pytestmark = pytest.mark.adapter

WIDE = np.linspace(-12, 12, 4001)
TINY = np.concatenate([-np.geomspace(1e-20, 1, 500), np.geomspace(1e-20, 1, 500)])
ANGLES = np.linspace(-3000, 3000, 4001)
POSITIVE = np.geomspace(1e-30, 1e30, 2001)

REFERENCE_ERF = np.vectorize(erf, otypes=[np.float64])


@pytest.mark.parametrize(
    ("op", "reference", "x", "relative", "absolute"),
    [
        (Tanh(), np.tanh, WIDE, 3e-7, 0),
        (Tanh(), np.tanh, TINY, 3e-7, 0),
        (Tanh(), np.tanh, np.array([1e30, -1e30, np.inf, -np.inf]), 0, 0),
        (Erf(), REFERENCE_ERF, WIDE, 3e-7, 0),
        (Erf(), REFERENCE_ERF, TINY, 3e-7, 0),
        (Sin(), np.sin, ANGLES, 0, 2e-7),
        (Sin(), np.sin, TINY, 3e-7, 0),
        (Cos(), np.cos, ANGLES, 0, 2e-7),
        (Exp(), np.exp, np.linspace(-80, 80, 4001), 1e-5, 0),
        (Exp(), np.exp, np.array([-np.inf, -200, 200, np.inf]), 0, 0),
        (Log(), np.log, POSITIVE, 1e-5, 2e-7),
        # 1 ulp is at most 1.2e-7.
        (Log1p(), np.log1p, TINY[TINY > -1], 3e-7, 0),
        (Log1p(), np.log1p, np.linspace(-0.6, 3, 4001), 6e-7, 0),
        (Log1p(), np.log1p, np.array([-1, np.inf, 0, 1e30]), 0, 0),
        (Logistic(), lambda x: 1 / (1 + np.exp(-x)), np.linspace(-87, 87, 4001), 1e-5, 0),
        (Expm1(), np.expm1, TINY, 6e-7, 0),
        (Expm1(), np.expm1, WIDE, 3e-6, 0),
        (Expm1(), np.expm1, np.array([-np.inf, -200, 200, np.inf]), 0, 0),
        (Sqrt(), np.sqrt, POSITIVE, 2e-7, 0),
    ],
)
def test_functions(
    op: Op,
    reference: Callable[[Array], Array],
    x: Array,
    relative: float,
    absolute: float,
    device: Device,
) -> None:
    graph, feeds = graph_of(op, x.astype(np.float32))
    actual = run(graph, feeds, device).outputs["y"].astype(np.float64)
    with np.errstate(over="ignore", divide="ignore"):
        expected = reference(feeds["x0"].astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(actual, expected, relative, absolute)


@pytest.mark.parametrize("dtype", [DType.I32, DType.U32])
def test_casts_saturate(dtype: DType, device: Device) -> None:
    x = np.array([3e9, 5e9, -3e9, 2.7, -2.7, 0.5, np.inf, -np.inf, np.nan], np.float32)
    assert_as_reference(*graph_of(Cast(dtype), x), device)


def test_large_integers_become_the_nearest_float(device: Device) -> None:
    x = np.array([0, 1, 16_777_217, 4_294_967_295, 4_000_000_001], np.uint32)
    assert_as_reference(*graph_of(Cast(DType.F32), x), device)
    y = np.array([-(1 << 31), -16_777_219, -1, (1 << 31) - 1], np.int32)
    assert_as_reference(*graph_of(Cast(DType.F32), y), device)


def test_halves_round_to_the_nearest(device: Device) -> None:
    x = np.geomspace(1e-7, 60_000, 3001).astype(np.float32)
    graph, feeds = graph_of(Cast(DType.F16), x)
    if not device.limits.half_floats:
        with pytest.raises(LimitError, match="shader-f16"):
            run(graph, feeds, device)
        return
    np.testing.assert_array_equal(run(graph, feeds, device).outputs["y"], x.astype(np.float16))


@pytest.mark.parametrize("source", [np.float32, np.float16, np.int32, np.uint32, np.bool_])
def test_every_type_becomes_every_other(source: type[np.generic], device: Device) -> None:
    x = np.array([0, 1, 2, 300, -1, -7], np.int32).astype(source)
    x = np.append(x, np.array([0.4, 2.6, -3.5], np.float32).astype(source))
    build = Builder()
    value = build.add(Input("x", dtype_of(x), x.shape))
    made = {str(dtype.value): build.add(Cast(dtype), value) for dtype in DType}
    graph = build.graph(made)
    if not device.limits.half_floats:
        with pytest.raises(LimitError, match="shader-f16"):
            run(graph, {"x": x}, device)
        return
    assert_as_reference(graph, {"x": x}, device)


@pytest.mark.parametrize("source", [np.float32, np.int32, np.uint32])
def test_a_half_that_stays_in_a_kernel_is_rounded(source: type[np.generic], device: Device) -> None:
    x = np.array([2047, 2048, 2049, 2051, 4098, 40_001, 65_519, 65_520, 70_000]).astype(source)
    build = Builder()
    half = build.add(Cast(DType.F16), build.add(Input("x", dtype_of(x), x.shape)))
    graph = build.graph({"y": build.add(Cast(DType.F32), half)})
    if not device.limits.half_floats:
        with pytest.raises(LimitError, match="shader-f16"):
            run(graph, {"x": x}, device)
        return
    assert len(plan_graph(graph, device.limits).dispatches) == 1
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(run(graph, {"x": x}, device).outputs["y"], expected)


@pytest.mark.parametrize("source", [np.float32, np.float16, np.int32, np.uint32])
def test_the_largest_of_numbers_that_are_all_small(
    source: type[np.generic], device: Device
) -> None:
    """Whatever a maximum begins with is less than each of them."""
    x = np.random.default_rng(0).integers(-90, -50, (3, 70)).astype(np.int32)
    x = (x + 90 if source is np.uint32 else x).astype(source)
    build = Builder()
    value = build.add(Input("x", dtype_of(x), x.shape))
    ops = {
        "rows": ReduceMax((1,)),
        "columns": ReduceMax((0,)),
        "first": ArgMax(1),
        "sum": Sum((1,)),
    }
    graph = build.graph({name: build.add(op, value) for name, op in ops.items()})
    for style in Style:
        if source is np.float16 and not device.limits.half_floats:
            with pytest.raises(LimitError, match="shader-f16"):
                run(graph, {"x": x}, device, style)
        else:
            assert_as_reference(graph, {"x": x}, device, style)


def test_halves_are_computed_with_in_single_precision(device: Device) -> None:
    build = Builder()
    x = build.add(Input("x", DType.F16, (256,)))
    graph = build.graph({"y": build.add(Sum((0,)), build.add(Mul(), x, x))})
    feeds = {"x": np.linspace(-3, 3, 256).astype(np.float16)}
    if not device.limits.half_floats:
        with pytest.raises(LimitError, match="shader-f16"):
            run(graph, feeds, device)
        return
    assert_as_reference(graph, feeds, device)


def test_a_division_by_zero_is_infinite(device: Device) -> None:
    a, b = np.array([1, -1, 0], np.float32), np.zeros(3, np.float32)
    graph, feeds = graph_of(Div(), a, b)
    quotients = run(graph, feeds, device).outputs["y"]
    assert quotients[0] == np.inf
    assert quotients[1] == -np.inf
    assert np.isnan(quotients[2])


def test_random_words_of_large_counters(device: Device) -> None:
    build = Builder()
    counter = build.add(Input("counter", DType.U32, (2,)))
    words = {f"w{n}": build.add(RandomBits(n, (129, 7)), counter) for n in (0, 4_294_967_295)}
    for numbers in ((0, 0), (1, 2), (4_294_967_295, 4_294_967_295)):
        feeds = {"counter": np.array(numbers, np.uint32)}
        assert_as_reference(build.graph(words), feeds, device)


@pytest.mark.parametrize("kind", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_with_nan(kind: Relation, device: Device) -> None:
    a = np.array([np.nan, 1, np.nan, np.inf, -0.0], np.float32)
    b = np.array([np.nan, np.nan, 1, np.inf, 0.0], np.float32)
    assert_as_reference(*graph_of(Compare(kind), a, b), device)
    assert_as_reference(*graph_of(Cast(DType.BOOL), a), device)


@pytest.mark.parametrize("op", [Maximum(), Minimum()])
def test_a_maximum_of_nan_is_nan(op: Op, device: Device) -> None:
    a = np.array([np.nan, 1, np.nan, np.inf, 2], np.float32)
    b = np.array([np.nan, np.nan, 1, -np.inf, 3], np.float32)
    assert_as_reference(*graph_of(op, a, b), device)
    assert_as_reference(*graph_of(ReduceMax((0,)), a), device)
    assert_as_reference(*graph_of(MaxPool((2,), (1,), (0,)), a.reshape(1, 1, 5)), device)
