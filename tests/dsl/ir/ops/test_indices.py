"""Every op that takes whole numbers says whether they are indices, and those are checked."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

import pytest

from meganeura_dsl.ir.graph import Builder, Graph, Op, TypeRuleError, Value
from meganeura_dsl.ir.index_checks import checks_of, leaf_bounds, with_checks
from meganeura_dsl.ir.ops import Add, Input
from meganeura_dsl.ir.ops.fused import Fused
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Facts, Unproved
from tests.dsl.ir.ops.fused.test_fused import CASES
from tests.samples import SAMPLES

INDICES: Mapping[str, slice] = {
    "CrossEntropy": slice(1, 2),
    "CrossEntropyGradient": slice(1, 2),
    "DynamicSlice": slice(1, None),
    "DynamicUpdate": slice(2, None),
    "Gather": slice(1, 2),
    "ScatterAdd": slice(0, 1),
    "ScatterExtreme": slice(0, 1),
}
"""Ops with operands that pick something, and which operands those are."""

NUMBERS = {
    *("Abs", "Add", "ArgMax", "Broadcast", "Cast", "Compare", "Concat", "Cumulative"),
    "Dequantize",
    *("FloorDivide", "MaxPoolGradient", "MaxPoolSelect", "Maximum", "Minimum", "Mul", "Neg"),
    *("Pad", "RandomBits", "ReduceMax", "Remainder", "Reshape", "Reverse", "Slice", "Sort"),
    *("StopGradient", "Sub", "Sum", "Transpose", "Where"),
}
"""Ops that compute with whole numbers, or move them, whatever they are."""

APPLICATIONS: tuple[tuple[Op, tuple[TensorType, ...]], ...] = (
    *((sample.op, sample.types) for sample in SAMPLES if sample.types),
    *((case.op, tuple(case.types())) for case in CASES),
)


def _takes_whole_numbers(op: Op, types: tuple[TensorType, ...]) -> bool:
    """True if the type rule takes whole numbers for some of the operands."""
    places = range(len(types))
    chosen = [some for count in (1, 2, len(types)) for some in combinations(places, count)]
    return any(
        _is_taken(
            op, [replace(of, dtype=dtype) if at in some else of for at, of in enumerate(types)]
        )
        for some in chosen
        for dtype in (DType.I32, DType.U32)
    )


def _is_taken(op: Op, types: list[TensorType]) -> bool:
    try:
        op.result_types(Facts(), *types)
    except (TypeRuleError, Unproved):
        return False
    return True


def test_every_op_that_takes_whole_numbers_says_what_they_are() -> None:
    """A new op that picks something is written down here, and below it has to be checked."""
    taking = {type(op).__name__ for op, types in APPLICATIONS if _takes_whole_numbers(op, types)}
    assert taking == INDICES.keys() | NUMBERS
    assert not INDICES.keys() & NUMBERS


def _indices(op: Op, types: tuple[TensorType, ...]) -> set[int]:
    return {*range(len(types))[INDICES[type(op).__name__]]}


def _applied(op: Op, types: tuple[TensorType, ...], moved: int) -> Graph:
    """The op, in primitives, of inputs and of whole numbers that are computed of inputs."""
    build = Builder()

    def operand(place: int) -> Value:
        value = build.add(Input(f"x{place}", types[place].dtype, types[place].shape))
        if moved and place in _indices(op, types):
            return build.add(Add(), value, full(build, value.type, moved))
        return value

    operands = [operand(place) for place in range(len(types))]
    if not isinstance(op, Fused):
        return build.graph({"y": build.add(op, *operands)})
    value = op.expand(build, operands)
    assert isinstance(value, Value)
    return build.graph({"y": value})


def _picking() -> Iterator[tuple[Op, tuple[TensorType, ...]]]:
    for op, types in APPLICATIONS:
        if type(op).__name__ in INDICES:
            yield op, types


@pytest.mark.parametrize(("op", "types"), [*_picking()], ids=str)
def test_indices_are_checked_where_they_come_from_and_where_they_are_computed(
    op: Op, types: tuple[TensorType, ...]
) -> None:
    places = {f"x{place}" for place in _indices(op, types)}
    assert leaf_bounds(_applied(op, types, 0)).keys() == places
    assert len(checks_of(with_checks(_applied(op, types, 1)))) == len(places)
    assert not checks_of(with_checks(_applied(op, types, 0)))
