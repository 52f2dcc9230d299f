"""Near misses: a rule whose condition fails does not fire.

Here of numbers, functions, sums and norms; those of attention, and of products and convolutions,
have their files.
"""

from collections.abc import Callable
from math import prod

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Cast,
    Compare,
    Concat,
    Div,
    Erf,
    Exp,
    Iota,
    Log,
    Mul,
    Neg,
    ReduceMax,
    Reshape,
    Reverse,
    StopGradient,
    Sub,
    Sum,
    Tanh,
    Transpose,
    Where,
)
from meganeura_dsl.ir.ops.primitive.broadcast import others
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode
from tests.dsl.transforms.egraph.classes import examine
from tests.dsl.transforms.egraph.net import Net
from tests.folded import each_of

Make = Callable[[Net], Value]


def _add_one(net: Net) -> Value:
    x = net.x(2)
    return net.do(Add(), x, net.full(1, x))


def _times_zero(net: Net) -> Value:
    x = net.x(2)
    return net.do(Mul(), x, net.full(0, x))


def _zero_sub_of_wholes(net: Net) -> Value:
    x = net.x(2, dtype=DType.U32)
    return net.do(Sub(), net.full(0, x), x)


def _folded(op: Op, dtype: DType, *numbers: float) -> Make:
    """Copies times a number that another op gives, beside what has another element type."""

    def make(net: Net) -> Value:
        copies = net.do(Broadcast((3, 2), (1,)), net.x(2, dtype=dtype))
        y = net.do(Mul(), copies, net.do(op, *(net.full(each, copies) for each in numbers)))
        return net.do(Cast(DType.F32), y)

    return make


def _minus_one_times_wholes(net: Net) -> Value:
    x = net.x(2, dtype=DType.I32)
    return net.do(Mul(), x, net.full(-1, x))


def _relu_of(dtype: DType) -> Make:
    return lambda net: net.relu(net.x(3, dtype=dtype))


def _sum_of_others(op: Op, number: float, dtype: DType) -> Make:
    def make(net: Net) -> Value:
        x = net.x(2, 3, dtype=dtype)
        return net.do(Sum((1,)), net.do(op, x, net.full(number, x)))

    return make


def _copies_of_wholes_summed(net: Net) -> Value:
    return net.do(Sum((0,)), net.do(Broadcast((3, 2), (1,)), net.x(2, dtype=DType.I32)))


def _relu(kind: str, level: float, other: str = "same") -> Make:
    def make(net: Net) -> Value:
        x, y = net.x(3), net.x(3)
        at, zero = net.full(level, x), net.full(0, x)
        condition = net.do(Compare("le" if kind == "le" else "lt"), x, at)
        return net.do(Where(), condition, zero, x if other == "same" else y)

    return make


def _raised(net: Net) -> Value:
    """where(x <= 0.5, 0.5, x), which is no relu."""
    x = net.x(3)
    least = net.full(0.5, x)
    return net.do(Where(), net.do(Compare("le"), x, least), least, x)


def _terms_times(number: float, *, divided: bool) -> Make:
    """A sum whose terms the number makes smaller, or nothing."""

    def make(net: Net) -> Value:
        x = net.x(2, 3)
        return net.do(Sum((1,)), net.do(Div() if divided else Mul(), x, net.full(number, x)))

    return make


def _tanh(net: Net) -> Value:
    return net.do(Tanh(), net.x(2))


def _softplus_of_another_side(net: Net) -> Value:
    return net.softplus(net.x(2), bound=0.5)


def _silu_of_two(net: Net) -> Value:
    return net.do(Mul(), net.x(2), net.sigmoid(net.x(2)))


def _gelu_of_another_scale(net: Net) -> Value:
    x = net.x(2)
    return net.halved(x, net.do(Erf(), net.do(Mul(), x, net.full(0.7, x))))


def _gelu_tanh_without_its_cube(net: Net) -> Value:
    x = net.x(2)
    bent = net.do(Add(), x, net.do(Mul(), net.full(0.044715, x), net.do(Mul(), x, x)))
    return net.halved(x, net.do(Tanh(), net.do(Mul(), net.full(0.7978845608028654, x), bent)))


def _softmax_summed_elsewhere(net: Net) -> Value:
    powers = net.do(Exp(), net.shifted(net.x(3, 3), 1))
    return net.do(Div(), powers, net.over(net.do(Sum((0,)), powers), powers, 0))


def _log_softmax_spread_elsewhere(net: Net) -> Value:
    shifted = net.shifted(net.x(3, 3), 1)
    level = net.do(Log(), net.do(Sum((1,)), net.do(Exp(), shifted)))
    return net.do(Sub(), shifted, net.over(level, shifted, 0))


def _softmax_shifted_by_what_is_spread_elsewhere(net: Net) -> Value:
    x = net.x(3, 3)
    powers = net.do(Exp(), net.do(Sub(), x, net.over(net.do(ReduceMax((1,)), x), x, 0)))
    return net.do(Div(), powers, net.over(net.do(Sum((1,)), powers), powers, 1))


def _log_softmax_summed_elsewhere(net: Net) -> Value:
    shifted = net.shifted(net.x(3, 3), 1)
    level = net.do(Log(), net.do(Sum((0,)), net.do(Exp(), shifted)))
    return net.do(Sub(), shifted, net.over(level, shifted, 0))


def _softmax_shifted_elsewhere(net: Net) -> Value:
    powers = net.do(Exp(), net.shifted(net.x(3, 3), 1, largest_over=0))
    return net.do(Div(), powers, net.over(net.do(Sum((1,)), powers), powers, 1))


def _softmax_spread_elsewhere(net: Net) -> Value:
    powers = net.do(Exp(), net.shifted(net.x(3, 3), 1))
    return net.do(Div(), powers, net.over(net.do(Sum((1,)), powers), powers, 0))


def _cross_entropy_of_columns(net: Net) -> Value:
    logits = net.x(3, 3)
    labels = net.over(net.x(3, dtype=DType.I32), logits, 0)
    picked = net.do(Compare("eq"), labels, net.spread(net.do(Iota(3)), logits, 0))
    logs = net.log_softmax(logits, 1)
    return net.do(Sum((1,)), net.do(Where(), picked, logs, net.full(0, logs)))


def _cross_entropy_of_labels_of_columns(net: Net) -> Value:
    """Each row is asked about all labels, that of a class being its own."""
    logits = net.x(3, 3)
    labels = net.spread(net.x(3, dtype=DType.I32), logits, 1)
    picked = net.do(Compare("eq"), labels, net.spread(net.do(Iota(3)), logits, 1))
    logs = net.log_softmax(logits, 1)
    return net.do(Sum((1,)), net.do(Where(), picked, logs, net.full(0, logs)))


def _soft_cross_entropy(logs: int, total: int) -> Make:
    def make(net: Net) -> Value:
        logits, labels = net.x(3, 3), net.x(3, 3)
        return net.do(Sum((total,)), net.do(Mul(), labels, net.log_softmax(logits, logs)))

    return make


def _mean_of_another_count(net: Net) -> Value:
    x = net.x(2, 3)
    centred = net.do(Sub(), x, net.over(net.mean(x, 1, count=2), x, 1))
    return net.do(Div(), centred, net.root(centred, 1))


def _deviation_of_another(net: Net) -> Value:
    x, y = net.x(2, 3), net.x(2, 3)
    return net.do(Div(), net.centred(x, 1), net.root(net.centred(y, 1), 1))


def _length_of_another(net: Net) -> Value:
    return net.do(Div(), net.x(2, 3), net.root(net.x(2, 3), 1))


def _norm_with_its_bias_along_rows(net: Net) -> Value:
    x = net.x(3, 3)
    scaled = net.do(Mul(), net.standardized(x, 1), net.spread(net.x(3), x, 1))
    return net.do(Add(), scaled, net.spread(net.x(3), x, 0))


def _norm_without_its_mean(net: Net) -> Value:
    x = net.x(3, 3)
    scaled = net.do(Mul(), net.do(Div(), x, net.root(x, 1)), net.spread(net.x(3), x, 1))
    return net.do(Add(), scaled, net.spread(net.x(3), x, 1))


def _reversed_along_two_axes(net: Net) -> Value:
    return net.do(Reverse((1,)), net.do(Reverse((0,)), net.x(2, 2)))


def _groups_of_another_size(net: Net) -> Value:
    return net.group_standardized(net.x(2, 4, 3), 2, split=4)


def _group_norm_along_space(net: Net) -> Value:
    x = net.x(2, 4, 4)
    return net.affine(net.group_standardized(x, 2), net.x(4), net.x(4), 2)


def _group_norm_regrouped(grouped: tuple[int, ...], back: tuple[int, ...], *, bias: bool) -> Make:
    """Standardized in groups, and reshaped to something else than was grouped."""

    def make(net: Net) -> Value:
        size = prod(grouped)
        x = net.x(size)
        for rank in (3, 4, 5):  # the ranks of tensors that a graph with such a norm has
            x = net.do(Reshape((size, *(1,) * (rank - 1))), x)
        x = net.do(Reshape(grouped), x)
        y = net.standardized(x, *range(2, len(grouped)))
        y = net.do(Mul(), y, net.spread(net.x(*grouped[1:3]), y, 1, 2)) if bias else y
        y = net.do(Reshape(back), y)
        return net.do(Add() if bias else Mul(), y, net.spread(net.x(back[1]), y, 1))

    return make


def _summed_over_kept_axes(net: Net) -> Value:
    return net.do(Sum((0,)), net.do(Broadcast((3, 2), (0,)), net.x(3)))


def _turned_twice(rank: int) -> Make:
    """Two transpositions of tensors of a rank, and one of tensors of a lower rank."""

    def make(net: Net) -> Value:
        x = net.x(*(2,) * rank)
        lower = net.do(_turn(rank - 1), net.do(Reshape((*(2,) * (rank - 2), 4)), x))
        y = net.do(_turn(rank), net.do(_turn(rank), x))
        return net.do(Concat(0), *(net.do(Reshape((2**rank,)), each) for each in (y, lower)))

    return make


def _spread_twice(rank: int) -> Make:
    """Copies of copies of tensors of a rank, beside tensors of a lower rank."""

    def make(net: Net) -> Value:
        x = net.do(Reshape((2,) * rank), net.x(*(2,) * (rank - 2), 4))
        for _ in range(2):
            shape = (2,) * (x.type.rank + 1)
            x = net.do(Broadcast(shape, others((0,), len(shape))), x)
        return x

    return make


def _turn(rank: int) -> Transpose:
    return Transpose((*range(1, rank), 0))


REGROUPED: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 2, 2, 4), (2, 2, 8)),
    ((2, 2, 2, 4), (2, 8, 2)),
    ((2, 2, 2, 4), (4, 2, 4)),
    ((2, 2, 2, 4), (2, 4, 2, 2)),
    ((2, 2, 2, 4), (2, 2, 2, 4)),
    ((2, 2, 2, 4), (2, 4, 4, 1)),
    ((2, 2, 2, 4), (2, 2, 4, 2)),
    ((2, 2, 2, 4, 2), (2, 8, 4)),
    ((2, 2, 2, 4, 2), (4, 2, 4, 2)),
    ((2, 2, 2, 4, 2), (2, 2, 8, 2)),
    ((2, 2, 2, 4, 2), (2, 2, 4, 2, 2)),
    ((2, 2, 2, 4, 2, 2), (2, 8, 4, 2)),
)


NEAR_MISSES: tuple[tuple[str, Mode, Make], ...] = (
    ("add-zero", "train", _add_one),
    ("mul-one", "train", _times_zero),
    ("zero-sub", "train", _zero_sub_of_wholes),
    ("mul-minus-one", "train", _minus_one_times_wholes),
    *(
        ("copies-Mul-second", "train", _folded(op, dtype, *numbers))
        for op, dtype, *numbers in (
            (Add(), DType.I32, 2, 3),
            (Sub(), DType.I32, 2, 3),
            (Mul(), DType.I32, 2, 3),
            (Neg(), DType.I32, 2),
            (Add(), DType.F16, 2048, 1),
            (Div(), DType.F16, 1, 3),
        )
    ),
    ("relu", "train", _relu_of(DType.I32)),
    ("relu", "train", _relu("lt", 0)),
    ("relu", "train", _relu("le", 1)),
    ("relu", "train", _relu("le", 0, "other")),
    ("relu", "train", _raised),
    ("sum-scaled", "train", _sum_of_others(Mul(), 3, DType.I32)),
    ("sum-scaled", "train", _sum_of_others(Mul(), 3, DType.F16)),
    ("sum-divided", "train", _sum_of_others(Div(), 0.5, DType.F16)),
    ("sum-of-copies", "train", _copies_of_wholes_summed),
    *(("sum-scaled", "train", _terms_times(number, divided=False)) for number in (0, 0.5, -0.5)),
    *(("sum-divided", "train", _terms_times(number, divided=True)) for number in (0, 2, -2)),
    ("sigmoid", "train", _tanh),
    ("softplus", "train", _softplus_of_another_side),
    ("silu", "train", _silu_of_two),
    ("gelu", "train", _gelu_of_another_scale),
    ("gelu-tanh", "train", _gelu_tanh_without_its_cube),
    ("softmax", "train", _softmax_summed_elsewhere),
    ("log-softmax", "train", _log_softmax_summed_elsewhere),
    ("log-softmax", "train", _log_softmax_spread_elsewhere),
    ("softmax", "train", _softmax_shifted_elsewhere),
    ("softmax", "train", _softmax_shifted_by_what_is_spread_elsewhere),
    ("softmax", "train", _softmax_spread_elsewhere),
    ("cross-entropy", "train", _cross_entropy_of_columns),
    ("cross-entropy", "train", _cross_entropy_of_labels_of_columns),
    ("soft-cross-entropy", "train", _soft_cross_entropy(0, 0)),
    ("soft-cross-entropy", "train", _soft_cross_entropy(1, 0)),
    ("standardize", "train", _mean_of_another_count),
    ("standardize", "train", _deviation_of_another),
    ("standardize", "train", _groups_of_another_size),
    ("standardize-centreless", "train", _length_of_another),
    ("norm", "train", _norm_with_its_bias_along_rows),
    ("norm", "train", _norm_without_its_mean),
    ("reverse-twice", "train", _reversed_along_two_axes),
    ("scaled-group-norm-3", "train", _group_norm_along_space),
    *(
        (f"{name}-{rank}", "train", _group_norm_regrouped(grouped, back, bias=name == "group-norm"))
        for name in ("scaled-group-norm", "group-norm")
        for rank in (3, 4)
        for grouped, back in REGROUPED
    ),
    ("sum-of-copies", "train", _summed_over_kept_axes),
    *((f"transpose-twice-{rank}", "train", _turned_twice(rank + 1)) for rank in (2, 3, 4)),
    *((f"spread-twice-{rank}", "train", _spread_twice(rank + 1)) for rank in (1, 2, 3)),
    ("stop-gradient", "forward", lambda net: net.do(StopGradient(), net.x(2))),
)


@each_of(("rule", "mode", "make"), NEAR_MISSES)
def test_a_near_miss_is_left_alone(rule: str, mode: Mode, make: Make) -> None:
    net = Net()
    explored, _ = examine(net.graph(make(net)), mode)
    assert explored.matches[rule] == 0
