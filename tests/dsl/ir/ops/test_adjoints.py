"""Properties of every pullback beyond its numbers: linearity, and adjoint pairs that are exact."""

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meganeura_dsl.ir.graph import Array, Builder, Op
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops import (
    Broadcast,
    Concat,
    Gather,
    Input,
    Pad,
    Reshape,
    Reverse,
    ScatterAdd,
    Slice,
    Sum,
    Transpose,
)
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.transforms.autodiff import differentiate
from tests.folded import each_of
from tests.samples import SAMPLES, Sample, dtype_of

FLOATS = [
    sample
    for sample in SAMPLES
    if any(each.dtype.is_float for each in sample.types)
    and sample.op.result_types(Facts(), *sample.types)[0].dtype.is_float
]


def pulled_back(op: Op, operands: tuple[Array, ...], *cotangents: Array) -> list[list[Array]]:
    """The result and the cotangents of the float operands, for each cotangent of the result."""
    build = Builder()
    values = [
        build.add(Input(f"operand.{index}", dtype_of(each), each.shape))
        for index, each in enumerate(operands)
    ]
    out = build.add(op, *values)
    seed = build.add(Input("seed", out.type.dtype, out.type.shape))
    floats = [value for value in values if value.type.dtype.is_float]
    parts = (out, *differentiate(build, out, floats, seed))
    graph = build.graph({str(index): part for index, part in enumerate(parts)})
    feeds = {f"operand.{index}": each for index, each in enumerate(operands)}
    runs = (evaluate(graph, {**feeds, "seed": each}, Precision.DOUBLE) for each in cotangents)
    return [list(run.outputs.values()) for run in runs]


@each_of("sample", FLOATS, ids=lambda sample: sample.name)
def test_pullbacks_are_linear(sample: Sample) -> None:
    """On kinks and ties as well, where no finite difference can speak for them."""
    shape = tuple(
        int(str(size)) for size in sample.op.result_types(Facts(), *sample.types)[0].shape
    )
    generator = np.random.default_rng(0)
    a, b = np.asarray(generator.normal(size=shape)), np.asarray(generator.normal(size=shape))
    cotangents = (a, b, np.asarray(2 * a - 3 * b), np.zeros(shape))
    results = pulled_back(sample.op, sample.operands, *cotangents)
    for of_a, of_b, of_both, of_zero in zip(*(result[1:] for result in results), strict=True):
        np.testing.assert_allclose(of_both, 2 * of_a - 3 * of_b, rtol=1e-12, atol=1e-12)
        assert not np.any(of_zero)


def assert_adjoint(op: Op, *operands: Array) -> None:
    """<A x, y> == <x, A* y>, for the op A and the A* its pullback makes."""
    generator = np.random.default_rng(1)
    out = np.asarray(op.evaluate(*operands))
    cotangent = np.asarray(generator.normal(size=out.shape))
    ((result, *parts),) = pulled_back(op, operands, cotangent)
    floats = [each for each in operands if dtype_of(each).is_float]
    left = float(np.vdot(result, cotangent))
    right = sum(float(np.vdot(x, part)) for x, part in zip(floats, parts, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)


def numbers(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(prod(shape)).normal(size=shape).astype(np.float32)


shapes = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


@given(shapes, st.data())
def test_sum_and_broadcast(shape: tuple[int, ...], data: st.DataObject) -> None:
    axes = tuple(axis for axis in range(len(shape)) if data.draw(st.booleans()))
    kept = tuple(axis for axis in range(len(shape)) if axis not in axes)
    assert_adjoint(Sum(axes), numbers(shape))
    assert_adjoint(Broadcast(shape, kept), numbers(tuple(shape[axis] for axis in kept)))


@given(shapes, st.data())
def test_transpose_reverse_and_reshape(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = numbers(shape)
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    axes = tuple(axis for axis in range(len(shape)) if data.draw(st.booleans()))
    assert_adjoint(Transpose(order), x)
    assert_adjoint(Reverse(axes), x)
    assert_adjoint(Reshape((1, *shape[1:], shape[0])), x)


@given(shapes, st.data())
def test_slice(shape: tuple[int, ...], data: st.DataObject) -> None:
    start = tuple(data.draw(st.integers(0, size - 1)) for size in shape)
    stop = tuple(
        data.draw(st.integers(at + 1, size)) for at, size in zip(start, shape, strict=True)
    )
    step = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    assert_adjoint(Slice(start, stop, step), numbers(shape))


@given(shapes, st.data())
def test_pad(shape: tuple[int, ...], data: st.DataObject) -> None:
    low, high, interior = (tuple(data.draw(st.integers(0, 3)) for _ in shape) for _ in range(3))
    assert_adjoint(Pad(low, high, interior), numbers(shape))


@given(shapes, st.data())
def test_concat(shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    lengths = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    parts = [numbers((*shape[:axis], length, *shape[axis + 1 :])) for length in lengths]
    assert_adjoint(Concat(axis), *parts)


@given(shapes, shapes, st.data())
def test_gather_and_scatter(
    shape: tuple[int, ...], ids_shape: tuple[int, ...], data: st.DataObject
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    generator = np.random.default_rng(0)
    ids = generator.integers(0, shape[axis], ids_shape[:2]).astype(np.int32)
    around = shape[:axis], shape[axis + 1 :]
    assert_adjoint(Gather(axis), numbers(shape), ids)
    updates = numbers((*around[0], *ids.shape, *around[1]))
    assert_adjoint(ScatterAdd(axis, shape[axis]), ids, updates)
    added = ScatterAdd(axis, shape[axis]).evaluate(ids, updates)
    reference = naive_scatter(shape, axis, ids, updates)
    np.testing.assert_allclose(added, reference, rtol=1e-5, atol=1e-5)


def naive_scatter(shape: tuple[int, ...], axis: int, ids: Array, updates: Array) -> Array:
    total = np.zeros(shape, updates.dtype)
    moved = np.moveaxis(total, axis, 0)
    rows = updates.reshape(*shape[:axis], ids.size, *shape[axis + 1 :])
    for row, number in enumerate(ids.flat):
        moved[number] += np.take(rows, row, axis)
    return total
