"""Descriptions of kernels in a plan: a few words, their arithmetic and their traffic."""

import pytest

from meganeura_dsl.ir.graph import Builder, Op, Value
from meganeura_dsl.ir.ops import (
    Add,
    Compare,
    Conv,
    ConvInputGradient,
    ConvWeightGradient,
    Div,
    DynamicUpdate,
    Erf,
    Gather,
    Input,
    MatMul,
    MaxPool,
    Mul,
    Parameter,
    Sqrt,
    Sub,
    Sum,
    Where,
)
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast, full
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.ops.lowered import ChannelsLast, SplitKPartial
from meganeura_runtime.backends.webgpu.plan import Dispatch
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph

STRIDED = ((2, 2), (1, 1), (1, 1), 1)


def dispatches(build: Builder, y: Value) -> tuple[Dispatch, ...]:
    return plan_graph(build.graph({"y": y}), DeviceLimits()).dispatches


def leaf(build: Builder, name: str, *shape: int) -> Value:
    return build.add(Input(name, DType.F32, shape))


CONTRACTIONS: list[tuple[Op, tuple[int, ...], tuple[int, ...], str, int]] = [
    (MatMul(), (30, 40), (40, 50), "matmul 30x50x40", 2 * 30 * 50 * 40),
    (MatMul(), (7, 3, 4), (7, 4, 5), "matmul 7x3x5x4", 2 * 7 * 3 * 5 * 4),
    (MatMul(), (2, 9000), (9000, 3), "matmul 2x3x9000 in 150 parts", 2 * 2 * 9000 * 3),
    (
        Conv(*STRIDED),
        (2, 3, 8, 8),
        (4, 3, 3, 3),
        "conv 3x3/2 3->4 @4x4",
        2 * 2 * 4 * 16 * 27,
    ),
    (
        Conv((1, 1), (1, 1), (1, 1), 2),
        (2, 6, 8, 8),
        (4, 3, 3, 3),
        "conv 3x3 6->4 in 2 groups @8x8",
        2 * 2 * 4 * 64 * 27,
    ),
    (
        ConvInputGradient(*STRIDED, (8, 8)),
        (4, 3, 3, 3),
        (2, 4, 4, 4),
        "conv to input 3x3/2 3->4 @4x4",
        2 * 2 * 4 * 16 * 27,
    ),
    (
        ConvWeightGradient(*STRIDED, (3, 3)),
        (2, 3, 8, 8),
        (2, 4, 4, 4),
        "conv to weight 3x3/2 3->4 @4x4",
        2 * 2 * 4 * 16 * 27,
    ),
]


@pytest.mark.parametrize(("op", "left", "right", "title", "flops"), CONTRACTIONS)
def test_a_contraction_tells_its_sizes_and_counts_two_for_a_product(
    op: Op, left: tuple[int, ...], right: tuple[int, ...], title: str, flops: int
) -> None:
    build = Builder()
    y = build.add(op, leaf(build, "a", *left), leaf(build, "b", *right))
    first = dispatches(build, y)[0]
    assert (first.name, first.flops) == (title, flops)
    assert title.startswith(first.kind)


@pytest.mark.parametrize(("op", "left", "right", "title", "flops"), CONTRACTIONS)
def test_a_contraction_counts_the_same_in_parts_and_with_channels_last(
    op: Op, left: tuple[int, ...], right: tuple[int, ...], title: str, flops: int
) -> None:
    build = Builder()
    operands = leaf(build, "a", *left), leaf(build, "b", *right)
    forms: list[Op] = [SplitKPartial(op, 3)]
    if title.startswith("conv"):
        forms.append(ChannelsLast(op))
    for form in forms:
        found = build.add(form, *operands)
        assert form.flops([each.type for each in operands], found.type) == flops


def test_what_replaces_a_part_moves_no_more_than_the_part() -> None:
    build = Builder()
    cache = build.add(Parameter("cache", DType.F32, (100, 8), "state"))
    starts = [build.add(Input(name, DType.I32, ())) for name in "ij"]
    update = build.add(DynamicUpdate(), cache, leaf(build, "x", 3, 8), *starts)
    (only,) = plan_graph(build.graph({}, {"cache": update}), DeviceLimits()).dispatches
    assert only.bytes == 2 * 3 * 8 * 4


def test_a_kernel_moves_each_tensor_once() -> None:
    build = Builder()
    x = leaf(build, "x", 10, 3)
    y = build.add(Sub(), build.add(Mul(), x, x), leaf(build, "z", 10, 3))
    (only,) = dispatches(build, y)
    assert (only.flops, only.bytes) == (60, 3 * 120)
    assert only.name == "map 10x3 + mul + sub"


def test_an_update_in_place_reads_and_writes() -> None:
    build = Builder()
    w, g = build.add(Parameter("w", DType.F32, (9,), "param")), leaf(build, "g", 9)
    graph = build.graph({}, {"w": build.add(Sub(), w, g)})
    (only,) = plan_graph(graph, DeviceLimits()).dispatches
    assert (only.name, only.flops, only.bytes) == ("update 9", 9, 3 * 36)


def test_a_look_up_reads_the_rows_it_takes() -> None:
    build = Builder()
    ids = build.add(Input("ids", DType.I32, (5,)))
    y = build.add(Gather(0), leaf(build, "table", 1000, 8), ids)
    (only,) = dispatches(build, y)
    assert only.bytes == 5 * 8 * 4 + 5 * 4 + 5 * 8 * 4


def test_formulas_are_known_by_what_tells_them() -> None:
    build = Builder()
    x = leaf(build, "x", 4, 64)
    bias = build.add(Parameter("b", DType.F32, (6,), "param"))
    product = build.add(MatMul(), x, leaf(build, "w", 64, 6))
    total = build.add(Add(), product, build.add(Broadcast((4, 6), (1,)), bias))
    zero = full(build, total.type, 0)
    relu = build.add(Where(), build.add(Compare("le"), total, zero), zero, total)
    assert dispatches(build, relu)[0].name == "matmul 4x6x64 + bias + relu"
    gelu = build.add(Mul(), total, build.add(Erf(), total))
    assert dispatches(build, gelu)[0].name == "matmul 4x6x64 + bias + gelu"
    squares = build.add(Sum((1,)), build.add(Mul(), x, x))
    size = build.add(Broadcast((4, 64), (0,)), build.add(Sqrt(), squares))
    assert [one.name for one in dispatches(build, build.add(Div(), x, size))] == ["sum 4x64 + norm"]


def test_pools_and_maps_have_titles_too() -> None:
    build = Builder()
    x = leaf(build, "x", 2, 3, 8, 8)
    y = build.add(MaxPool((3, 3), (2, 2), (1, 1)), x)
    assert [one.name for one in dispatches(build, y)] == ["max pool 3x3/2 @2x3x4x4"]
