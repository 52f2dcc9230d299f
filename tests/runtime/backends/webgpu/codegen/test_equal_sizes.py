"""Sums of rows, and all ways to read them and their terms, where every axis has one size.

A row is then as long as there are rows, and what is read at one index could be read at another.
"""

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Builder, Leaf, Value
from meganeura_dsl.ir.ops import (
    Broadcast,
    Input,
    MatMul,
    Mul,
    Parameter,
    ReduceMax,
    Reshape,
    Reverse,
    Slice,
    Sum,
    Transpose,
)
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.kernels.row_reduction_kernel import FEWEST_TERMS
from meganeura_runtime.backends.webgpu.config.limits import Style
from meganeura_runtime.backends.webgpu.device.device import Device
from tests.effort import effort
from tests.runtime.running import assert_as_reference

pytestmark = pytest.mark.adapter

SIZE = FEWEST_TERMS
SQUARE, CUBE = (SIZE,) * 2, (SIZE,) * 3


def of_rows(build: Builder, total: Value, terms: Value, cube: Value) -> Iterator[Value]:
    """Yields results of the sums [n], their terms [n, n] and others [n, n, n]."""
    for axis, along in product(range(3), range(3)):
        repeated = build.add(Broadcast(CUBE, (axis,)), total)
        yield build.add(Sum((along,)), build.add(Mul(), cube, repeated))
    for axis, along in product(range(2), range(2)):
        weighted = build.add(Mul(), terms, build.add(Broadcast(SQUARE, (axis,)), total))
        yield weighted
        yield build.add(ReduceMax((along,)), weighted)
    yield build.add(Mul(), total, build.add(Reverse((0,)), total))


def of_terms(build: Builder, total: Value, terms: Value, cube: Value) -> Iterator[Value]:
    """Yields results of their terms [n, n]."""
    for axis, start in product(range(2), (0, 1, SIZE - 1)):
        starts = tuple(start if at == axis else 0 for at in range(2))
        stops = tuple(start + 1 if at == axis else SIZE for at in range(2))
        part = build.add(Slice(starts, stops, (1, 1)), terms)
        yield build.add(Mul(), build.add(Reshape((SIZE,)), part), total)
    turned = build.add(Transpose((1, 0)), terms)
    yield build.add(Mul(), terms, turned)
    yield build.add(MatMul(), terms, turned)
    for axis in range(2):
        yield build.add(Sum((axis,)), build.add(Mul(), terms, turned))
        yield build.add(Reverse((axis,)), terms)
    for axes in combinations(range(3), 2):
        yield build.add(Sum((1,)), build.add(Mul(), cube, build.add(Broadcast(CUBE, axes), terms)))


@pytest.mark.parametrize("axis", effort([1], [0, 1]))
@pytest.mark.parametrize("in_place", [False, True], ids=["an output", "in place"])
def test_rows_are_read_where_they_are_and_not_where_they_could_be(
    device: Device, axis: int, *, in_place: bool
) -> None:
    """Beside each reader the terms are an output, or the new value of the factor that it reads."""
    random = np.random.default_rng(axis)
    feeds = {
        name: random.normal(size=shape).astype("f4") for name, shape in (("p", SQUARE), ("z", CUBE))
    }
    build = Builder()
    factor = build.add(Parameter("p", DType.F32, SQUARE, "param"))
    cube = build.add(Input("z", DType.F32, CUBE))
    total = build.add(Sum((axis,)), factor)
    terms = build.add(Mul(), factor, build.add(Broadcast(SQUARE, (1 - axis,)), total))
    readers = [*of_terms(build, total, factor if in_place else terms, cube)]
    if not in_place:
        readers += of_rows(build, total, terms, cube)
    for reader in readers:
        outputs = {"reader": reader} if in_place else {"reader": reader, "terms": terms}
        graph = build.graph(outputs, {"p": terms} if in_place else {})
        used = {value.op.name for value in graph.values if isinstance(value.op, Leaf)}
        assert_as_reference(graph, {name: feeds[name] for name in used}, device, Style.GPU)
