"""A type rule refuses, or is right: of operands and attributes that are slightly wrong as well."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Leaf, Op, TypeRuleError
from meganeura_dsl.ir.interpreter import evaluation
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.ops.fused import Attention, Fused
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Facts, Unproved
from tests.dsl.ir.ops.fused.test_fused import CASES
from tests.folded import each_of
from tests.samples import SAMPLES, dtype_of


@dataclass(frozen=True)
class Application:
    """An op on operands it is made for."""

    name: str
    op: Op
    operands: tuple[Array, ...]

    def __str__(self) -> str:
        return self.name


def single(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype == np.float64 else array


APPLICATIONS = [
    *(Application(s.name, s.op, s.operands) for s in SAMPLES if not isinstance(s.op, Leaf)),
    *(Application(str(case), case.op, tuple(map(single, case.arrays()))) for case in CASES),
]


def others(operand: Array) -> Iterator[Array]:
    """Arrays that are nearly the operand: of other elements, sizes and ranks."""
    if operand.dtype != np.bool_:
        yield operand.astype(np.bool_)
    yield operand.astype(np.int32 if operand.dtype == np.float32 else np.float32)
    yield operand[None]
    for axis in range(operand.ndim):
        width = [(0, 1 if each == axis else 0) for each in range(operand.ndim)]
        yield np.pad(operand, width, mode="edge")
        yield np.take(operand, 0, axis)
        if operand.shape[axis] > 1:
            yield np.delete(operand, 0, axis)


def revised(op: Op) -> Iterator[Op]:
    """The op with one whole number among its attributes changed."""
    for field in fields(op):
        value: object = getattr(op, field.name)
        match value:
            case bool() | float() | str():
                continue
            case int():
                yield from (replace(op, **{field.name: value + by}) for by in (-value, -1, 1))
            case tuple():
                for place, each in enumerate(value):
                    if isinstance(each, int):
                        for by in (-each - 1, -1, 1):
                            changed = (*value[:place], each + by, *value[place + 1 :])
                            yield replace(op, **{field.name: changed})
                yield replace(op, **{field.name: (*value, 1)})
                yield replace(op, **{field.name: value[:-1]})
            case _:
                continue


def kind(dtype: DType) -> type[np.generic]:
    if dtype.is_float:
        return np.floating
    return np.bool_ if dtype is DType.BOOL else np.integer


def assert_refused_or_right(op: Op, operands: tuple[Array, ...]) -> None:
    types = [TensorType(dtype_of(each), each.shape) for each in operands]
    try:
        inferred = op.result_types(Facts(), *types)
    except (TypeRuleError, Unproved):
        return
    with np.errstate(all="ignore"):
        try:
            results = tuple(map(np.asarray, evaluation(op)(*operands)))
        except IndexError as error:
            if "outside" in str(error):  # an id, which no type rule sees
                return
            raise
    for result, expected in zip(results, inferred, strict=True):
        assert result.shape == expected.shape, f"{op} of {types}"
        assert np.issubdtype(result.dtype, kind(expected.dtype)), f"{op} of {types}"
    if isinstance(op, Fused):
        build = Builder()
        leaves = [build.add(Input(f"x{i}", of.dtype, of.shape)) for i, of in enumerate(types)]
        expanded = tuple(each.type for each in op.expand_all(build, leaves))
        assert expanded == inferred, f"{op} of {types}"


@each_of("whole", APPLICATIONS, ids=str)
def test_operands_that_do_not_fit_are_refused(whole: Application) -> None:
    for place, operand in enumerate(whole.operands):
        for other in others(operand):
            changed = (*whole.operands[:place], other, *whole.operands[place + 1 :])
            assert_refused_or_right(whole.op, changed)


def test_causal_attention_has_a_key_for_each_query() -> None:
    q, k = TensorType(DType.F32, (2, 3, 4)), TensorType(DType.F32, (2, 5, 4))
    Attention(1.0, causal=False).infer(Facts(), q, k, k)
    with pytest.raises(Unproved, match="key for each query"):
        Attention(1.0, causal=True).infer(Facts(), q, k, k)


@each_of("whole", APPLICATIONS, ids=str)
def test_whole_numbers_are_refused_or_give_whole_numbers(whole: Application) -> None:
    assert_refused_or_right(whole.op, tuple(each.astype(np.int32) for each in whole.operands))


@each_of("whole", APPLICATIONS, ids=str)
def test_attributes_that_do_not_fit_are_refused(whole: Application) -> None:
    for op in revised(whole.op):
        assert_refused_or_right(op, whole.operands)
