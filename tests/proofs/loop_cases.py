"""Loops whose pullbacks are proved, with the types of their operands."""

from collections.abc import Callable, Iterator, Sequence

from meganeura_dsl.ir.graph import Builder, Value
from meganeura_dsl.ir.ops import Add, Cast, Input, MatMul, Mul, Reshape, Scan, Tanh
from meganeura_dsl.ir.ops.primitive.loop_region import Carry, Collected, Region
from meganeura_dsl.ir.types import DType, TensorType

Iteration = Callable[[Builder, Value, Value, Value, Value], tuple[Value, Sequence[Value]]]
"""The next state and what is collected, of the state, the slice, a captured tensor, the place."""


def loops() -> Iterator[tuple[str, Scan, tuple[TensorType, ...]]]:
    """A recurrence that multiplies, one by matrices, one whose slices and iterations go back."""
    number, row, square = (_type(*shape) for shape in ((), (1, 2), (2, 2)))
    yield _loop("Scan", _products, (number, _type(3), number), backward=False)
    yield _loop("Scan backward", _products, (number, _type(3), number), backward=True)
    yield _loop("Scan of tanh", _hyperbolic, (number, _type(2), number), backward=False)
    yield _loop("Scan of matrices", _matrices, (row, _type(2, 1, 2), square), backward=False)


def _type(*shape: int) -> TensorType:
    return TensorType(DType.F32, shape)


def _products(
    build: Builder, h: Value, x: Value, w: Value, place: Value
) -> tuple[Value, Sequence[Value]]:
    """State h' = h x w + n x in iteration n; h h' is collected."""
    part = build.add(Mul(), build.add(Mul(), h, x), w)
    after = build.add(Add(), part, build.add(Mul(), build.add(Cast(DType.F32), place), x))
    return after, [build.add(Mul(), h, after)]


def _hyperbolic(
    build: Builder, h: Value, x: Value, w: Value, place: Value
) -> tuple[Value, Sequence[Value]]:
    """State h' = tanh(h w + x), which is collected."""
    after = build.add(Tanh(), build.add(Add(), build.add(Mul(), h, w), x))
    return after, [after]


def _matrices(
    build: Builder, h: Value, x: Value, w: Value, place: Value
) -> tuple[Value, Sequence[Value]]:
    """State h' = h w + x; its product with x is collected."""
    after = build.add(Add(), build.add(MatMul(), h, w), x)
    turned = build.add(Reshape((2, 1)), x)
    return after, [build.add(MatMul(), after, turned)]


def _loop(
    name: str, iteration: Iteration, types: tuple[TensorType, ...], *, backward: bool
) -> tuple[str, Scan, tuple[TensorType, ...]]:
    build = Builder()
    start, xs, weight = (
        build.add(Input(f"x{place}", each.dtype, each.shape)) for place, each in enumerate(types)
    )
    iterations = xs.type.shape[0]
    region = Region(build, iterations)
    h, x = region.leaf(start.type), region.slice(xs, 0, backward=backward)
    after, given = iteration(build, h, x, weight, region.iteration_index)
    collected = [Collected(each, 0) for each in given]
    chosen, operands = region.close([Carry(h, start, after)], collected, backward=backward)
    return name, Scan(*chosen), tuple(each.type for each in operands)
