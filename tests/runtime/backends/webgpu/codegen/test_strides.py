"""Distances of neighbours in memory, which decide along which axis lanes lie."""

import pytest

from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Affine,
    Axis,
    BoundsCheck,
    Inside,
    Loaded,
    Quotient,
    Remainder,
    variable,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import Expressions
from meganeura_runtime.backends.webgpu.codegen.wgsl.strides import at, stride_along

LONG, SHORT, ONE, TWO = Axis("i", 100), Axis("j", 3), Axis("k", 1), Axis("l", 2)
ROW, COLUMN = variable(LONG), variable(SHORT)
LOADED = variable(Loaded(Expressions().load(0, Affine(0), DType.I32)))


def inside(position: Affine, step: int, size: int) -> Affine:
    return variable(Inside(BoundsCheck(position, step, size)))


@pytest.mark.parametrize(
    ("index", "axis", "stride"),
    [
        (ROW * 7 + COLUMN, LONG, 7),
        (ROW * 7 + COLUMN, SHORT, 1),
        (COLUMN - ROW * 7, LONG, 7),
        (ROW * 7, SHORT, 0),
        (ROW * 7, ONE, 0),
        (variable(ONE) * 7, ONE, 0),
        (variable(TWO) * 7, TWO, 7),
        (variable(Quotient(ROW, 50)) * 9, LONG, 0),
        (variable(Remainder(ROW, 50)) * 9, LONG, 9),
        (inside(ROW, 1, 100) * 5, LONG, 5),
        (LOADED * 5, LONG, 0),
    ],
)
def test_the_stride_is_that_of_most_points(index: Affine, axis: Axis, stride: int) -> None:
    assert stride_along(index, axis) == stride


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (ROW * 7 + COLUMN + 2, 7 * 10 + 1 + 2),
        (ROW + variable(ONE) * 1000, 10),
        (variable(Quotient(ROW + 3, 4)), 3),
        (variable(Remainder(ROW + 3, 4)), 1),
        (inside(ROW, 1, 11), 10),
        (inside(ROW, 1, 10), 0),
        (inside(ROW - 10, 1, 10), 0),
        (inside(ROW - 11, 1, 10), 0),
        (inside(ROW, 2, 6), 5),
        (inside(ROW, 2, 5), 0),
        (inside(ROW, 3, 6), 0),
        (LOADED + 4, 4),
    ],
)
def test_an_index_where_one_variable_is_given(index: Affine, value: int) -> None:
    """The others are 1, or 0 where they can be nothing else."""
    assert at(index, {"i": 10}) == value
