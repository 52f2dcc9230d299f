"""Powers of tensors: products for small whole exponents, and exp(y log x) for all others."""

import math
from dataclasses import dataclass

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.tensor_values import broadcast, scalar
from meganeura_dsl.elaborate.values import ElabValue, Tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.ops.primitive.elementwise import Relation
from meganeura_dsl.ir.types import DType

LARGEST = 64
"""The largest exponent, of either sign, that is a chain of products."""

FINITE = 3.4e38
"""A number that few floats are above and infinity is."""


def number_of(value: ElabValue) -> float | None:
    """The number that a value is; None if it is a tensor or a symbol."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value


def is_exact(exponent: float) -> bool:
    """True if a power is a chain of products, a square root, or 1 over one of them."""
    return abs(exponent) == 0.5 or (exponent % 1 == 0 and abs(exponent) <= LARGEST)


def exact(frame: Frame, span: Span, base: Tensor, exponent: float) -> Tensor:
    """A power for which `is_exact` is true."""
    if abs(exponent) == 0.5:
        result = frame.add(span, ops.Sqrt(), base)
    elif exponent == 0:
        return scalar(frame, span, 1.0, base.type.dtype, base.type.shape)
    else:
        result = _repeated_square(frame, span, base, int(abs(exponent)))
    if exponent > 0:
        return result
    return frame.add(
        span, ops.Div(), scalar(frame, span, 1.0, base.type.dtype, base.type.shape), result
    )


def by_logarithm(
    frame: Frame,
    span: Span,
    pair: tuple[Tensor, Tensor],
    numbers: tuple[float | None, float | None],
) -> Tensor:
    """`x ** y` of two floats of one type and shape, and the numbers that they are where known.

    0 ** y is 0 for y > 0, where its slope is taken to be 0, and x ** 0 is 1. A negative x has a
    power for whole y alone; for others it is NaN. The relative error is about that of `exp` in
    y log x.
    """
    (x, y), (base, exponent) = pair, numbers
    make = _Elements(frame, span, x)
    if base is not None and base > 0:
        return make.op(ops.Exp(), make.op(ops.Mul(), y, make.number(math.log(base))))
    if exponent is not None:
        return _by_number(make, x, exponent)
    zero, half = make.number(0.0), make.op(ops.Mul(), y, make.number(0.5))
    is_negative = make.compare("lt", x, zero)
    is_whole, is_even = (make.compare("eq", each, make.op(ops.Floor(), each)) for each in (y, half))
    no, yes = (
        frame.add(span, ops.Constant(value=each, dtype=DType.BOOL)) for each in (False, True)
    )
    no, yes = (broadcast(frame, span, each, x.type.shape, ()) for each in (no, yes))
    is_finite = make.compare("le", x, make.number(FINITE))
    has_logarithm = make.where(make.compare("gt", x, zero), is_finite, no)
    is_one = make.where(has_logarithm, no, make.compare("eq", y, zero))
    is_zero = make.where(make.compare("eq", x, zero), make.compare("gt", y, zero), no)
    is_known = make.where(is_one, yes, is_zero)
    size = make.where(make.where(is_negative, is_whole, no), make.op(ops.Neg(), x), x)
    size = make.where(is_known, make.number(1.0), size)
    grown = make.op(ops.Exp(), make.op(ops.Mul(), y, make.op(ops.Log(), size)))
    value = make.where(is_known, make.where(is_one, make.number(1.0), zero), grown)
    turned = make.where(is_even, value, make.op(ops.Neg(), value))
    return make.where(is_negative, turned, value)


def _by_number(make: "_Elements", x: Tensor, exponent: float) -> Tensor:
    """A power by a number that is neither small and whole nor a half."""
    zero, is_whole = make.number(0.0), exponent % 1 == 0
    is_zero = make.compare("eq", x, zero)
    size = make.op(ops.Abs(), x) if is_whole else x
    if exponent > 0:
        size = make.where(is_zero, make.number(1.0), size)
    value = make.op(ops.Exp(), make.op(ops.Mul(), make.number(exponent), make.op(ops.Log(), size)))
    if exponent > 0:
        value = make.where(is_zero, zero, value)
    if exponent % 2 == 1:
        value = make.where(make.compare("lt", x, zero), make.op(ops.Neg(), value), value)
    return value


@dataclass(frozen=True)
class _Elements:
    """Makes values of the shape and the element type of a tensor."""

    frame: Frame
    span: Span
    like: Tensor

    def number(self, value: float) -> Tensor:
        """A number everywhere."""
        return scalar(self.frame, self.span, value, self.like.type.dtype, self.like.type.shape)

    def op(self, op: Op, *operands: Tensor) -> Tensor:
        """The value of an op."""
        return self.frame.add(self.span, op, *operands)

    def compare(self, how: Relation, left: Tensor, right: Tensor) -> Tensor:
        """A bool for each pair of elements."""
        return self.op(ops.Compare(how), left, right)

    def where(self, condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
        """One of two values for each element."""
        return self.op(ops.Where(), condition, yes, no)


def _repeated_square(frame: Frame, span: Span, base: Tensor, exponent: int) -> Tensor:
    result: Tensor | None = None
    while True:
        if exponent & 1:
            result = base if result is None else frame.add(span, ops.Mul(), result, base)
        exponent >>= 1
        if not exponent:
            assert result is not None
            return result
        base = frame.add(span, ops.Mul(), base, base)
