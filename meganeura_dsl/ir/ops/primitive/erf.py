"""The error function, which NumPy lacks, to full double precision.

W. J. Cody, "Rational Chebyshev approximations for the error function", Mathematics of
Computation 23 (1969): erf on [0, 0.46875] and erfc on [0.46875, 4]. Where erfc is smaller, its
formula for numbers beyond 4 changes no bit of 1 - erfc.
"""

from collections.abc import Sequence
from math import pi, sqrt

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.startup.lazy_numpy import np

DERIVATIVE_AT_ZERO = 2 / sqrt(pi)
SATURATED = 6.0
"""The least number from which on the function is 1 in double precision."""
ELEMENTS_AT_ONCE = 1 << 15

# Coefficients from the highest power down.
NEAR_ABOVE = (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2,
              3.77485237685302021e2, 3.20937758913846947e3)  # fmt: skip
NEAR_BELOW = (1.0, 2.36012909523441209e1, 2.44024637934444173e2,
              1.28261652607737228e3, 2.84423683343917062e3)  # fmt: skip
MIDDLE_ABOVE = (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594,
                6.61191906371416295e1, 2.98635138197400131e2, 8.81952221241769090e2,
                1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3)  # fmt: skip
MIDDLE_BELOW = (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2,
                1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3,
                3.43936767414372164e3, 1.23033935480374942e3)  # fmt: skip


def erf(x: Array) -> Array:
    """The error function of every element, in the precision of `x`."""
    flat = x.reshape(-1)
    result = np.empty_like(flat)
    for start in range(0, flat.size, ELEMENTS_AT_ONCE):
        part = slice(start, start + ELEMENTS_AT_ONCE)
        result[part] = np.copysign(_erf(np.minimum(np.abs(flat[part]), SATURATED)), flat[part])
    return result.reshape(x.shape)


def _erf(x: Array) -> Array:
    """The error function of numbers in [0, SATURATED]."""
    return np.where(x <= 0.46875, _near(x), 1 - _middle(x))


def _near(x: Array) -> Array:
    square = x * x
    return x * _polynomial(NEAR_ABOVE, square) / _polynomial(NEAR_BELOW, square)


def _middle(x: Array) -> Array:
    ratio = _polynomial(MIDDLE_ABOVE, x) / _polynomial(MIDDLE_BELOW, x)
    return np.exp(-x * x) * ratio


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total *= x
        total += coefficient
    return total
