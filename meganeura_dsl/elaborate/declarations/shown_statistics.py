"""Statistics of the values that a program shows, as outputs of a training step."""

from collections.abc import Iterable

from meganeura_dsl.elaborate.scope.binding import NamedValue
from meganeura_dsl.elaborate.scope.named_values import chosen_values
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.ir.graph import Builder, Op
from meganeura_dsl.ir.ops import (
    Abs,
    Broadcast,
    Cast,
    Compare,
    Constant,
    Div,
    Maximum,
    Mul,
    Neg,
    ReduceMax,
    Sqrt,
    Sub,
    Sum,
    Where,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.outputs import Statistic
from meganeura_dsl.ir.types import DType

LARGEST = (2 - 2**-23) * 2.0**127
"""The largest float32."""


def shown_statistics(build: Builder, named: Iterable[NamedValue]) -> dict[Statistic, Tensor]:
    """The numbers of each value that is shown, in the order of the program.

    Mean, deviation and extremes are those of what is finite; beside them is the share that is not.
    """
    values = chosen_values(tuple(named), (), shown=True)
    return {
        Statistic(name, kind): each
        for name, value in values.items()
        for kind, each in _numbers(build, value).items()
    }


def _numbers(build: Builder, value: Tensor) -> dict[str, Tensor]:
    with build.at(value.origin):
        if value.type.dtype is not DType.F32:
            value = build.add(Cast(DType.F32), value)
        of = value.type
        zero, one = full(build, of, 0.0), full(build, of, 1.0)
        finite = build.add(
            Compare("le"), build.add(Abs(), value), full(build, of, LARGEST)
        )  # not a number is not below one
        counted = build.add(Where(), finite, one, zero)
        kept = build.add(Where(), finite, value, zero)
        count = _over_all(build, Sum, counted)
        some = build.add(Maximum(), count, build.add(Constant(1.0, DType.F32)))
        mean = build.add(Div(), _over_all(build, Sum, kept), some)
        apart = build.add(Sub(), kept, _spread(build, mean, value))
        squares = build.add(Where(), finite, build.add(Mul(), apart, apart), zero)
        variance = build.add(Div(), _over_all(build, Sum, squares), some)
        low = build.add(Where(), finite, build.add(Neg(), value), full(build, of, -LARGEST))
        high = build.add(Where(), finite, value, full(build, of, -LARGEST))
        share = build.add(Div(), count, _over_all(build, Sum, one))
        return {
            "mean": mean,
            "deviation": build.add(Sqrt(), variance),
            "from": build.add(Neg(), _over_all(build, ReduceMax, low)),
            "to": _over_all(build, ReduceMax, high),
            "not finite": build.add(Sub(), build.add(Constant(1.0, DType.F32)), share),
        }


def _over_all(build: Builder, fold: type[Sum] | type[ReduceMax], value: Tensor) -> Tensor:
    axes = tuple(range(value.type.rank))
    op: Op = fold(axes)
    return build.add(op, value) if axes else value


def _spread(build: Builder, number: Tensor, like: Tensor) -> Tensor:
    shape = like.type.shape
    return build.add(Broadcast(shape, ()), number) if shape else number
