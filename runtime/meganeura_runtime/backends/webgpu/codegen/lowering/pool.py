"""Max pooling: the largest of a window, where it is, and what is read or added there."""

from math import inf

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import MaxPool, MaxPoolGradient, MaxPoolSelect
from meganeura_dsl.ir.ops.primitive.pool import Pooling
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.lowering.reduction import Kind, Reduction, Term
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    BoundsCheck,
    Expression,
    Index,
    ravel,
    unravel,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import (
    ElementReader,
    guarded,
    integer,
)

READS: tuple[type[Op], ...] = (MaxPoolSelect,)
REDUCES: tuple[type[Op], ...] = (MaxPool, MaxPoolGradient)


def read(reading: ElementReader, value: Value, index: Index) -> Expression:
    """Returns the element at a window's index."""
    match value.op:
        case MaxPoolSelect() as op:
            indices, g = value.operands
            number = integer(reading.at(indices, index))
            guards = _taps(op, g, index, unravel(number, concrete_shape(op.window)))
            position = (*index[:2], *(guard.index for guard in guards))
            return guarded(reading.make, guards, reading.at(g, position))
        case op:
            raise TypeError(f"{op} selects nothing")


def _taps(op: Pooling, x: Value, index: Index, tap: Index) -> list[BoundsCheck]:
    """Returns the positions in x of a tap of the window at `index`."""
    spatial = concrete_shape(x.type.shape[2:])
    axes = zip(
        index[2:], tap, concrete_shape(op.stride), concrete_shape(op.padding), spatial, strict=True
    )
    return [
        BoundsCheck(at * stride + k - padding, 1, size) for at, k, stride, padding, size in axes
    ]


def reduction(value: Value) -> Reduction:
    """The terms of a window, or the windows that a place lies in."""
    match value.op:
        case MaxPool() as op:
            kind = (Kind.MAX, Kind.ARG_MAX)[value.index]
            return _largest(op, value.operands[0], kind)
        case MaxPoolGradient() as op:
            return _added(op, *value.operands)
        case op:
            raise TypeError(f"{op} has no windows")


def _loops(op: Pooling) -> tuple[tuple[int, ...], ...]:
    return tuple((size,) for size in concrete_shape(op.window))


def _largest(op: Pooling, x: Value, kind: Kind) -> Reduction:
    def term(reading: ElementReader, kept: Index, tap: Index) -> Term:
        guards = _taps(op, x, kept, tap)
        element = reading.at(x, (*kept[:2], *(guard.index for guard in guards)))
        for guard in guards:
            outside = reading.make.literal(-inf, x.type.dtype)
            element = reading.make.choice(guard, element, outside)
        return Term(element)

    return Reduction(kind, _loops(op), term)


def _added(op: MaxPoolGradient, indices: Value, dy: Value) -> Reduction:
    """A place p lies in windows o = (p + padding) / stride - j, for j < ceil(window / stride).

    It is their tap k = (p + padding) % stride + j stride: no tap is tried that never fits.
    """
    window, stride = concrete_shape(op.window), concrete_shape(op.stride)
    padding, windows = concrete_shape(op.padding), concrete_shape(dy.type.shape[2:])

    def term(reading: ElementReader, kept: Index, at: Index) -> Term:
        positions = [position + pad for position, pad in zip(kept[2:], padding, strict=True)]
        axes = list(zip(positions, at, stride, strict=True))
        numbers = zip(axes, windows, strict=True)
        outer = [BoundsCheck(position // by - j, 1, size) for (position, j, by), size in numbers]
        taps = zip(axes, window, strict=True)
        inner = [BoundsCheck(position % by + j * by, 1, size) for (position, j, by), size in taps]
        index = (*kept[:2], *(guard.index for guard in outer))
        make = reading.make
        number = make.number(ravel(tuple(guard.index for guard in inner), window), DType.I32)
        same = make.call("{0} == {1}", DType.BOOL, reading.at(indices, index), number)
        zero = make.literal(0, dy.type.dtype)
        element = make.call(
            "select({2}, {1}, {0})", dy.type.dtype, same, reading.at(dy, index), zero
        )
        return Term(guarded(make, [*outer, *inner], element))

    turns = tuple((-(-size // by),) for size, by in zip(window, stride, strict=True))
    return Reduction(Kind.SUM, turns, term)
