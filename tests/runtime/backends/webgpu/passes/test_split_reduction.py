"""A reduction in parts is the whole one, whatever its axes, sizes and signs."""

from math import prod

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import Input, Sum
from meganeura_dsl.ir.ops.primitive.reduce import ReduceMax
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.passes.split_reduction import split_reduction, sum_of_parts

CASES = [
    ((97,), (0,), 16),
    ((5, 97), (1,), 20),
    ((97, 5), (0,), 20),
    ((7, 6, 5, 4), (0, 2), 8),
    ((7, 6, 5, 4), (1, 2, 3), 30),
    ((7, 6, 5, 4), (0, 1, 3), 24),
    ((3, 2, 53), (0, 2), 17),
    ((2, 3, 4), (0, 1, 2), 100),
    ((64, 64), (0, 1), 64),
]


@pytest.mark.parametrize("op", [Sum, ReduceMax])
@pytest.mark.parametrize(("shape", "axes", "most"), CASES, ids=str)
def test_parts_are_the_whole(
    op: type[Sum | ReduceMax], shape: tuple[int, ...], axes: tuple[int, ...], most: int
) -> None:
    build = Builder()
    x = build.add(Input("x", DType.I32, shape))
    y = split_reduction(build, op(axes), x, most)
    graph = build.graph({"y": y})
    for value in graph.values:
        if isinstance(value.op, Sum | ReduceMax):
            reduced = concrete_shape(value.operands[0].type.shape)
            assert prod(reduced[axis] for axis in value.op.axes) <= most
    drawn = np.random.default_rng(0).integers(-1000, -1, shape).astype(np.int32)
    found = evaluate(graph, {"x": drawn}).outputs["y"]
    whole = drawn.sum(axes) if op is Sum else drawn.max(axes)
    np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize(("length", "most"), [(97, 16), (53, 17), (20, 3), (7, 8), (101, 10)])
@pytest.mark.parametrize("op", [Sum, ReduceMax])
def test_no_element_is_left_out(op: type[Sum | ReduceMax], length: int, most: int) -> None:
    """Each row has one element above all others, in its own place."""
    build = Builder()
    x = build.add(Input("x", DType.I32, (length, length)))
    graph = build.graph({"y": split_reduction(build, op((1,)), x, most)})
    below = 0 if op is Sum else -9
    drawn = np.full((length, length), below, np.int32)
    np.fill_diagonal(drawn, 5)
    found = evaluate(graph, {"x": drawn}).outputs["y"]
    np.testing.assert_array_equal(found, np.full(length, 5))


@pytest.mark.parametrize("parts", [1, 2, 8, 9, 40])
def test_parts_of_a_sum_are_added_up(parts: int) -> None:
    build = Builder()
    x = build.add(Input("x", DType.I32, (parts, 3, 2)))
    graph = build.graph({"y": sum_of_parts(build, x, 16)})
    drawn = np.arange(parts * 6, dtype=np.int32).reshape(parts, 3, 2)
    np.testing.assert_array_equal(evaluate(graph, {"x": drawn}).outputs["y"], drawn.sum(0))
