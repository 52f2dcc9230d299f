"""Every op against its own facets: type rule, reference semantics and gradient agree."""

from typing import get_args

import numpy as np
import pytest

import meganeura_dsl.ir.ops
from meganeura_dsl.ir.graph import Array, Builder, Leaf, Op, Value
from meganeura_dsl.ir.interpreter import Precision, evaluate, storage_type
from meganeura_dsl.ir.ops import (
    OPS,
    ArgMax,
    Compare,
    Concat,
    Cumulative,
    Floor,
    Input,
    LinearRecurrence,
    ReduceMax,
    Round,
    Sort,
    StopGradient,
    Transpose,
)
from meganeura_dsl.ir.ops.primitive.cumulative import Accumulation
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.transforms.autodiff import differentiate
from tests.effort import effort
from tests.folded import each_of
from tests.gradients import assert_same, fed, numeric_gradient, weighted_loss
from tests.samples import SAMPLES, Sample

FLAT = (Floor, Round, StopGradient, Compare, ArgMax)
"""Ops whose gradient is zero everywhere: by definition, or because their slope is."""

COMPUTED = [sample for sample in SAMPLES if not isinstance(sample.op, Leaf)]


def _names(samples: list[Sample]) -> list[str]:
    return [sample.name for sample in samples]


def _subclasses(op: type[Op]) -> set[type[Op]]:
    below = set(op.__subclasses__())
    return below.union(*map(_subclasses, below))


def test_ops_are_complete() -> None:
    concrete = {
        op
        for op in _subclasses(Op)
        if op.__module__.rpartition(".")[0] == "meganeura_dsl.ir.ops.primitive"
        and not op.__subclasses__()
    }
    assert concrete == set(OPS)
    assert len(OPS) == len(set(OPS))
    assert {op.__name__ for op in OPS} <= set(meganeura_dsl.ir.ops.__all__)


def test_every_op_has_a_sample() -> None:
    assert {type(sample.op) for sample in SAMPLES} == set(OPS)
    assert len({sample.name for sample in SAMPLES}) == len(SAMPLES)


def _graph_of(sample: Sample) -> tuple[Builder, tuple[Value, ...], Value]:
    build = Builder()
    operands = tuple(
        build.add(Input(f"operand.{index}", each.dtype, each.shape))
        for index, each in enumerate(sample.types)
    )
    return build, operands, build.add(sample.op, *operands)


def _feeds(sample: Sample) -> dict[str, Array]:
    return {f"operand.{index}": operand for index, operand in enumerate(sample.operands)}


@each_of("sample", COMPUTED, ids=_names(COMPUTED))
def test_the_result_is_of_the_type_inferred(sample: Sample) -> None:
    inferred = sample.op.result_types(Facts(), *sample.types)
    build, _, out = _graph_of(sample)
    results = {str(each.index): each for each in build.results_of(out)}
    found = evaluate(build.graph(results), _feeds(sample)).outputs.values()
    for result, expected in zip(found, inferred, strict=True):
        assert result.shape == expected.shape
        assert result.dtype == storage_type(expected.dtype)


@each_of("sample", COMPUTED, ids=_names(COMPUTED))
def test_single_precision_is_near_double(sample: Sample) -> None:
    build, _, out = _graph_of(sample)
    graph = build.graph({"out": out})
    single = evaluate(graph, _feeds(sample)).outputs["out"]
    double = evaluate(graph, _feeds(sample), Precision.DOUBLE).outputs["out"]
    np.testing.assert_allclose(single, double, rtol=2e-6, atol=2e-5)


def _active(sample: Sample) -> tuple[int, ...]:
    """The operands that have a gradient."""
    return tuple(index for index, each in enumerate(sample.types) if each.dtype.is_float)


SMOOTH = [
    sample
    for sample in COMPUTED
    if sample.smooth
    and any(each.dtype.is_float for each in sample.types)
    and sample.op.result_types(Facts(), *sample.types)[0].dtype.is_float
]


@pytest.mark.parametrize("sample", SMOOTH, ids=_names(SMOOTH))
def test_the_gradient_is_the_slope(sample: Sample) -> None:
    build, operands, out = _graph_of(sample)
    active = _active(sample)
    loss = weighted_loss(build, [out])
    gradients = differentiate(build, loss, [operands[index] for index in active])
    graph = build.graph({f"operand.{i}": each for i, each in zip(active, gradients, strict=True)})
    feeds = fed(graph, _feeds(sample))
    slope = not isinstance(sample.op, FLAT)
    for name, gradient in evaluate(graph, feeds, Precision.DOUBLE).outputs.items():
        assert np.any(gradient) == slope
        if not isinstance(sample.op, StopGradient):
            assert_same(gradient, numeric_gradient(build.graph({"loss": loss}), feeds, name))


SHAPE = (2, 3, 4)
EACH_AXIS: dict[str, Op] = {
    **{f"sort-{axis}": Sort(axis) for axis in range(3)},
    **{f"sort-{axis}-descending": Sort(axis, descending=True) for axis in range(3)},
    **{
        f"{kind}-{axis}{'-back' * back}": Cumulative(kind, axis, back)
        for kind in get_args(Accumulation)
        for axis in range(3)
        for back in (False, True)
    },
    **{
        f"recurrence-{axis}{'-back' * back}": LinearRecurrence(axis, back)
        for axis in range(3)
        for back in (False, True)
    },
    **{f"turned-{axes}": Transpose(axes) for axes in ((1, 2, 0), (2, 0, 1))},
    **{f"largest-{axes}": ReduceMax(axes) for axes in ((0,), (1,), (2,), (0, 2), (1, 2))},
    **{f"concat-{axis}": Concat(axis) for axis in range(3)},
}
"""Ops along each axis of three of different sizes, in both directions."""


@pytest.mark.parametrize("name", EACH_AXIS)
def test_the_gradient_along_each_axis_is_the_slope(name: str) -> None:
    op = EACH_AXIS[name]
    build = Builder()
    count = {LinearRecurrence: 2, Concat: 3}.get(type(op), 1)
    operands = [build.add(Input(f"x{number}", DType.F32, SHAPE)) for number in range(count)]
    loss = weighted_loss(build, [build.add(op, *operands)])
    gradients = differentiate(build, loss, operands)
    graph = build.graph({f"x{number}": each for number, each in enumerate(gradients)})
    feeds = fed(graph, {})
    for leaf, gradient in evaluate(graph, feeds, Precision.DOUBLE).outputs.items():
        assert_same(gradient, numeric_gradient(build.graph({"loss": loss}), feeds, leaf))


CURVED = [sample for sample in SMOOTH if not isinstance(sample.op, FLAT)][:: effort(3, 1)]


@pytest.mark.parametrize("sample", CURVED, ids=_names(CURVED))
def test_the_gradient_has_a_gradient(sample: Sample) -> None:
    """A weighted sum of the gradients, by the operands and by the upstream weights."""
    build, operands, out = _graph_of(sample)
    active = [operands[index] for index in _active(sample)]
    first = differentiate(build, weighted_loss(build, [out], "upstream"), active)
    loss = weighted_loss(build, first)
    forward = build.graph({"loss": loss})
    wrt = {
        value.op.name: value
        for value in (*active, *forward.values)
        if isinstance(value.op, Input) and (value in active or value.op.name == "upstream.0")
    }
    second = differentiate(build, loss, tuple(wrt.values()))
    graph = build.graph(dict(zip(wrt, second, strict=True)))
    feeds = fed(graph, _feeds(sample))
    for name, gradient in evaluate(graph, feeds, Precision.DOUBLE).outputs.items():
        assert_same(gradient, numeric_gradient(forward, feeds, name), rtol=1e-5, atol=1e-5)
