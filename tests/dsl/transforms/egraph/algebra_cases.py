"""Random instances of the left sides of the algebraic rewrites, by the name of the rewrite."""

from collections.abc import Callable, Iterator
from itertools import product

from hypothesis import strategies as st

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Cast,
    Compare,
    Concat,
    Div,
    MatMul,
    Maximum,
    Minimum,
    Mul,
    Neg,
    Pad,
    Reshape,
    Reverse,
    Slice,
    StopGradient,
    Sub,
    Sum,
    Transpose,
    Where,
)
from meganeura_dsl.ir.ops.primitive import elementwise
from meganeura_dsl.ir.types import DType
from tests.dsl.transforms.egraph.net import Net

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


def identities() -> Iterator[tuple[str, Make]]:
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


def folded(op: Op) -> Make:
    def case(net: Net, draw: Draw) -> Value:
        x = net.x(*shape(draw, least=1))
        numbers = [net.full(draw(st.floats(0.5, 4, width=16)), x) for _ in range(2)]
        return net.do(Add(), x, net.do(op, *numbers[: 1 if isinstance(op, Neg) else 2]))

    return case


def reductions() -> Iterator[tuple[str, Make]]:
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
    yield "sum-divided", summed(lambda net, x: net.do(Div(), x, net.full(0.25, x)))
    yield "sum-of-sum", sum_of_sum
    yield "sum-of-copies", sum_of_copies


def moves() -> Iterator[tuple[str, Make]]:
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


def products() -> Iterator[tuple[str, Make]]:
    for rank, left, right in product((2, 3, 4), (False, True), (False, True)):
        for place in ("left", "right", "transposed"):
            yield f"matmul-{place}", _product(rank, left, right, place)
    for rank, right in product((2, 3, 4, 5), (False, True)):
        yield "matmul-rows", _rows_of_product(rank, right)


def _rows_of_product(rank: int, right: bool) -> Make:  # noqa: FBT001
    def case(net: Net, draw: Draw) -> Value:
        *rows, inner, columns = sizes(draw, rank + 1)
        b = net.x(*((columns, inner) if right else (inner, columns)))
        y = net.do(MatMul(transpose_right=right), net.x(*rows, inner), b)
        starts = [draw(st.integers(0, size - 1)) for size in rows]
        stops = [draw(st.integers(at + 1, size)) for at, size in zip(starts, rows, strict=True)]
        return net.do(Slice((*starts, 0), (*stops, columns), (1,) * rank), y)

    return case


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


def copies() -> Iterator[tuple[str, Make]]:
    for unary in elementwise.UNARY:
        if unary is not StopGradient:
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
