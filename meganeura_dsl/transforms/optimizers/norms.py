"""Norms that neither overflow nor underflow where their elements do not.

The square of an f32 above 1.8e19 is infinite, and that of one below 1e-23 is 0: a norm by plain
squares is wrong for gradients that are finite themselves. As Blue (1978), large, ordinary and small
elements are squared and summed apart, the large and the small ones scaled by a power of two. All
three sums are of one tensor, so that its memory is read once.
"""

from collections.abc import Sequence
from functools import reduce

from meganeura_dsl.ir.graph import Builder, Value
from meganeura_dsl.ir.ops import Add, Compare, Div, Maximum, Minimum, Mul, Sqrt, Sum, Where
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType, TensorType

SCALAR = TensorType(DType.F32, ())

LARGE, SHRINK = 2.0**40, 2.0**-85
"""The least large magnitude, and the factor before it is squared."""
SMALL, STRETCH = 2.0**-60, 2.0**64
"""The largest small magnitude, and the factor before it is squared."""
LEAST = 2.0**-126
"""The smallest normal f32."""


def norm_of(build: Builder, tensors: Sequence[Value]) -> Value:
    """The square root of the sum of the squares of all elements of f32 tensors, a scalar.

    It is 0 of nothing, infinite or NaN only where an element is or the norm is no f32.
    """
    if not tensors:
        return full(build, SCALAR, 0.0)
    parts = zip(*(_sums(build, each) for each in tensors), strict=True)
    large, ordinary, small = (
        build.add(Sqrt(), reduce(lambda a, b: build.add(Add(), a, b), part)) for part in parts
    )
    large = build.add(Mul(), large, full(build, SCALAR, 1 / SHRINK))
    small = build.add(Mul(), small, full(build, SCALAR, 1 / STRETCH))
    return _hypotenuse(build, _hypotenuse(build, large, ordinary), small)


def _sums(build: Builder, x: Value) -> tuple[Value, Value, Value]:
    """The sums of the squares of large elements, scaled, of ordinary ones, and of small, scaled."""
    zero = full(build, x.type, 0.0)
    magnitude = build.add(Maximum(), x, build.add(Mul(), x, full(build, x.type, -1.0)))
    is_large = build.add(Compare("gt"), magnitude, full(build, x.type, LARGE))
    is_small = build.add(Compare("lt"), magnitude, full(build, x.type, SMALL))
    large = build.add(Mul(), x, full(build, x.type, SHRINK))
    small = build.add(Mul(), x, full(build, x.type, STRETCH))
    apart = (
        build.add(Where(), is_large, large, zero),
        build.add(Where(), is_large, zero, build.add(Where(), is_small, zero, x)),
        build.add(Where(), is_small, small, zero),
    )
    squares = (build.add(Mul(), each, each) for each in apart)
    axes = tuple(range(x.type.rank))
    a, b, c = (build.add(Sum(axes), each) if axes else each for each in squares)
    return a, b, c


def _hypotenuse(build: Builder, a: Value, b: Value) -> Value:
    """sqrt(a**2 + b**2) of two scalars of which neither is below 0; the larger may be infinite."""
    longer, shorter = build.add(Maximum(), a, b), build.add(Minimum(), a, b)
    divisor = build.add(Maximum(), longer, full(build, SCALAR, LEAST))
    ratio = build.add(Div(), shorter, divisor)
    square = build.add(Add(), full(build, SCALAR, 1.0), build.add(Mul(), ratio, ratio))
    return build.add(Mul(), longer, build.add(Sqrt(), square))
