"""Operands for every op: what the reference semantics, the gradients and the kernels are tested on.

Sizes are small and odd. Numbers are drawn so that a sample marked `smooth` has no kink within a
finite difference's reach; the others stand exactly on one: a tie, a zero, a repeated maximum.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from zlib import crc32

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Op
from meganeura_dsl.ir.interpreter import storage_type
from meganeura_dsl.ir.ops import (
    Abs,
    Add,
    ArgMax,
    Broadcast,
    Cast,
    Compare,
    Concat,
    Constant,
    Conv,
    ConvInputGradient,
    ConvWeightGradient,
    Cos,
    Cumulative,
    Div,
    DynamicSlice,
    DynamicUpdate,
    Erf,
    Exp,
    Expm1,
    Floor,
    FloorDivide,
    Gather,
    Input,
    Iota,
    LinearRecurrence,
    Log,
    Log1p,
    Logistic,
    MatMul,
    Maximum,
    MaxPool,
    MaxPoolGradient,
    MaxPoolSelect,
    Minimum,
    Mul,
    Neg,
    Pad,
    Parameter,
    RandomBits,
    ReduceMax,
    Remainder,
    Reshape,
    Reverse,
    Round,
    Scan,
    ScatterAdd,
    ScatterExtreme,
    Sin,
    Slice,
    Sort,
    Sqrt,
    StopGradient,
    Sub,
    Sum,
    Tanh,
    Transpose,
    Where,
)
from meganeura_dsl.ir.ops.primitive.loop_region import Carry, Collected, Region
from meganeura_dsl.ir.types import DType, TensorType


@dataclass(frozen=True)
class Sample:
    """An op and operands for it."""

    name: str
    op: Op
    operands: tuple[Array, ...]
    smooth: bool = True

    @property
    def types(self) -> tuple[TensorType, ...]:
        """The types of the operands."""
        return tuple(TensorType(dtype_of(operand), operand.shape) for operand in self.operands)


def dtype_of(array: Array) -> DType:
    """The element type an array of NumPy stands for."""
    return next(dtype for dtype in DType if storage_type(dtype) == array.dtype)


Operand = Callable[[np.random.Generator], Array]


def _sample(name: str, op: Op, *operands: Operand, smooth: bool = True) -> Sample:
    full_name = f"{type(op).__name__}-{name}" if name else type(op).__name__
    generator = np.random.default_rng(crc32(full_name.encode()))
    return Sample(full_name, op, tuple(operand(generator) for operand in operands), smooth)


def _floats(*shape: int, shift: float = 0.5) -> Operand:
    """Different numbers in [-2, 2], none near a whole one; another shift, other numbers."""

    def draw(generator: np.random.Generator) -> Array:
        size = int(np.prod(shape))
        cells = generator.permutation(max(size, 4))[:size]
        spread = 4 * (cells + shift) / max(size, 4) - 2
        spread += np.where(np.abs(spread - np.round(spread)) < 0.01, 0.011, 0)
        return spread.reshape(shape).astype(np.float32)

    return draw


def _positive(*shape: int) -> Operand:
    return lambda generator: generator.uniform(0.5, 2, shape).astype(np.float32)


def _whole(dtype: type[np.int32 | np.uint32], low: int, high: int, *shape: int) -> Operand:
    return lambda generator: generator.integers(low, high, shape).astype(dtype)


def _bools(*shape: int) -> Operand:
    return lambda generator: generator.integers(0, 2, shape).astype(np.bool_)


def _exactly(*numbers: object, dtype: type[np.generic] = np.float32) -> Operand:
    return lambda _: np.array(numbers, dtype)


def _ids(high: int, *shape: int) -> Operand:
    return _whole(np.int32, 0, high, *shape)


def _at(place: int) -> Operand:
    return lambda _: np.array(place, np.int32)


def _big(*shape: int) -> Operand:
    return _whole(np.uint32, 0, 2**32, *shape)


def _covering(high: int, count: int) -> Operand:
    """Ids below `high`, each of them."""
    return lambda _: (np.arange(count) * 2 % high).astype(np.int32)


def _halves(rows: int, count: int) -> Operand:
    """Ids 0 and 1 for each row, both in each."""
    return lambda generator: np.stack(
        [generator.permutation(count) % 2 for _ in range(rows)]
    ).astype(np.int32)


EXTREMES: tuple[Literal["max", "min"], ...] = ("max", "min")

LEAVES = (
    _sample("", Input("x", DType.F32, (3, 1))),
    _sample("ids", Input("ids", DType.I32, (41,))),
    _sample("", Parameter("w", DType.F32, (3, 41), "param")),
    _sample("f32", Constant(-0.1, DType.F32)),
    _sample("i32", Constant(-7, DType.I32)),
    _sample("u32", Constant(4_000_000_000, DType.U32)),
    _sample("bool", Constant(value=True, dtype=DType.BOOL)),
    _sample("inf", Constant(-np.inf, DType.F32)),
    _sample("", Iota(41)),
    _sample("one", Iota(1)),
    _sample("", RandomBits(0, (3, 41)), _exactly(0, 0, dtype=np.uint32)),
    _sample("stream", RandomBits(7, (1, 3, 5)), _exactly(4_294_967_295, 12, dtype=np.uint32)),
)

UNARY = (
    *(_sample("", op, _floats(3, 41)) for op in (Neg(), Exp(), Sin(), Cos(), Tanh(), Erf())),
    *(_sample("scalar", op, _floats()) for op in (Neg(), Tanh(), Erf())),
    *(_sample("", op, _positive(3, 41)) for op in (Log(), Log1p(), Sqrt())),
    *(_sample("", op, _floats(3, 41)) for op in (Expm1(), Logistic())),
    _sample("near", Log1p(), _exactly(-0.9, -0.5, -1e-3, 0, 1e-6, 0.3, 1, 1e4)),
    _sample("wide", Logistic(), _exactly(-80, -20, -1e-3, 0, 1e-6, 0.3, 9, 50)),
    _sample("near", Expm1(), _exactly(-30, -0.5, -1e-3, 0, 1e-6, 0.3, 0.5, 5)),
    *(_sample("i32", op, _whole(np.int32, -9, 9, 3, 5)) for op in (Neg(), Abs())),
    *(_sample("", op, _floats(3, 41)) for op in (Abs(), Floor(), Round())),
    _sample("kink", Abs(), _exactly(0, -0.0, 1, -1), smooth=False),
    _sample("wide", Erf(), _exactly(-9, -4.5, -4, -0.46875, 0, 1e-20, 0.4, 0.5, 3.9, 4.1, 6)),
    _sample("wide", Tanh(), _exactly(-50, -9, -1e-4, 0, 1e-6, 0.3, 9, 50)),
    _sample("whole", Floor(), _exactly(-2, -0.5, -0.0, 0, 0.5, 2), smooth=False),
    _sample("halves", Round(), _exactly(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1e9), smooth=False),
    *(
        sample
        for op in (FloorDivide(3), Remainder(3))
        for sample in (
            _sample("i32", op, _whole(np.int32, -9, 9, 3, 41)),
            _sample("u32", op, _whole(np.uint32, 0, 2**32, 41)),
        )
    ),
    _sample("ends", FloorDivide(7), _exactly(-(2**31), 2**31 - 1, -1, 0, dtype=np.int32)),
    _sample("ends", Remainder(7), _exactly(-(2**31), 2**31 - 1, -1, 0, dtype=np.int32)),
    _sample("", StopGradient(), _floats(3, 5)),
    _sample("i32", StopGradient(), _whole(np.int32, -9, 9, 3)),
)

BINARY = (
    *(
        _sample("", op, _floats(3, 41), _floats(3, 41, shift=0.7))
        for op in (Add(), Sub(), Mul(), Maximum(), Minimum())
    ),
    *(_sample("scalar", op, _floats(), _positive()) for op in (Add(), Sub(), Mul(), Div())),
    *(
        _sample("i32", op, _whole(np.int32, -9, 9, 3, 5), _whole(np.int32, -9, 9, 3, 5))
        for op in (Add(), Sub(), Mul(), Maximum(), Minimum())
    ),
    *(
        _sample("u32", op, _whole(np.uint32, 0, 2**32, 3, 5), _whole(np.uint32, 0, 2**32, 3, 5))
        for op in (Add(), Sub(), Mul(), Maximum(), Minimum())
    ),
    _sample("", Div(), _floats(3, 41), _positive(3, 41)),
    _sample("ties", Maximum(), _exactly(1, 2, -3, 0), _exactly(1, 1, -3, 0), smooth=False),
    _sample("ties", Minimum(), _exactly(1, 2, -3, 0), _exactly(1, 1, -3, 0), smooth=False),
    _sample("lt", Compare("lt"), _floats(3, 41), _floats(3, 41)),
    _sample("gt", Compare("gt"), _whole(np.uint32, 0, 2**32, 9), _whole(np.uint32, 0, 2**32, 9)),
    _sample("bool", Compare("ne"), _bools(3, 5), _bools(3, 5)),
    *(
        _sample(f"{kind}-i32", Compare(kind), _whole(np.int32, -2, 2, 41), _ids(2, 41))
        for kind in ("eq", "ne", "le", "ge")
    ),
    _sample("", Where(), _bools(3, 41), _floats(3, 41), _floats(3, 41)),
    _sample("i32", Where(), _bools(5), _ids(9, 5), _ids(9, 5)),
    _sample("bool", Where(), _bools(9), _bools(9), _bools(9)),
    _sample("i32", Cast(DType.I32), _floats(3, 41)),
    _sample("u32", Cast(DType.U32), _positive(41)),
    _sample("bool", Cast(DType.BOOL), _exactly(0, -0.0, 0.5, -2)),
    _sample("bool-i32", Cast(DType.BOOL), _whole(np.int32, -1, 2, 9)),
    _sample("from-i32", Cast(DType.F32), _whole(np.int32, -9, 9, 3, 5)),
    _sample("from-u32", Cast(DType.F32), _whole(np.uint32, 0, 2**32, 9)),
    _sample("from-bool", Cast(DType.F32), _bools(9)),
    _sample("bool-to-u32", Cast(DType.U32), _bools(9)),
    _sample("i32-to-u32", Cast(DType.U32), _whole(np.int32, -9, 9, 9)),
    _sample("f32", Cast(DType.F32), _floats(3, 5)),
)

REDUCTIONS = (
    _sample("rows", Sum((1,)), _floats(3, 41)),
    _sample("columns", Sum((0,)), _floats(41, 3)),
    _sample("outer", Sum((0, 2)), _floats(3, 5, 7)),
    _sample("all", Sum((0, 1)), _floats(3, 41)),
    _sample("none", Sum(()), _floats(3)),
    _sample("ones", Sum((0, 1)), _floats(1, 1)),
    _sample("i32", Sum((0,)), _whole(np.int32, -9, 9, 5, 3)),
    _sample("u32", Sum((0,)), _whole(np.uint32, 0, 2**32, 41)),
    _sample("scalar", Broadcast((3, 5), ()), _floats()),
    _sample("rows", Broadcast((3, 41), (0,)), _floats(3)),
    _sample("columns", Broadcast((3, 41), (1,)), _floats(41)),
    _sample("middle", Broadcast((2, 3, 5, 7), (1, 3)), _floats(3, 7)),
    _sample("same", Broadcast((3, 5), (0, 1)), _floats(3, 5)),
    _sample("bool", Broadcast((3, 5), (1,)), _bools(5)),
    _sample("rows", ReduceMax((1,)), _floats(3, 41)),
    _sample("outer", ReduceMax((0, 2)), _floats(3, 5, 7)),
    _sample("all", ReduceMax((0,)), _floats(41)),
    _sample("i32", ReduceMax((0,)), _whole(np.int32, -9, 9, 5, 3)),
    _sample("ties", ReduceMax((1,)), _exactly([1, 2, 2], [3, 3, 3], [0, -1, 0]), smooth=False),
    _sample("rows", ArgMax(1), _floats(3, 41)),
    _sample("columns", ArgMax(0), _floats(5, 3, 2)),
    _sample("ties", ArgMax(1), _exactly([1, 2, 2], [3, 3, 3], [0, -1, 0])),
)

MOVEMENTS = (
    _sample("", Reshape((5, 3, 1)), _floats(3, 5)),
    _sample("scalar", Reshape(()), _floats(1, 1)),
    _sample("bool", Reshape((6,)), _bools(3, 2)),
    _sample("", Transpose((1, 0)), _floats(3, 41)),
    _sample("cycle", Transpose((2, 0, 1)), _floats(2, 3, 5)),
    _sample("heads", Transpose((0, 2, 1, 3)), _floats(2, 3, 5, 2)),
    _sample("i32", Transpose((1, 0)), _ids(9, 3, 5)),
    _sample("", Slice((1, 0), (3, 41), (1, 1)), _floats(3, 41)),
    _sample("step", Slice((1, 2), (6, 7), (2, 3)), _floats(7, 9)),
    _sample("one", Slice((4,), (5,), (3,)), _floats(7)),
    _sample("", Pad((1, 0), (2, 3), (0, 0)), _floats(3, 5)),
    _sample("interior", Pad((0, 2), (1, 0), (2, 1)), _floats(3, 5)),
    _sample("i32", Pad((1,), (1,), (1,)), _ids(9, 3)),
    _sample("rows", Concat(0), _floats(3, 5), _floats(1, 5), _floats(2, 5)),
    _sample("columns", Concat(1), _floats(3, 5), _floats(3, 1)),
    _sample("alone", Concat(1), _floats(3, 5)),
    _sample("i32", Concat(0), _ids(9, 3), _ids(9, 5)),
    _sample("", Reverse((1,)), _floats(3, 41)),
    _sample("both", Reverse((0, 2)), _floats(3, 1, 5)),
)

INDEXING = (
    _sample("rows", Gather(0), _floats(7, 3), _ids(7, 5)),
    _sample("matrix", Gather(0), _floats(7, 3), _ids(7, 2, 5)),
    _sample("columns", Gather(1), _floats(3, 7, 2), _ids(7, 5)),
    _sample("scalar", Gather(0), _floats(7, 3), _ids(7)),
    _sample("u32", Gather(0), _floats(41), _whole(np.uint32, 0, 41, 3)),
    _sample("i32-table", Gather(0), _ids(9, 5), _ids(5, 3)),
    _sample("rows", ScatterAdd(0, 7), _ids(7, 5), _floats(5, 3)),
    _sample("repeated", ScatterAdd(0, 3), _ids(2, 41), _floats(41)),
    _sample("matrix", ScatterAdd(0, 7), _ids(7, 2, 5), _floats(2, 5, 3)),
    _sample("columns", ScatterAdd(1, 7), _ids(7, 5), _floats(3, 5, 2)),
    _sample("scalar", ScatterAdd(0, 7), _ids(7), _floats(3)),
    _sample("i32", ScatterAdd(0, 3), _ids(3, 9), _ids(9, 9)),
    _sample("own", Gather(1, 1), _floats(3, 7), _ids(7, 3, 2)),
    _sample("own-columns", Gather(3, 1), _floats(2, 3, 1, 7, 2), _ids(7, 2, 4)),
    _sample("own-row", Gather(2, 2), _floats(2, 3, 7), _ids(7, 2, 3)),
    _sample("own", ScatterAdd(1, 7, 1), _ids(7, 3, 5), _floats(3, 5)),
    _sample("own-columns", ScatterAdd(3, 7, 1), _ids(7, 2, 4), _floats(2, 3, 1, 4, 2)),
    *(
        sample
        for kind in EXTREMES
        for sample in (
            _sample(f"{kind}-rows", ScatterExtreme(kind, 0, 3), _covering(3, 9), _floats(9, 2)),
            _sample(f"{kind}-own", ScatterExtreme(kind, 1, 2, 1), _halves(3, 8), _floats(3, 8)),
            _sample(f"{kind}-columns", ScatterExtreme(kind, 1, 3), _covering(3, 5), _floats(2, 5)),
            _sample(f"{kind}-i32", ScatterExtreme(kind, 0, 9), _ids(9, 5), _ids(9, 5)),
            _sample(f"{kind}-u32", ScatterExtreme(kind, 0, 9), _ids(9, 5), _big(5)),
            _sample(
                f"{kind}-none", ScatterExtreme(kind, 0, 9), _ids(4, 5), _floats(5), smooth=False
            ),
            _sample(
                f"{kind}-ties",
                ScatterExtreme(kind, 0, 2),
                _exactly(0, 1, 0, 1, 0, dtype=np.int32),
                _exactly(1, 2, 1, 2, 0),
                smooth=False,
            ),
        )
    ),
    _sample("", DynamicSlice((2, 3)), _floats(5, 7), _at(2), _at(4)),
    _sample("whole", DynamicSlice((5, 1)), _floats(5, 7), _at(0), _at(6)),
    _sample("i32", DynamicSlice((3,)), _ids(9, 9), _at(5)),
    _sample("scalar", DynamicSlice(()), _floats()),
    _sample("", DynamicUpdate(), _floats(5, 7), _floats(2, 3), _at(2), _at(4)),
    _sample("first", DynamicUpdate(), _floats(5, 7), _floats(1, 7), _at(0), _at(0)),
    _sample("bool", DynamicUpdate(), _bools(9), _bools(4), _at(5)),
)

SCANS = (
    *(
        sample
        for kind in ("sum", "prod", "max", "min")
        for sample in (
            _sample(f"{kind}-rows", Cumulative(kind, 1), _floats(3, 11)),
            _sample(f"{kind}-back", Cumulative(kind, 0, backward=True), _floats(9, 2)),
            _sample(f"{kind}-i32", Cumulative(kind, 0), _whole(np.int32, -2, 3, 9)),
            _sample(
                f"{kind}-zeros",
                Cumulative(kind, 0, backward=True),
                _exactly(1, 2, 0, 3, 3, 0, 2),
                smooth=kind in ("sum", "prod"),
            ),
        )
    ),
    _sample("long", Cumulative("sum", 0), _floats(70)),
    _sample("one", Cumulative("prod", 1), _floats(3, 1)),
    _sample("u32", Cumulative("max", 0), _big(9)),
    _sample("rows", LinearRecurrence(1), _floats(3, 11), _floats(3, 11)),
    _sample("back", LinearRecurrence(0, backward=True), _floats(9), _floats(9)),
    _sample("one", LinearRecurrence(1), _floats(3, 1), _floats(3, 1), smooth=False),
    _sample("", Sort(1), _floats(3, 11)),
    _sample("one", Sort(1), _floats(3, 1)),
    _sample("i32", Sort(0), _ids(4, 17)),
    _sample("ties", Sort(0), _exactly(2, 1, 2, 0, 1, 2), smooth=False),
    _sample("last", Sort(0, descending=True), _floats(13, 2)),
    _sample("last-u32", Sort(0, descending=True), _big(9)),
    _sample("last-ties", Sort(0, descending=True), _exactly(2, 1, 2, 0, 1, 2), smooth=False),
)

BOTH = MatMul(transpose_left=True, transpose_right=True)

PRODUCTS = (
    _sample("", MatMul(), _floats(3, 5), _floats(5, 2)),
    _sample("wide", MatMul(), _floats(1, 41), _floats(41, 3)),
    _sample("left", MatMul(transpose_left=True), _floats(5, 3), _floats(5, 2)),
    _sample("right", MatMul(transpose_right=True), _floats(3, 5), _floats(2, 5)),
    _sample("both", BOTH, _floats(5, 3), _floats(2, 5)),
    _sample("batch", MatMul(), _floats(2, 3, 3, 5), _floats(2, 3, 5, 1)),
    _sample("batch-left", MatMul(transpose_left=True), _floats(2, 5, 3), _floats(2, 5, 2)),
    _sample("batch-right", MatMul(transpose_right=True), _floats(2, 3, 5), _floats(2, 2, 5)),
    _sample(
        "batch-both",
        BOTH,
        _floats(2, 5, 3),
        _floats(2, 2, 5),
    ),
    _sample("vector", MatMul(), _floats(5), _floats(5, 3)),
    _sample("vector-right", MatMul(transpose_right=True), _floats(5), _floats(3, 5)),
    _sample("leading", MatMul(), _floats(2, 3, 5), _floats(5, 2)),
    _sample("leading-right", MatMul(transpose_right=True), _floats(2, 1, 3, 5), _floats(2, 5)),
)


@dataclass(frozen=True)
class _Case:
    """One geometry of a convolution, for the convolution and for both its adjoints."""

    name: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1


CONVOLUTIONS = (
    _Case("1d", (2, 3, 9), (4, 3, 3), (2, 4, 9), (1,), (1,), (1,)),
    _Case("1d-stride", (2, 2, 41), (1, 2, 3), (2, 1, 21), (2,), (1,), (1,)),
    _Case("1d-dilated", (1, 2, 9), (2, 2, 3), (1, 2, 3), (2,), (0,), (2,)),
    _Case("pointwise", (2, 3, 3, 5), (2, 3, 1, 1), (2, 2, 3, 5), (1, 1), (0, 0), (1, 1)),
    _Case("same", (2, 2, 5, 3), (3, 2, 3, 3), (2, 3, 5, 3), (1, 1), (1, 1), (1, 1)),
    _Case("stride", (2, 2, 7, 6), (3, 2, 3, 3), (2, 3, 4, 3), (2, 2), (1, 1), (1, 1)),
    _Case("left-over", (1, 1, 8, 9), (1, 1, 2, 3), (1, 1, 3, 3), (3, 3), (0, 0), (1, 1)),
    _Case("uneven", (1, 2, 5, 7), (2, 2, 3, 2), (1, 2, 5, 3), (1, 2), (1, 0), (1, 1)),
    _Case("dilated", (1, 2, 7, 7), (2, 2, 3, 2), (1, 2, 5, 4), (1, 2), (1, 1), (2, 2)),
    _Case("groups", (2, 4, 5, 3), (6, 2, 3, 3), (2, 6, 3, 2), (2, 2), (1, 1), (1, 1), 2),
    _Case("depthwise", (2, 3, 4, 5), (3, 1, 3, 3), (2, 3, 4, 5), (1, 1), (1, 1), (1, 1), 3),
    _Case("expanding", (1, 2, 3, 3), (6, 1, 2, 2), (1, 6, 2, 2), (1, 1), (0, 0), (1, 1), 2),
    _Case("3d", (1, 2, 3, 4, 3), (2, 2, 2, 3, 1), (1, 2, 2, 4, 2), (1, 1, 2), (0, 1, 0), (1,) * 3),
)


def _adjoints(case: _Case) -> tuple[Sample, ...]:
    name, geometry = case.name, (case.stride, case.padding, case.dilation, case.groups)
    x, w, y = _floats(*case.x), _floats(*case.w), _floats(*case.y)
    return (
        _sample(name, Conv(*geometry), x, w),
        _sample(name, ConvInputGradient(*geometry, case.x[2:]), w, y),
        _sample(name, ConvWeightGradient(*geometry, case.w[2:]), x, y),
    )


@dataclass(frozen=True)
class _Pool:
    """One geometry of max pooling, for it and for both its adjoints."""

    name: str
    x: tuple[int, ...]
    y: tuple[int, ...]
    window: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]


POOLS = (
    _Pool("1d", (2, 3, 9), (2, 3, 4), (2,), (2,), (0,)),
    _Pool("halves", (2, 2, 6, 4), (2, 2, 3, 2), (2, 2), (2, 2), (0, 0)),
    _Pool("overlap", (2, 2, 7, 6), (2, 2, 4, 3), (3, 3), (2, 2), (1, 1)),
    _Pool("uneven", (1, 1, 5, 9), (1, 1, 4, 4), (2, 3), (1, 2), (0, 0)),
    _Pool("3d", (1, 1, 3, 4, 3), (1, 1, 2, 2, 2), (2, 2, 2), (1, 2, 1), (0, 0, 0)),
)


def _pooling(pool: _Pool) -> tuple[Sample, ...]:
    name, geometry = pool.name, (pool.window, pool.stride, pool.padding)
    x, y = _floats(*pool.x), _floats(*pool.y)
    indices = _indices(pool)
    return (
        _sample(name, MaxPool(*geometry), x),
        _sample(name, MaxPoolGradient(*geometry, pool.x[2:]), indices, y),
        _sample(name, MaxPoolSelect(*geometry), indices, x),
    )


def _indices(pool: _Pool) -> Operand:
    """For each window the index of one of its elements that is no padding."""

    def draw(generator: np.random.Generator) -> Array:
        x = generator.permutation(int(np.prod(pool.x))).reshape(pool.x).astype(np.float32)
        _, indices = MaxPool(pool.window, pool.stride, pool.padding).evaluate(x)
        return indices.astype(np.int32)

    return draw


def _pooling_ties() -> tuple[Sample, ...]:
    geometry = ((3, 3), (2, 2), (1, 1))
    few = _whole(np.int32, 0, 2, 2, 2, 7, 6)
    x = lambda generator: few(generator).astype(np.float32)  # noqa: E731
    return (_sample("ties", MaxPool(*geometry), x, smooth=False),)


def recurrence(*, backward: bool) -> Scan:
    """The iterations of h = tanh(x[:, t] + h w) 4 / exp(t), for h: [2, 3], x: [2, 4, 3], w: [3, 3].

    What is carried is collected along axis 1, and the tangents along axis 2.
    """
    build = Builder()
    start, xs, weight = (
        build.add(Input(name, DType.F32, shape))
        for name, shape in (("h", (2, 3)), ("x", (2, 4, 3)), ("w", (3, 3)))
    )
    region = Region(build, 4)
    h, x = region.leaf(start.type), region.slice(xs, 1, backward=backward)
    count = build.add(Cast(DType.F32), region.time)
    rate = build.add(Div(), build.add(Constant(4.0, DType.F32)), build.add(Exp(), count))
    sums = build.add(Tanh(), build.add(Add(), x, build.add(MatMul(), h, weight)))
    after = build.add(Mul(), sums, build.add(Broadcast((2, 3), ()), rate))
    collected = [Collected(after, 1), Collected(sums, 2)]
    attributes, _ = region.close([Carry(h, start, after)], collected, backward=backward)
    return Scan(*attributes)


LOOPS = tuple(
    _sample(
        name, recurrence(backward=name == "back"), _floats(2, 3), _floats(2, 4, 3), _floats(3, 3)
    )
    for name in ("forth", "back")
)

SAMPLES: tuple[Sample, ...] = (
    *LEAVES,
    *UNARY,
    *BINARY,
    *REDUCTIONS,
    *MOVEMENTS,
    *INDEXING,
    *SCANS,
    *PRODUCTS,
    *(sample for case in CONVOLUTIONS for sample in _adjoints(case)),
    *(sample for pool in POOLS for sample in _pooling(pool)),
    *_pooling_ties(),
    *LOOPS,
)
