"""Near misses: a rule whose condition fails does not fire."""

from collections.abc import Callable
from math import prod

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Cast,
    Compare,
    Concat,
    Cos,
    Div,
    Erf,
    Exp,
    Iota,
    Log,
    MatMul,
    Mul,
    Neg,
    Parameter,
    ReduceMax,
    Reshape,
    Reverse,
    Sin,
    Slice,
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


def _scaled_by_data(net: Net) -> Value:
    """A convolution whose channels a gate scales: its kernel would be made anew in each run."""
    return _stepped(Mul())(net)


def _stepped(op: Op) -> Make:
    def make(net: Net) -> Value:
        y = net.conv(net.x(1, 2, 3), net.w(2, 2, 1))
        return net.do(op, y, net.spread(net.x(2), y, 1))

    return make


def _scaled(op: Op, number: float, contraction: str, dtype: DType = DType.F32) -> Make:
    """Data times a number, or by it, times data or, if it is of single precision, a parameter."""

    def make(net: Net) -> Value:
        x = net.x(2, 4, 4, dtype=dtype)
        w = net.x(4, 4, 1)
        if dtype is DType.F16:
            w = net.do(Parameter("half", dtype, (4, 4, 1), "param"))
        y = net.do(op, x, net.full(number, x))
        if contraction == "product":
            return net.do(MatMul(), y, net.do(Reshape((4, 4)), w))
        return net.conv(y, w)

    return make


def _attention_to_one_matrix(net: Net) -> Value:
    """All heads look at the same values [3, 3], which no attention op takes."""
    scores = net.scores(net.x(2, 3, 3), net.x(2, 3, 3), 0.5)
    return net.do(MatMul(), net.softmax(scores, 2), net.x(3, 3))


def _attention_to_keys_of_one_matrix(net: Net) -> Value:
    scores = net.scores(net.x(2, 3, 3), net.x(3, 3), 0.5)
    return net.do(MatMul(), net.softmax(scores, 2), net.x(2, 3, 3))


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


def _kernels_of_other_places(net: Net) -> Value:
    """Every third place, and the places between: the sizes agree, as what is left over differs."""
    x = net.x(1, 2, 6)
    one = net.conv(x, net.w(2, 2, 3), 1, stride=3, dilation=2)
    return net.do(Add(), one, net.conv(x, net.w(2, 2, 1), stride=3, dilation=2))


def _kernels_across_each_other(net: Net) -> Value:
    x = net.x(1, 2, 4, 4)
    one = net.conv(x, net.w(2, 2, 3, 1), (1, 0))
    return net.do(Add(), one, net.conv(x, net.w(2, 2, 1, 3), (0, 1)))


def _kernels_of_odd_and_even_size(*kernel: int) -> Make:
    """Of as many places, as what is left over differs."""

    def make(net: Net) -> Value:
        x = net.x(1, 2, *(5 for _ in kernel))
        one, other = (net.w(2, 2, *each) for each in ((3,) * len(kernel), kernel))
        return net.do(Add(), net.conv(x, one, stride=2), net.conv(x, other, stride=2))

    return make


def _kernel_of_data_beside_one_of_parameters(net: Net) -> Value:
    x = net.x(1, 2, 4)
    one, other = (net.conv(x, w, 1) for w in (net.w(2, 2, 3), net.x(2, 2, 3)))
    return net.do(Add(), one, other)


def _kernel_of_data(*, scaled: bool) -> Make:
    """A kernel of data, or one that data scales, beside one of parameters."""

    def make(net: Net) -> Value:
        x, w = net.x(1, 2, 4), net.x(2, 2, 3)
        w = net.do(Mul(), w, net.w(2, 2, 3)) if scaled else w
        return net.do(Add(), net.batch_norm(net.conv(x, net.w(2, 2, 3), 1)), net.conv(x, w, 1))

    return make


def _kernels_of_other_rows(*padding: int) -> Make:
    """As above, along one axis of two."""

    def make(net: Net) -> Value:
        x = net.x(1, 2, 6, 6)
        one = net.conv(x, net.w(2, 2, 3, 3), padding, stride=3, dilation=2)
        return net.do(Add(), one, net.conv(x, net.w(2, 2, 1, 1), stride=3, dilation=2))

    return make


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


def _bias_along_rows(net: Net) -> Value:
    y = net.do(MatMul(), net.x(3, 3), net.x(3, 3))
    return net.do(Add(), y, net.spread(net.x(3), y, 0))


def _bias_along_space(net: Net) -> Value:
    y = net.conv(net.x(1, 3, 5), net.x(3, 3, 3))
    return net.do(Add(), y, net.spread(net.x(3), y, 2))


def _transposed_by_another(net: Net) -> Value:
    b = net.do(Transpose((1, 0, 2)), net.x(2, 2, 2))
    return net.do(MatMul(), net.x(2, 2, 2), b)


def _shared_right_operand(net: Net) -> Value:
    a = net.do(Transpose((0, 2, 1)), net.x(2, 3, 3))
    return net.do(MatMul(), a, net.x(3, 3))


def _products_with_one_matrix_transposed(net: Net) -> Value:
    return net.do(Transpose((0, 2, 1)), net.do(MatMul(), net.x(2, 3, 3), net.x(3, 3)))


def _rows_of_product(fault: str) -> Make:
    def make(net: Net) -> Value:
        a = net.x(3, 3, 3)
        b = net.x(3, 3, 3) if fault == "batch" else net.x(3, 3)
        y = net.do(MatMul(), a, b)
        stop = (3, 2, 2) if fault == "columns" else (3, 2, 3)
        return net.do(Slice((0, 0, 0), stop, (1, 2 if fault == "stride" else 1, 1)), y)

    return make


def _summed_over_kept_axes(net: Net) -> Value:
    return net.do(Sum((0,)), net.do(Broadcast((3, 2), (0,)), net.x(3)))


def _attention(fault: str) -> Make:
    def make(net: Net) -> Value:
        size, along = (2, (1, 2)) if fault == "oblong" else (3, (0, 2))
        q, k, v = (net.x(3, rows, 3) for rows in (3, size, size))
        scores = net.scores(q, k, 0.5)
        if fault == "fill":
            scores = net.causal(scores, fill=-1e9)
        if fault == "diagonal":
            scores = net.causal(scores, kind="ge")
        if fault == "window":
            scores = net.causal(scores, kind="difference", window=0)
        if fault in ("batches", "oblong"):
            square = (
                net.do(Broadcast((3, size), (axis,)), net.do(Iota(count)))
                for axis, count in ((1, size), (0, 3))
            )
            hidden = net.spread(net.do(Compare("gt"), *square), scores, *along)
            scores = net.do(Where(), hidden, net.full(-1e30, scores), scores)
        weights = net.softmax(scores, 1 if fault == "axis" else 2)
        return net.do(MatMul(transpose_right=fault == "values"), weights, v)

    return make


def _shared_heads(fault: str) -> Make:
    def make(net: Net) -> Value:
        q, k, v = net.x(4, 3, 3), net.x(2, 3, 3), net.x(2, 3, 3)
        if fault == "tiled":
            tiled = net.do(Broadcast((2, 2, 3, 3), (1, 2, 3)), k)
            k, v = net.do(Reshape((4, 3, 3)), tiled), net.repeated(v, 0, 2)
        else:
            k, v = net.x(4, 1, 3), net.x(4, 1, 3)
            k, v = (net.repeated(each, 1, 3) for each in (k, v))
        return net.do(MatMul(), net.softmax(net.scores(q, k, 0.5), 2), v)

    return make


def _shared_otherwise(k: tuple[int, ...], v: tuple[int, ...], *, masked: bool) -> Make:
    """Four heads of 3 keys and values of 3 numbers, made of copies along the axis before these."""

    def make(net: Net) -> Value:
        shape = (2, 4, 3, 3)[5 - len(k) :]
        kept = others((len(k) - 3,), len(k))
        q = net.x(*shape)
        keys, values = (
            net.do(Reshape(shape), net.do(Broadcast(each, kept), net.x(*(each[at] for at in kept))))
            for each in (k, v)
        )
        scores = net.scores(q, keys, 0.5)
        scores = net.do(Add(), scores, net.x(*shape)) if masked else scores
        return net.do(MatMul(), net.softmax(scores, len(shape) - 1), values)

    return make


def _with_another_axis(rank: int, *, of: str, masked: bool) -> Make:
    """Heads are repeated, and the copies, or what is made of them, have one axis more behind."""

    def make(net: Net) -> Value:
        whole = (1, 2, 4, 3, 3, 4)[4 - rank : 5 if of == "result" else 6]
        shape = (1, 2, 3, 3, 4)[4 - rank :] if of == "result" else (1, 32, 3, 3)[4 - rank :]
        kept = tuple(axis for axis in range(rank + 1) if axis != rank - 2)
        heads = tuple(whole[axis] for axis in kept)
        # The rule is looked for where a tensor has the rank of the copies that it asks for.
        keys, values = (
            net.do(Reshape(shape), net.do(Broadcast(whole, kept), net.do(Reshape(heads), x)))
            for x in (net.x(1, *heads), net.x(1, *heads))
        )
        scores = net.scores(net.x(*shape), keys, 0.5)
        scores = net.do(Add(), scores, net.x(*shape[:-1], shape[-2])) if masked else scores
        return net.do(MatMul(), net.softmax(scores, len(shape) - 1), values)

    return make


SHARED_OTHERWISE: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 2, 3, 3), (1, 4, 3, 3)),
    ((1, 4, 3, 3), (2, 2, 3, 3)),
    ((2, 2, 3, 3), (1, 2, 6, 3)),
    ((2, 2, 3, 3), (1, 2, 3, 6)),
    ((1, 2, 6, 3), (2, 2, 3, 3)),
    ((1, 2, 3, 6), (2, 2, 3, 3)),
    ((2, 2, 2, 3, 3), (2, 1, 4, 3, 3)),
    ((2, 2, 2, 3, 3), (1, 4, 2, 3, 3)),
    ((1, 4, 2, 3, 3), (2, 2, 2, 3, 3)),
    ((2, 2, 2, 3, 3), (2, 1, 2, 6, 3)),
    ((2, 2, 2, 3, 3), (2, 1, 2, 3, 6)),
    ((2, 1, 2, 6, 3), (2, 2, 2, 3, 3)),
    ((2, 1, 2, 3, 6), (2, 2, 2, 3, 3)),
)
"""Copies of keys and of values: not as many, of other heads, rows, columns or batches."""


def _rotated(fault: str) -> Make:
    def make(net: Net) -> Value:
        x, angle = net.x(2, 3, 4), net.x(3, 2)
        left, right = net.halves(x)
        if fault == "halves":
            left, right = right, left
        if fault == "another":
            right = net.halves(net.x(2, 3, 4))[1]
        if fault == "strided":
            left, right = (net.do(Slice((0, 0, i), (2, 3, 3 + i), (1, 1, 2)), x) for i in (0, 1))
        if fault == "thirds":
            x = net.x(2, 3, 6)
            left, right = net.halves(x, 2)[0], net.halves(x, 4)[1]
        y = net.rotated(x, left, right, angle)
        return net.do(Concat(2), *y.operands, left) if fault == "three parts" else y

    return make


def _rotated_by_an_angle_of_each_image(net: Net) -> Value:
    x, angle = net.x(3, 3, 4), net.x(3, 2)
    left, right = net.halves(x)
    c, s = (net.spread(net.do(op, angle), left, 0, 2) for op in (Cos(), Sin()))
    one = net.do(Sub(), net.do(Mul(), left, c), net.do(Mul(), right, s))
    return net.do(Concat(2), one, net.do(Add(), net.do(Mul(), right, c), net.do(Mul(), left, s)))


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


def _projections(fault: str) -> Make:
    def make(net: Net) -> Value:
        x = net.x(2, 3, 4)
        v = net.projected(net.x(2, 3, 4) if fault == "another" else x, 4)
        if fault == "layout":
            v = net.projected(x, 4, transposed=False)
        biased = fault.startswith("biased")
        if "data" in fault:
            v = net.do(MatMul(transpose_right=True), x, net.x(4, 4))
            v = net.do(Add(), v, net.spread(net.w(4), v, 2)) if biased else v
        if fault == "product":
            w = net.do(MatMul(), net.w(4, 4), net.w(4, 4))
            v = net.do(MatMul(transpose_right=True), x, w)
        q, k = (net.projected(x, 4, biased=biased) for _ in range(2))
        if fault == "a matrix for each":
            q, k, v = (net.do(MatMul(), x, net.w(2, 4, 4)) for _ in range(3))
        if fault == "nobody asks":
            return net.do(MatMul(), net.scores(q, k, 0.5), v)
        return net.do(MatMul(), net.softmax(net.scores(q, k, 0.5), 2), v)

    return make


def _summed(fault: str) -> Make:
    def make(net: Net) -> Value:
        one, two, three = (net.projected(net.x(2, 3), 3) for _ in range(3))
        if fault == "data":
            three = net.do(MatMul(transpose_right=True), net.x(2, 3), net.x(3, 3))
        if fault == "a matrix for each":
            one, two, three = (net.do(MatMul(), net.x(2, 2, 2), net.w(2, 2, 2)) for _ in range(3))
        if fault == "turned":
            three = net.do(
                MatMul(transpose_left=True, transpose_right=True), net.x(3, 2), net.w(3, 3)
            )
        if fault == "layout":
            two = net.projected(net.x(2, 3), 3, transposed=False)
        return net.do(Sub() if fault == "difference" else Add(), net.do(Add(), one, two), three)

    return make


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
    ("affine-scale", "infer", _scaled_by_data),
    ("affine-quotient", "infer", _stepped(Div())),
    ("affine-shift", "infer", _stepped(Add())),
    ("affine-centre", "infer", _stepped(Sub())),
    *(
        (f"{name}-into-{contraction}", "infer", _scaled(op, number, contraction, dtype))
        for contraction in ("convolution", "product")
        for name, op, number, dtype in (
            ("scale", Mul(), 3, DType.F32),
            ("quotient", Div(), 3, DType.F32),
            ("scale", Mul(), 3, DType.F16),
            ("quotient", Div(), 3, DType.F16),
        )
    ),
    *(
        ("convolution-without-bias", "infer", _kernel_of_data(scaled=scaled))
        for scaled in (False, True)
    ),
    (
        "fold-affine-into-convolution",
        "infer",
        lambda net: net.batch_norm(net.conv(net.x(1, 2, 4), net.x(2, 2, 3))),
    ),
    ("convolutions-without-bias", "infer", _kernel_of_data_beside_one_of_parameters),
    ("attention", "train", _attention_to_one_matrix),
    ("attention", "train", _attention_to_keys_of_one_matrix),
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
    ("grow-kernel-1", "infer", _kernels_of_other_places),
    *(
        (f"grow-kernel-{len(kernel)}", "infer", _kernels_of_odd_and_even_size(*kernel))
        for kernel in ((2,), (2, 3), (3, 2))
    ),
    ("grow-kernel-2", "infer", _kernels_across_each_other),
    ("grow-kernel-2", "infer", _kernels_of_other_rows(1, 2)),
    ("grow-kernel-2", "infer", _kernels_of_other_rows(2, 1)),
    ("reverse-twice", "train", _reversed_along_two_axes),
    ("scaled-group-norm-3", "train", _group_norm_along_space),
    *(
        (f"{name}-{rank}", "train", _group_norm_regrouped(grouped, back, bias=name == "group-norm"))
        for name in ("scaled-group-norm", "group-norm")
        for rank in (3, 4)
        for grouped, back in REGROUPED
    ),
    ("matmul-bias", "train", _bias_along_rows),
    ("conv-bias", "train", _bias_along_space),
    ("matmul-right", "train", _transposed_by_another),
    ("matmul-left", "train", _shared_right_operand),
    ("matmul-transposed", "train", _products_with_one_matrix_transposed),
    *(
        ("matmul-rows", "train", _rows_of_product(fault))
        for fault in ("batch", "columns", "stride")
    ),
    ("sum-of-copies", "train", _summed_over_kept_axes),
    *(
        ("attention", "train", _attention(fault))
        for fault in ("fill", "diagonal", "window", "axis", "values", "batches", "oblong")
    ),
    *(("shared-heads-3", "train", _shared_heads(fault)) for fault in ("tiled", "rows")),
    *(
        (f"{prefix}shared-heads-{rank}", "train", _with_another_axis(rank, of=of, masked=masked))
        for masked, prefix in ((False, ""), (True, "masked-"))
        for rank in (3, 4)
        for of in ("result", "copies")
    ),
    *(
        (f"{prefix}shared-heads-{len(k) - 1}", "train", _shared_otherwise(k, v, masked=masked))
        for k, v in SHARED_OTHERWISE
        for masked, prefix in ((False, ""), (True, "masked-"))
    ),
    *(
        ("rotate", "train", _rotated(fault))
        for fault in ("halves", "another", "strided", "thirds", "three parts")
    ),
    ("rotate", "train", _rotated_by_an_angle_of_each_image),
    *((f"transpose-twice-{rank}", "train", _turned_twice(rank + 1)) for rank in (2, 3, 4)),
    *((f"spread-twice-{rank}", "train", _spread_twice(rank + 1)) for rank in (1, 2, 3)),
    *(
        ("sum-of-products", "train", _summed(fault))
        for fault in ("data", "turned", "layout", "difference", "a matrix for each")
    ),
    *(
        ("part-of-product", "infer", _projections(fault))
        for fault in (
            *("another", "layout", "data", "biased data", "product", "nobody asks"),
            "a matrix for each",
        )
    ),
    ("stop-gradient", "forward", lambda net: net.do(StopGradient(), net.x(2))),
    ("conv-bias", "forward", lambda net: net.batch_norm(net.conv(net.x(1, 2, 3), net.w(2, 2, 1)))),
)


@each_of(("rule", "mode", "make"), NEAR_MISSES)
def test_a_near_miss_is_left_alone(rule: str, mode: Mode, make: Make) -> None:
    net = Net()
    explored, _ = examine(net.graph(make(net)), mode)
    assert explored.matches[rule] == 0
