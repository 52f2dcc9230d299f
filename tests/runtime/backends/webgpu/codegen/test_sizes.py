"""Kernels at sizes that tiles, workgroups and loops do not like."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Op
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import (
    Add,
    ArgMax,
    Broadcast,
    Cast,
    Compare,
    Concat,
    Constant,
    Conv,
    ConvInputGradient,
    ConvWeightGradient,
    Cumulative,
    Gather,
    Input,
    LinearRecurrence,
    MatMul,
    MaxPool,
    MaxPoolGradient,
    ReduceMax,
    ScatterAdd,
    ScatterExtreme,
    Sort,
    Sum,
    Transpose,
)
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.config.limits import Style
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.effort import effort
from tests.runtime.running import assert_as_reference, graph_of, run

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.parametrize("style", effort([Style.GPU], Style)),
]


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("rows", "terms", "columns"),
    [
        (1, 1, 1),
        (3, 41, 127),
        (127, 3, 41),
        (129, 128, 1),
        (1, 127, 129),
        (41, 129, 8),
        (64, 64, 64),
    ],
)
def test_matrices(rows: int, terms: int, columns: int, style: Style, device: Device) -> None:
    graph, feeds = graph_of(MatMul(), numbers(rows, terms), numbers(terms, columns))
    assert_as_reference(graph, feeds, device, style)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_batches_of_transposed_matrices(
    *, left: bool, right: bool, style: Style, device: Device
) -> None:
    a = numbers(3, 41, 12) if left else numbers(3, 12, 41)
    b = numbers(3, 9, 41) if right else numbers(3, 41, 9)
    graph, feeds = graph_of(MatMul(left, right), a, b)
    assert_as_reference(graph, feeds, device, style)


@pytest.mark.parametrize(
    ("x", "w", "geometry"),
    [
        ((1, 3, 41, 41), (8, 3, 3, 3), ((1, 1), (1, 1), (1, 1), 1)),
        ((1, 16, 7, 7), (16, 1, 3, 3), ((2, 2), (1, 1), (1, 1), 16)),
        ((3, 8, 9, 17), (12, 2, 1, 1), ((2, 1), (0, 0), (1, 1), 4)),
        ((1, 1, 1, 129), (3, 1, 1, 5), ((1, 3), (0, 2), (1, 2), 1)),
        ((5, 2, 3, 3), (1, 2, 3, 3), ((1, 1), (0, 0), (1, 1), 1)),
        ((2, 4, 127), (4, 4, 3), ((2,), (1,), (1,), 1)),
        ((2, 2, 12, 12), (2, 2, 2, 2), ((3, 3), (1, 1), (1, 1), 1)),
    ],
)
def test_convolutions(
    x: tuple[int, ...],
    w: tuple[int, ...],
    geometry: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int],
    style: Style,
    device: Device,
) -> None:
    forward, feeds = graph_of(Conv(*geometry), numbers(*x), numbers(*w))
    assert_as_reference(forward, feeds, device, style)
    y = forward.outputs["y"].type.shape
    dy = numbers(*(int(str(size)) for size in y))
    to_x: Op = ConvInputGradient(*geometry, x[2:])
    assert_as_reference(*graph_of(to_x, numbers(*w), dy), device, style)
    to_w: Op = ConvWeightGradient(*geometry, w[2:])
    assert_as_reference(*graph_of(to_w, numbers(*x), dy), device, style)


@pytest.mark.parametrize("op", [Sum((0,)), ReduceMax((0,)), ArgMax(0)], ids=str)
@pytest.mark.parametrize("size", [65_537, 70_000, 131_072])
def test_more_terms_than_a_loop_may_have(op: Op, size: int, style: Style, device: Device) -> None:
    assert_as_reference(*graph_of(op, numbers(size)), device, style)


def test_many_short_and_few_long_reductions(style: Style, device: Device) -> None:
    for axes, shape in (((0, 2), (129, 3, 700)), ((1,), (3, 70_001)), ((0, 1), (2, 41, 41))):
        assert_as_reference(*graph_of(Sum(axes), numbers(*shape)), device, style)
        assert_as_reference(*graph_of(ReduceMax(axes), numbers(*shape)), device, style)


def test_a_long_sum_keeps_its_accuracy(style: Style, device: Device) -> None:
    ones = np.full(3_000_000, 0.1, np.float32)
    graph, feeds = graph_of(Sum((0,)), ones)
    assert_as_reference(graph, feeds, device, style)


def test_the_first_of_equal_maxima_far_apart(style: Style, device: Device) -> None:
    x = np.zeros((2, 70_000), np.float32)
    x[0, [30_000, 69_999]] = 1
    assert_as_reference(*graph_of(ArgMax(1), x), device, style)


def test_a_contraction_of_more_terms_than_a_loop_may_have(style: Style, device: Device) -> None:
    graph, feeds = graph_of(MatMul(), numbers(3, 262_147), numbers(262_147, 2))
    assert_as_reference(graph, feeds, device, style)


@pytest.mark.parametrize(("rows", "columns"), [(20, 3), (2, 17), (1, 40)])
def test_long_sums_for_few_rows_or_columns(
    rows: int, columns: int, style: Style, device: Device
) -> None:
    graph, feeds = graph_of(MatMul(), numbers(rows, 1500), numbers(1500, columns))
    assert_as_reference(graph, feeds, device, style)


def test_more_workgroups_than_one_dimension_holds(style: Style, device: Device) -> None:
    few = replace(device.limits, workgroups=5)
    x = numbers(41, 41)
    assert_as_reference(*graph_of(Transpose((1, 0)), x), device, style, few)
    assert_as_reference(*graph_of(MatMul(), x, x), device, style, few)
    assert_as_reference(*graph_of(ReduceMax((1,)), numbers(700, 3)), device, style, few)


def test_a_tensor_of_more_than_65535_workgroups(style: Style, device: Device) -> None:
    x = np.arange(65_536 * 64 + 3, dtype=np.float32)
    assert_as_reference(*graph_of(Add(), x, x), device, style)


def test_rows_by_number(style: Style, device: Device) -> None:
    ids = np.random.default_rng(0).integers(0, 129, (3, 41)).astype(np.int32)
    assert_as_reference(*graph_of(Gather(0), numbers(129, 7), ids), device, style)
    assert_as_reference(*graph_of(ScatterAdd(0, 129), ids, numbers(3, 41, 7)), device, style)
    assert_as_reference(*graph_of(ScatterAdd(1, 129), ids, numbers(7, 3, 41, 5)), device, style)


def test_many_rows_by_number(style: Style, device: Device) -> None:
    ids = np.random.default_rng(0).integers(-2, 300, 900).astype(np.int32)
    ids[[3, 700]] = 2_000_000_000
    graph, feeds = graph_of(ScatterAdd(0, 298), ids, numbers(900, 5))
    assert "linked reduction" in str(plan_graph(graph, device.limits, style))
    expected = np.zeros((298, 5))
    inside = (ids >= 0) & (ids < 298)
    np.add.at(expected, ids[inside], feeds["x1"][inside])
    actual = run(graph, feeds, device, style).outputs["y"]
    np.testing.assert_allclose(actual, expected, 1e-5, 1e-5)


def test_more_ids_than_a_loop_may_have(style: Style, device: Device) -> None:
    ids = np.random.default_rng(0).integers(0, 3, 70_001).astype(np.int32)
    assert_as_reference(*graph_of(ScatterAdd(0, 3), ids, numbers(70_001)), device, style)


@pytest.mark.parametrize("kind", ["max", "min"])
def test_the_extremes_of_many_rows_by_number(
    kind: Literal["max", "min"], style: Style, device: Device
) -> None:
    ids = np.random.default_rng(0).integers(0, 300, 900).astype(np.int32)
    graph, feeds = graph_of(ScatterExtreme(kind, 0, 301), ids, numbers(900, 5))
    assert "linked reduction" in str(plan_graph(graph, device.limits, style))
    assert_as_reference(graph, feeds, device, style)
    few = ids[:, None] * 0 + np.arange(3, dtype=np.int32)
    assert_as_reference(
        *graph_of(ScatterExtreme(kind, 1, 4, 1), few, numbers(900, 3)), device, style
    )


def test_ids_that_one_reduction_looks_at_and_another_reads_in_order(
    style: Style, device: Device
) -> None:
    """Four neighbours are read at once only if whatever reads them does so."""
    build = Builder()
    ids = build.add(Input("ids", DType.I32, (2048,)))
    updates = build.add(Broadcast((2048,), ()), build.add(Constant(1, DType.I32)))
    counts = build.add(ScatterAdd(0, 2048), ids, updates)
    spread = build.add(Broadcast((2048, 2048), (0,)), ids)
    same = build.add(Compare("eq"), spread, build.add(Broadcast((2048, 2048), (1,)), ids))
    equal = build.add(Sum((1,)), build.add(Cast(DType.I32), same))
    graph = build.graph({"counts": counts, "equal": equal})
    feeds = {"ids": np.random.default_rng(0).integers(0, 2048, 2048).astype(np.int32)}
    assert_as_reference(graph, feeds, device, style)


@pytest.mark.parametrize("size", [8, 9, 65, 4097])
def test_what_accumulates_along_axes_of_any_length(size: int, style: Style, device: Device) -> None:
    x, rows = np.cos(numbers(size)), np.cos(numbers(3, size)) / 2
    assert_as_reference(*graph_of(Cumulative("sum", 0), x), device, style)
    assert_as_reference(*graph_of(Cumulative("min", 0, backward=True), x), device, style)
    assert_as_reference(*graph_of(LinearRecurrence(1), rows, rows), device, style)


@pytest.mark.parametrize("size", [2, 3, effort(130, 1000)])
def test_axes_of_any_length_in_order(size: int, style: Style, device: Device) -> None:
    x = numbers(2, size, 3).round(1)
    x[0, 0], x[1, -1] = np.nan, -np.inf
    for descending in (False, True):
        assert_as_reference(*graph_of(Sort(1, descending), x), device, style)


def test_ids_outside_the_table_read_zero_and_add_nothing(style: Style, device: Device) -> None:
    ids = np.array([-1, 0, 3, 2_000_000_000], np.int32)
    graph, feeds = graph_of(Gather(0), np.ones((3, 2), np.float32), ids)
    rows = run(graph, feeds, device, style).outputs["y"]
    np.testing.assert_array_equal(rows, [[0, 0], [1, 1], [0, 0], [0, 0]])
    graph, feeds = graph_of(ScatterAdd(0, 3), ids, np.ones(4, np.float32))
    np.testing.assert_array_equal(run(graph, feeds, device, style).outputs["y"], [1, 0, 0])


def test_more_operands_than_a_kernel_can_be_bound_to(style: Style, device: Device) -> None:
    parts = [numbers(size, 3) for size in range(1, 42)]
    few = replace(device.limits, storage_buffers=8)
    assert_as_reference(*graph_of(Concat(0), *parts), device, style, few)


def test_windows_of_every_overlap(style: Style, device: Device) -> None:
    x = np.random.default_rng(0).integers(0, 3, (2, 3, 13, 9)).astype(np.float32)
    for window, stride, padding in (((3, 3), (2, 2), (1, 1)), ((2, 3), (3, 1), (0, 1))):
        forward, feeds = graph_of(MaxPool(window, stride, padding), x)
        assert_as_reference(forward, feeds, device, style)
        found = evaluate(forward, feeds).outputs
        indices, dy = found["y.1"], numbers(*found["y"].shape)
        gradient = MaxPoolGradient(window, stride, padding, x.shape[2:])
        assert_as_reference(*graph_of(gradient, indices, dy), device, style)
