"""Lowering: the reference gives the same for a graph and for the steps it is lowered to."""

from collections.abc import Iterable

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph, Leaf, Op
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import (
    ArgMax,
    Conv,
    ConvWeightGradient,
    Cumulative,
    Exp,
    Input,
    LinearRecurrence,
    MatMul,
    Parameter,
    ReduceMax,
    ScatterAdd,
    Sort,
    Sum,
)
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.ops.lowered import LinkedReduction, SplitKPartial
from meganeura_runtime.backends.webgpu.passes.legalize import MOST_ITERATIONS, MOST_TERMS, legalize
from meganeura_runtime.backends.webgpu.passes.split_reduction import divisor_near, sum_of_parts
from tests.runtime.running import assert_close, assert_results, graph_of
from tests.samples import SAMPLES


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def lowered(op: Op, *operands: Array, style: Style = Style.SOFTWARE_VULKAN) -> Graph:
    """The graph of an op in steps, which mean the same."""
    graph, feeds = graph_of(op, *operands)
    steps = legalize(graph, Target(DeviceLimits(), style))
    assert_close(evaluate(steps, feeds).outputs["y"], evaluate(graph, feeds).outputs["y"])
    return steps


def ops(graph: Graph) -> list[type[Op]]:
    return [type(value.op) for value in graph.values]


def terms(graph: Graph) -> Iterable[int]:
    """Yields the number of terms of each reduction."""
    for value in graph.values:
        if isinstance(value.op, Sum | ReduceMax):
            shape = concrete_shape(value.operands[0].type.shape)
            yield int(np.prod([shape[axis] for axis in value.op.axes]))
        if isinstance(value.op, ArgMax):
            yield concrete_shape(value.operands[0].type.shape)[value.op.axis]


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((70_001,), (0,)), ((5, 3, 30_000), (0, 2)), ((300, 2, 7, 11), (0, 2, 3)), ((3, 1), (0, 1))],
)
def test_long_reductions_become_reductions_of_reductions(
    shape: tuple[int, ...], axes: tuple[int, ...], style: Style
) -> None:
    for op in (Sum(axes), ReduceMax(axes)):
        assert max(terms(lowered(op, numbers(*shape), style=style))) <= MOST_ITERATIONS


@pytest.mark.parametrize("size", [65_537, 40_000, 100_003])
def test_a_long_search_becomes_a_search_of_parts(size: int) -> None:
    steps = lowered(ArgMax(0), numbers(size))
    assert max(terms(steps)) <= MOST_ITERATIONS


def test_a_contraction_of_few_elements_is_summed_in_parts() -> None:
    assert SplitKPartial in ops(lowered(MatMul(), numbers(3, 70_000), numbers(70_000, 2)))
    assert SplitKPartial not in ops(lowered(MatMul(), numbers(300, 70), numbers(70, 200)))
    geometry = ((1, 1), (1, 1), (1, 1), 1)
    x, dy = numbers(8, 3, 32, 32), numbers(8, 4, 32, 32)
    assert SplitKPartial in ops(lowered(ConvWeightGradient(*geometry, (3, 3)), x, dy))
    assert SplitKPartial not in ops(lowered(Conv(*geometry), x, numbers(4, 3, 3, 3)))


@pytest.mark.parametrize(("axis", "shape"), [(0, (600, 5)), (1, (3, 600, 4))])
def test_many_rows_by_number_are_added_up_along_lists(axis: int, shape: tuple[int, ...]) -> None:
    ids = np.random.default_rng(0).integers(0, 250, 600).astype(np.int32)
    assert LinkedReduction in ops(lowered(ScatterAdd(axis, 300), ids, numbers(*shape)))
    equal = np.full((20, 30), 7, np.uint32)
    assert LinkedReduction in ops(lowered(ScatterAdd(0, 300), equal, numbers(20, 30, 5)))
    assert LinkedReduction not in ops(lowered(ScatterAdd(0, 3), ids % 3, numbers(600)))
    of_each = np.stack([ids, ids[::-1]])
    assert LinkedReduction not in ops(lowered(ScatterAdd(1, 300, 1), of_each, numbers(2, 600)))


def test_the_last_rows_by_number_are_added_up_with_the_first() -> None:
    """Of more ids than one loop looks at, also those that fill no whole loop."""
    count = MOST_ITERATIONS + 1
    ids = np.arange(count, dtype=np.int32) % 3
    lowered(ScatterAdd(0, 3), ids, np.full(count, 0.5, np.float32))
    lowered(ScatterAdd(1, 3), ids, numbers(2, count))
    lowered(ScatterAdd(1, 3, 1), np.stack([ids, ids[::-1]]), numbers(2, count))


@pytest.mark.parametrize(
    ("size", "wanted", "found"), [(12, 4, 4), (14, 4, 7), (13, 4, 4), (5, 1, 1)]
)
def test_parts_divide_an_axis_where_they_can(size: int, wanted: int, found: int) -> None:
    assert divisor_near(size, wanted) == found


@pytest.mark.parametrize("parts", [2, 8, 9])
def test_few_parts_are_added_up_by_whoever_reads_them(parts: int) -> None:
    """A few terms are additions, which join the kernel that follows; more are a reduction."""
    build = Builder()
    whole = build.add(Input("x", DType.F32, (parts, 3, 5)))
    graph = build.graph({"y": sum_of_parts(build, whole, MOST_TERMS)})
    assert (Sum in ops(graph)) == (parts > 8)
    x = numbers(parts, 3, 5)
    assert_close(evaluate(graph, {"x": x}).outputs["y"], x.sum(0))


LONG = (
    *(
        Cumulative(kind, 0, backward=backward)
        for kind in ("sum", "max")
        for backward in (False, True)
    ),
    *(LinearRecurrence(0, backward=backward) for backward in (False, True)),
    *(Sort(0, descending=descending) for descending in (False, True)),
)
SIZES = (1, 2, 3, 31, 33, 64, 65, 513)


@pytest.mark.parametrize("style", Style)
def test_every_sample_means_what_it_is_lowered_to(style: Style) -> None:
    """The reference semantics of ops that only lowered graphs contain."""
    for sample in SAMPLES:
        if not isinstance(sample.op, Leaf):
            graph, feeds = graph_of(sample.op, *sample.operands)
            steps = legalize(graph, Target(DeviceLimits(), style))
            assert_results(evaluate(steps, feeds), graph, feeds)


@pytest.mark.parametrize("op", LONG, ids=str)
def test_what_goes_along_an_axis_does_so_for_every_length(op: Op) -> None:
    for size in SIZES:
        rows = (0.9 * np.tanh(numbers(size, 3)), numbers(size, 3))
        operands = rows if isinstance(op, LinearRecurrence) else rows[1:]
        for style in Style:
            lowered(op, *operands, style=style)


def test_each_name_has_a_value_of_its_own_that_is_no_leaf() -> None:
    """So that no buffer is read as one and written as another."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    w, _ = (build.add(Parameter(name, DType.F32, (3,), "state")) for name in "wv")
    y = build.add(Exp(), x)
    graph = build.graph({"y": y, "again": y, "x": x, "w": w}, {"w": y, "v": w})
    found = legalize(graph, Target(DeviceLimits(), Style.GPU))
    roots = [*found.outputs.values(), *found.updates.values()]
    assert len({value.id for value in roots}) == 6
    assert not any(isinstance(value.op, Leaf) for value in roots)
    feeds = {name: numbers(3) + at for at, name in enumerate("xwv")}
    before, after = evaluate(graph, feeds), evaluate(found, feeds)
    for one, other in ((before.outputs, after.outputs), (before.updates, after.updates)):
        for name, array in one.items():
            np.testing.assert_array_equal(other[name], array)
