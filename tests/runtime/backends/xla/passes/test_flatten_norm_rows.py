"""Norms over flattened rows keep their meaning."""

from collections.abc import Callable

import pytest

from meganeura_dsl.ir.graph import Builder, Graph, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Input,
    Mul,
    Reshape,
    Sum,
)
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.xla.passes.flatten_norm_rows import flatten_norm_rows
from tests.runtime.backends.xla.rewriting import same_results


def norm(shape: tuple[int, ...], *rest: Callable[[Builder, Value], Value]) -> Graph:
    """A tensor times its sums of rows, and more of the same shape."""
    build = Builder()
    x = build.add(Input("x", DType.F32, shape))
    sums = build.add(Sum((len(shape) - 1,)), build.add(Mul(), x, x))
    y = build.add(Mul(), x, build.add(Broadcast(shape, tuple(range(len(shape) - 1))), sums))
    for each in rest:
        y = build.add(Add(), y, each(build, y))
    return build.graph({"y": y})


def spread(*axes: int) -> Callable[[Builder, Value], Value]:
    """An input with some of the axes, along all of them."""

    def made(build: Builder, like: Value) -> Value:
        shape = concrete_shape(like.type.shape)
        part = build.add(Input(f"part{axes}", DType.F32, tuple(shape[axis] for axis in axes)))
        return build.add(Broadcast(shape, axes), part)

    return made


@pytest.mark.parametrize("axes", [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
@pytest.mark.parametrize("shape", [(5, 5, 5), (2, 5, 8), (4, 3, 4)])
def test_joined_rows_hold_what_they_held(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Whatever is spread over them, where all axes are equally long too."""
    graph = norm(shape, spread(*axes))
    found = flatten_norm_rows(graph)
    assert any(isinstance(each.op, Reshape) for each in found.values)
    assert same_results(graph, found)


def test_rows_of_tiles_and_of_no_batch_stay() -> None:
    for shape in ((2, 8, 3), (2, 16, 5), (5, 3), (5,)):
        graph = norm(shape)
        assert flatten_norm_rows(graph) is graph
    graph = norm((2, 3, 5, 4), spread(3), spread(0, 1, 2), spread(2, 3))
    assert same_results(graph, flatten_norm_rows(graph))
    assert flatten_norm_rows(graph) is not graph


def scaled(build: Builder, x: Value) -> Value:
    """A tensor times its sums of rows, which are scaled like it."""
    last = x.type.rank - 1
    if last < 2:
        return x
    sums = scaled(build, build.add(Sum((last,)), build.add(Mul(), x, x)))
    return build.add(Mul(), x, build.add(Broadcast(x.type.shape, tuple(range(last))), sums))


@pytest.mark.parametrize("shape", [(3, 2, 5, 8), (2, 3, 5, 7, 4)])
def test_sums_of_joined_rows_that_have_sums_of_rows(shape: tuple[int, ...]) -> None:
    build = Builder()
    graph = build.graph({"y": scaled(build, build.add(Input("x", DType.F32, shape)))})
    found = flatten_norm_rows(graph)
    assert found is not graph
    assert same_results(graph, found)
