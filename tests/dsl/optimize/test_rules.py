"""Each rewrite, on random instances: it is found, and all it finds has one value.

The graphs are drawn with sizes down to 1 and with any of their values as further outputs, so that
a part of a pattern may be wanted elsewhere too.
"""

from collections.abc import Callable, Iterator
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meganeura_dsl.graph.core import Graph, Op, Value
from meganeura_dsl.ops import (
    Abs,
    Add,
    Broadcast,
    Cast,
    Compare,
    Concat,
    Cos,
    Div,
    Erf,
    Exp,
    Floor,
    Iota,
    Log,
    MatMul,
    Maximum,
    Minimum,
    Mul,
    Neg,
    Pad,
    Reshape,
    Reverse,
    Sin,
    Slice,
    Sqrt,
    StopGradient,
    Sub,
    Sum,
    Tanh,
    Transpose,
    Where,
)
from meganeura_dsl.optimize.rules.all import Mode, rewrites
from meganeura_dsl.shapes.tensor import DType
from tests.dsl.optimize.classes import examine
from tests.dsl.optimize.net import Net

Draw = st.DrawFn
Make = Callable[[Net, Draw], Value]


def sizes(draw: Draw, rank: int, most: int = 4) -> tuple[int, ...]:
    return tuple(draw(st.integers(1, most)) for _ in range(rank))


def shape(draw: Draw, least: int = 0) -> tuple[int, ...]:
    return sizes(draw, draw(st.integers(least, 3)))


def of_operands(count: int, make: Callable[..., Value]) -> Make:
    """A case of `count` tensors of one shape."""

    def case(net: Net, draw: Draw) -> Value:
        each = shape(draw)
        return make(net, *(net.x(*each) for _ in range(count)))

    return case


def _identities() -> Iterator[tuple[str, Make]]:
    yield "add-zero", of_operands(1, lambda net, x: net.do(Add(), net.full(0, x), x))
    yield "sub-zero", of_operands(1, lambda net, x: net.do(Sub(), x, net.full(0, x)))
    yield "zero-sub", of_operands(1, lambda net, x: net.do(Sub(), net.full(0, x), x))
    yield "mul-one", of_operands(1, lambda net, x: net.do(Mul(), x, net.full(1, x)))
    yield "div-one", of_operands(1, lambda net, x: net.do(Div(), x, net.full(1, x)))
    yield "mul-minus-one", of_operands(1, lambda net, x: net.do(Mul(), net.full(-1, x), x))
    yield "double-negation", of_operands(1, lambda net, x: net.negative(net.negative(x)))
    yield "neg-sub", of_operands(2, lambda net, a, b: net.negative(net.do(Sub(), a, b)))
    yield "add-neg", of_operands(2, lambda net, a, b: net.do(Add(), net.negative(a), b))
    yield "sub-neg", of_operands(2, lambda net, a, b: net.do(Sub(), a, net.negative(b)))
    yield "largest-of-one", of_operands(1, lambda net, x: net.do(Maximum(), x, x))
    yield "least-of-one", of_operands(1, lambda net, x: net.do(Minimum(), x, x))
    yield (
        "where-either",
        of_operands(2, lambda net, x, y: net.do(Where(), net.do(Compare("lt"), x, y), x, x)),
    )
    yield "cast-same", of_operands(1, lambda net, x: net.do(Cast(DType.F32), x))
    yield "stop-gradient", of_operands(1, lambda net, x: net.do(StopGradient(), x))


def _folded(op: Op) -> Make:
    def case(net: Net, draw: Draw) -> Value:
        x = net.x(*shape(draw, least=1))
        numbers = [net.full(draw(st.floats(0.5, 4, width=16)), x) for _ in range(2)]
        return net.do(Add(), x, net.do(op, *numbers[: 1 if isinstance(op, Neg) else 2]))

    return case


def _reductions() -> Iterator[tuple[str, Make]]:
    def summed(make: Callable[[Net, Value], Value]) -> Make:
        def case(net: Net, draw: Draw) -> Value:
            x = net.x(*shape(draw, least=1))
            axes = draw(st.sets(st.integers(0, x.type.rank - 1), min_size=1))
            return net.do(Sum(tuple(sorted(axes))), make(net, x))

        return case

    def sum_of_sum(net: Net, draw: Draw) -> Value:
        inner = net.do(Sum((draw(st.integers(0, 2)),)), net.x(*sizes(draw, 3)))
        return net.do(Sum((draw(st.integers(0, 1)),)), inner)

    def sum_of_copies(net: Net, draw: Draw) -> Value:
        kept = tuple(sorted(draw(st.sets(st.integers(0, 2), max_size=2))))
        whole = sizes(draw, 3)
        x = net.x(*(whole[axis] for axis in kept))
        new = tuple(axis for axis in range(3) if axis not in kept)
        return net.do(Sum(new), net.do(Broadcast(whole, kept), x))

    yield "sum-neg", summed(lambda net, x: net.negative(x))
    yield "sum-scaled", summed(lambda net, x: net.do(Mul(), net.full(3, x), x))
    yield "sum-divided", summed(lambda net, x: net.do(Div(), x, net.full(3, x)))
    yield "sum-of-sum", sum_of_sum
    yield "sum-of-copies", sum_of_copies


def _moves() -> Iterator[tuple[str, Make]]:
    def same(make: Callable[[tuple[int, ...]], Op]) -> Make:
        def case(net: Net, draw: Draw) -> Value:
            each = shape(draw, least=1)
            return net.do(make(each), net.x(*each))

        return case

    def reshape_twice(net: Net, draw: Draw) -> Value:
        a, b, c = sizes(draw, 3)
        return net.do(Reshape((c, b * a)), net.do(Reshape((a * b * c,)), net.x(a, b, c)))

    yield "reshape-same", same(Reshape)
    yield "spread-same", same(lambda each: Broadcast(each, tuple(range(len(each)))))
    yield "slice-same", same(lambda each: Slice((0,) * len(each), each, (1,) * len(each)))
    yield "pad-same", same(lambda each: Pad(*((0,) * len(each),) * 3))
    yield "sum-same", same(lambda _: Sum(()))
    yield "concat-one", same(lambda _: Concat(0))
    yield (
        "reverse-twice",
        of_operands(1, lambda net, x: net.do(Reverse(()), net.do(Reverse(()), x))),
    )
    yield "reshape-twice", reshape_twice
    for rank in range(1, 6):
        nothing = tuple(range(rank))
        yield f"transpose-nothing-{rank}", _transposed(rank, nothing)
        yield f"transpose-twice-{rank}", _transposed(rank, None, None)
    for rank in range(5):
        yield f"spread-twice-{rank}", _spread_twice(rank)


def _transposed(rank: int, *permutations: tuple[int, ...] | None) -> Make:
    def case(net: Net, draw: Draw) -> Value:
        x = net.x(*sizes(draw, rank, most=3))
        for each in permutations:
            x = net.do(Transpose(each or tuple(draw(st.permutations(range(rank))))), x)
        return x

    return case


def _spread_twice(rank: int) -> Make:
    def case(net: Net, draw: Draw) -> Value:
        x = net.x(*sizes(draw, rank, most=3))
        for _ in range(2):
            new = draw(st.integers(0, x.type.rank))
            spread = (*x.type.shape[:new], 2, *x.type.shape[new:])
            kept = tuple(axis for axis in range(len(spread)) if axis != new)
            x = net.do(Broadcast(spread, kept), x)
        return x

    return case


def _products() -> Iterator[tuple[str, Make]]:
    for rank, left, right in product((2, 3, 4), (False, True), (False, True)):
        flags = f"{rank}-{str(left).lower()}-{str(right).lower()}"
        for place in ("left", "right", "transposed"):
            yield f"matmul-{place}-{flags}", _product(rank, left, right, place)


def _product(rank: int, left: bool, right: bool, place: str) -> Make:  # noqa: FBT001
    def case(net: Net, draw: Draw) -> Value:
        batch = sizes(draw, rank - 2, most=2)
        rows, inner, columns = sizes(draw, 3)
        swap = Transpose((*range(rank - 2), rank - 1, rank - 2))
        a = net.x(*batch, *((inner, rows) if left != (place == "left") else (rows, inner)))
        b = net.x(*batch, *((columns, inner) if right != (place == "right") else (inner, columns)))
        a = net.do(swap, a) if place == "left" else a
        b = net.do(swap, b) if place == "right" else b
        y = net.do(MatMul(left, right), a, b)
        return net.do(swap, y) if place == "transposed" else y

    return case


def _copies() -> Iterator[tuple[str, Make]]:
    for unary in (Neg, Abs, Exp, Log, Sqrt, Sin, Cos, Tanh, Erf, Floor):
        yield f"copies-{unary.__name__}", _of_copies(unary(), 1)
    for binary in (Add, Sub, Mul, Div, Maximum, Minimum):
        yield f"copies-{binary.__name__}", _of_copies(binary(), 2)
    for op, place in product((Add(), Sub(), Mul(), Div()), ("first", "second")):
        yield f"copies-{type(op).__name__}-{place}", _of_copies(op, 1, place)


def _of_copies(op: Op, count: int, number: str = "") -> Make:
    def case(net: Net, draw: Draw) -> Value:
        kept = tuple(sorted(draw(st.sets(st.integers(0, 2), min_size=1, max_size=2))))
        whole = sizes(draw, 3)
        small = [net.x(*(whole[axis] for axis in kept), name="var") for _ in range(count)]
        copies = [net.do(Broadcast(whole, kept), each) for each in small]
        constant = [net.full(3, copies[0])] if number else []
        operands = (*constant, *copies) if number == "first" else (*copies, *constant)
        return net.do(op, *operands)

    return case


def _activations() -> Iterator[tuple[str, Make]]:
    def gelu(net: Net, x: Value) -> Value:
        return net.halved(x, net.do(Erf(), net.do(Mul(), x, net.full(2**-0.5, x))))

    def gelu_tanh(net: Net, x: Value) -> Value:
        cube = net.do(Mul(), x, net.do(Mul(), x, x))
        bent = net.do(Add(), x, net.do(Mul(), net.full(0.044715, x), cube))
        scaled = net.do(Mul(), net.full(0.7978845608028654, x), bent)
        return net.halved(x, net.do(Tanh(), scaled))

    def silu(net: Net, x: Value) -> Value:
        return net.do(Mul(), x, net.sigmoid(x))

    yield "relu", of_operands(1, lambda net, x: net.relu(x))
    yield "sigmoid", of_operands(1, lambda net, x: net.sigmoid(x))
    yield "silu", of_operands(1, silu)
    yield "gelu", of_operands(1, gelu)
    yield "gelu-tanh", of_operands(1, gelu_tanh)
    yield "swiglu", of_operands(2, lambda net, g, u: net.do(Mul(), u, silu(net, g)))


def _norms() -> Iterator[tuple[str, Make]]:
    def over_some(make: Callable[[Net, Value, tuple[int, ...], tuple[int, ...]], Value]) -> Make:
        def case(net: Net, draw: Draw) -> Value:
            axes = draw(st.sampled_from([(0,), (1,), (2,), (0, 2), (1, 2)]))
            kept = tuple(axis for axis in range(3) if axis not in axes)
            return make(net, net.x(*sizes(draw, 3)), axes, kept)

        return case

    def weight(net: Net, x: Value, kept: tuple[int, ...]) -> Value:
        return net.do(
            Reshape(tuple(x.type.shape[axis] for axis in kept)),
            net.x(*(size for axis in kept if isinstance(size := x.type.shape[axis], int))),
        )

    def variance(net: Net, x: Value, axes: tuple[int, ...], _: tuple[int, ...]) -> Value:
        centred = net.centred(x, *axes)
        return net.mean(net.do(Mul(), centred, centred), *axes)

    def standardized(net: Net, x: Value, axes: tuple[int, ...], _: tuple[int, ...]) -> Value:
        return net.standardized(x, *axes)

    def centreless(net: Net, x: Value, axes: tuple[int, ...], _: tuple[int, ...]) -> Value:
        return net.do(Div(), x, net.root(x, *axes))

    def scaled(net: Net, x: Value, axes: tuple[int, ...], kept: tuple[int, ...]) -> Value:
        along = axes if len(axes) == 1 else kept
        spread = net.spread(weight(net, x, along), x, *along)
        return net.do(Mul(), net.standardized(x, *axes), spread)

    def quotient(net: Net, x: Value, axes: tuple[int, ...], kept: tuple[int, ...]) -> Value:
        centred = net.centred(x, *axes)
        square = net.mean(net.do(Mul(), centred, centred), *axes)
        root = net.do(Sqrt(), net.do(Add(), square, net.full(1e-5, square)))
        scale = net.do(Div(), weight(net, x, kept), root)
        return net.do(Mul(), centred, net.spread(scale, x, *kept))

    def norm(net: Net, x: Value, axes: tuple[int, ...], kept: tuple[int, ...]) -> Value:
        along = axes if len(axes) == 1 else kept
        scale, shift = weight(net, x, along), weight(net, x, along)
        return net.affine(net.standardized(x, *axes), scale, shift, *along)

    def grouped(net: Net, draw: Draw) -> Value:
        groups = draw(st.integers(1, 3))
        x = net.x(draw(st.integers(1, 2)), 2 * groups, *sizes(draw, draw(st.integers(1, 2))))
        return net.group_standardized(x, groups)

    yield "sub-in-groups", grouped
    yield "div-in-groups", grouped
    yield "standardize", grouped
    yield "variance", over_some(variance)
    yield "standardize", over_some(standardized)
    yield "standardize-centreless", over_some(centreless)
    yield "scaled-norm", over_some(scaled)
    yield "scaled-norm-of-quotient", over_some(quotient)
    yield "norm", over_some(norm)


def _softmax() -> Iterator[tuple[str, Make]]:
    def softmax(net: Net, draw: Draw) -> Value:
        x = net.x(*shape(draw, least=1))
        return net.softmax(x, draw(st.integers(0, x.type.rank - 1)))

    def log_softmax(net: Net, draw: Draw) -> Value:
        x = net.x(*shape(draw, least=1))
        return net.log_softmax(x, draw(st.integers(0, x.type.rank - 1)))

    def cross_entropy(net: Net, draw: Draw) -> Value:
        logits = net.x(*shape(draw, least=1))
        last = logits.type.rank - 1
        *rows, classes = (size for size in logits.type.shape if isinstance(size, int))
        labels = net.over(net.x(*rows, dtype=DType.I32), logits, last)
        indices = net.spread(net.do(Iota(classes)), logits, last)
        picked = net.do(Compare("eq"), labels, indices)
        logs = net.log_softmax(logits, last)
        return net.do(Sum((last,)), net.do(Where(), picked, logs, net.full(0, logs)))

    yield "softmax", softmax
    yield "log-softmax", log_softmax
    yield "cross-entropy", cross_entropy


def _attention(net: Net, draw: Draw) -> Value:
    batch = sizes(draw, draw(st.integers(1, 2)), most=2)
    rows, columns, width, out = sizes(draw, 4)
    causal = draw(st.sampled_from(["", "gt", "difference"]))
    columns = rows if causal else columns
    q, k, v = (net.x(*batch, *each) for each in ((rows, width), (columns, width), (columns, out)))
    scores = net.scores(q, k, 0.7)
    weights = net.softmax(net.causal(scores, causal) if causal else scores, q.type.rank - 1)
    return net.do(MatMul(), weights, v)


def _epilogues() -> Iterator[tuple[str, Make]]:
    def matmul(net: Net, draw: Draw) -> Value:
        batch = sizes(draw, draw(st.integers(0, 2)), most=2)
        rows, inner, columns = sizes(draw, 3)
        y = net.do(MatMul(), net.x(*batch, rows, inner), net.x(inner, columns))
        return net.do(Add(), net.spread(net.x(columns), y, y.type.rank - 1), y)

    def conv(net: Net, draw: Draw) -> Value:
        rank = draw(st.integers(1, 2))
        groups, kernel = draw(st.integers(1, 2)), draw(st.integers(1, 3))
        batch, inputs, outputs = sizes(draw, 3, most=2)
        x = net.x(batch, inputs * groups, *(draw(st.integers(3, 5)) for _ in range(rank)))
        w = net.x(outputs * groups, inputs, *(kernel for _ in range(rank)))
        stride, padding = draw(st.integers(1, 2)), draw(st.integers(0, 1))
        y = net.conv(x, w, padding, stride, groups=groups)
        return net.do(Add(), y, net.spread(net.x(outputs * groups), y, 1))

    def with_residual(make: Make) -> Make:
        def case(net: Net, draw: Draw) -> Value:
            y = make(net, draw)
            return net.do(Add(), net.x(*(s for s in y.type.shape if isinstance(s, int))), y)

        return case

    def with_activation(make: Make) -> Make:
        def case(net: Net, draw: Draw) -> Value:
            y = make(net, draw)
            return net.relu(y) if draw(st.booleans()) else net.do(Mul(), y, net.sigmoid(y))

        return case

    for name, make in (("matmul", matmul), ("conv", conv)):
        yield f"{name}-bias", make
        yield f"{name}-residual", with_residual(make)
        yield f"{name}-activation", with_activation(make)
        yield f"{name}-residual-activation", with_activation(with_residual(make))


def _inference() -> Iterator[tuple[str, Make]]:
    def branches(net: Net, draw: Draw) -> Value:
        groups, width = draw(st.integers(1, 2)), draw(st.integers(1, 2))
        channels, rank = groups * width, draw(st.integers(1, 2))
        x = net.x(1, channels, *(draw(st.integers(1, 4)) for _ in range(rank)))
        kernels = draw(st.permutations([3, 1, 5, 0]))[: draw(st.integers(1, 3))]
        parts: list[Value] = []
        for kernel in kernels:
            part = x
            if kernel:
                w = net.w(channels, width, *(kernel for _ in range(rank)))
                part = net.conv(x, w, kernel // 2, groups=groups)
            parts.append(net.batch_norm(part) if draw(st.booleans()) or not kernel else part)
        if not any(kernels):
            parts.append(
                net.batch_norm(net.conv(x, net.w(channels, width, *(1,) * rank), 0, groups=groups))
            )
        total = parts[0]
        for part in parts[1:]:
            total = net.do(Add(), total, part)
        return net.batch_norm(total) if len(parts) == 1 else total

    def apart(net: Net, draw: Draw) -> Value:
        x = net.x(1, 2, 4)
        one, other = (net.conv(x, net.w(2, 2, kernel), kernel // 2) for kernel in (3, 1))
        parts = [net.do(Add(), net.batch_norm(one), net.x(1, 2, 4)), net.batch_norm(other)]
        return net.do(Add(), *draw(st.permutations(parts)))

    def scaled(op: Op, contraction: str) -> Make:
        def case(net: Net, draw: Draw) -> Value:
            if contraction == "product":
                rows, inner, columns = sizes(draw, 3)
                x = net.x(rows, inner)
                return net.do(MatMul(), net.do(op, x, net.full(16, x)), net.w(inner, columns))
            x = net.x(1, 2, draw(st.integers(1, 5)))
            return net.conv(net.do(op, x, net.full(16, x)), net.w(3, 2, 3), 1)

        return case

    yield "convolve-once", branches
    yield "reassociate-convolutions", apart
    for contraction in ("convolution", "product"):
        yield f"scale-into-{contraction}", scaled(Mul(), contraction)
        yield f"quotient-into-{contraction}", scaled(Div(), contraction)


def _cases() -> Iterator[tuple[str, Mode, Make]]:
    groups: tuple[tuple[Mode, Iterator[tuple[str, Make]]], ...] = (
        ("train", _identities()),
        ("forward", _reductions()),
        ("forward", _moves()),
        ("forward", _products()),
        ("forward", _copies()),
        ("forward", _activations()),
        ("forward", _norms()),
        ("forward", _softmax()),
        ("train", _epilogues()),
        ("infer", _inference()),
    )
    for mode, cases in groups:
        for name, make in cases:
            yield name, mode, make
    yield (
        "fold-scalar",
        "forward",
        lambda net, _: net.do(Mul(), net.full(2, net.x()), net.full(3, net.x())),
    )
    for op in (Add(), Sub(), Mul(), Div(), Neg()):
        yield "fold-tensor", "forward", _folded(op)
    yield "attention", "forward", _attention


ALL = tuple(_cases())


def with_more_outputs(net: Net, draw: Draw, y: Value) -> Graph:
    """The graph of y, some of its other values outputs too, and y perhaps used twice."""
    inner = [value for value in net.build.values if value.operands and value is not y]
    more = draw(st.lists(st.sampled_from(inner), max_size=2, unique=True)) if inner else []
    if draw(st.booleans()) and y.type.dtype.is_float:
        more.append(net.do(Exp(), net.do(Neg(), net.do(Abs(), y))))
    return net.graph(y, *more)


def test_every_rewrite_has_a_case() -> None:
    assert {name for name, _, _ in ALL} == set(rewrites())


@pytest.mark.parametrize(("name", "mode", "make"), ALL, ids=[name for name, _, _ in ALL])
def test_a_rewrite_is_found_and_true(name: str, mode: Mode, make: Make) -> None:
    @st.composite
    def graphs(draw: Draw) -> Graph:
        net = Net()
        return with_more_outputs(net, draw, make(net, draw))

    @settings(max_examples=3)
    @given(graphs())
    def holds(graph: Graph) -> None:
        explored, _ = examine(graph, mode)
        assert explored.matches[name] > 0

    holds()
