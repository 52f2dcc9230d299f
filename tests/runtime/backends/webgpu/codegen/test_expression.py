"""Expressions are made once each: equal ones are one, and others are not."""

from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Axis,
    BoundsCheck,
    Expression,
    variable,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import Expressions


def every(make: Expressions) -> list[Expression]:
    """Expressions that differ in one thing each from another of them."""
    i, j = variable(Axis("i", 8)), variable(Axis("j", 8))
    a, b = make.load(0, i, DType.F32), make.load(1, i, DType.F32)
    inside, beyond = BoundsCheck(i, 1, 5), BoundsCheck(i, 1, 6)
    return [
        a,
        b,
        make.load(0, j, DType.F32),
        make.load(0, i + 1, DType.F32),
        make.literal(0.0, DType.F32),
        make.literal(-0.0, DType.F32),
        make.literal(1, DType.I32),
        make.literal(1, DType.U32),
        make.literal(value=True, dtype=DType.BOOL),
        make.number(i, DType.I32),
        make.number(j, DType.I32),
        make.number(i, DType.U32),
        make.call("{0} + {1}", DType.F32, a, b),
        make.call("{0} + {1}", DType.F32, b, a),
        make.call("{0} - {1}", DType.F32, a, b),
        make.call("{0} + {1}", DType.F16, a, b),
        make.choice(inside, a, b),
        make.choice(beyond, a, b),
        make.choice(inside, b, b),
        make.choice(inside, a, a),
        make.register("r0", DType.F32),
        make.register("r1", DType.F32),
    ]


def test_equal_expressions_are_one_and_others_are_not() -> None:
    make = Expressions()
    found = every(make)
    assert len({expression.number for expression in found}) == len(found)
    assert all(map(lambda one, again: one is again, found, every(make)))


def test_a_choice_that_is_certain_is_none_unless_it_is_to_stay() -> None:
    i = variable(Axis("i", 8))
    always, never = BoundsCheck(i, 1, 8), BoundsCheck(i + 8, 1, 8)
    for make, certain in ((Expressions(), True), (Expressions(keep_choices=True), False)):
        a, b = make.load(0, i, DType.F32), make.load(1, i, DType.F32)
        assert (make.choice(always, a, b) is a) == certain
        assert (make.choice(never, a, b) is b) == certain
