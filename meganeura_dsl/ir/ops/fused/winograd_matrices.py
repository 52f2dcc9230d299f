"""The three matrices of Winograd's convolution of short rows.

Polynomials are multiplied by multiplying their values at some points and at infinity (A. Toom 1963,
S. Cook 1966), and the transpose of that algorithm is a convolution (S. Winograd 1980). So m outputs
of a kernel of three taps take a = m + 2 products instead of 3 m:

    y = output (kernel g * input x),   output [m, a], kernel [a, 3], input [a, a]

A. Lavin and S. Gray, "Fast algorithms for convolutional neural networks", 2015, apply it along both
axes of an image.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np

from meganeura_dsl.ir.graph import Array

TAPS = 3
"""Taps of the kernel along each axis."""

POINTS: Mapping[int, tuple[float, ...]] = {
    2: (0.0, 1.0, -1.0),
    4: (0.0, 0.75, -0.75, 1.5, -1.5),
}
"""The finite points for each number of outputs.

Four outputs are four times as exact with these as with 0, 1, -1, 2 and -2: no power of them is far
from one, and they are exact in binary.
"""


@dataclass(frozen=True, eq=False)
class Matrices:
    """The matrices that multiply rows of the input, of the kernel and of the products."""

    input: Array
    kernel: Array
    output: Array


@cache
def matrices(outputs: int) -> Matrices:
    """The matrices for so many outputs at once, in double precision."""
    points = POINTS[outputs]
    size = len(points) + 1
    data, kernel, output = (np.zeros((size, length)) for length in (size, TAPS, outputs))
    for row, point in enumerate(points):
        rest = [other for other in points if other != point]
        data[row, : size - 1] = _coefficients(rest)
        kernel[row] = point ** np.arange(TAPS) / prod(point - other for other in rest)
        output[row] = point ** np.arange(outputs)
    data[-1] = _coefficients(points)
    kernel[-1, -1] = output[-1, -1] = 1
    return Matrices(data, kernel, output.T)


def _coefficients(roots: tuple[float, ...] | list[float]) -> Array:
    """The polynomial of these roots, from its constant on."""
    found = np.ones(1)
    for root in roots:
        found = np.convolve(found, [-root, 1.0])
    return found
