"""Each op as nodes of ONNX.

Elementwise ops of ONNX broadcast, so a `Broadcast` is only as many axes of size 1 as that needs; it
becomes an `Expand` where another op reads it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Op, Value
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
    Cos,
    Div,
    Erf,
    Exp,
    Floor,
    FloorDivide,
    Gather,
    Iota,
    Log,
    MatMul,
    Maximum,
    MaxPool,
    Minimum,
    Mul,
    Neg,
    Pad,
    ReduceMax,
    Remainder,
    Reshape,
    Reverse,
    Round,
    ScatterAdd,
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
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.types import DType, Shape
from meganeura_dsl.symbolic.size import Dim, show
from meganeura_runtime.export.onnx.emitter import ELEMENT, Attribute, Emitter
from meganeura_runtime.export.onnx.onnx_problems import NoOnnxForm
from meganeura_runtime.export.onnx.patterns import Match
from meganeura_runtime.export.onnx.sizes import Sizes
from meganeura_runtime.io.tensors.stored_tensor import NUMPY

INT64 = 7
"""`TensorProto.INT64`."""
END = np.iinfo(np.int64).max
"""As the end of a slice: all there is."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of ONNX that stands for a value: it broadcasts to the value's shape.

    Its axes are the last `rank` ones of the value, of size 1 where they are in `stretched`.
    """

    name: str
    rank: int
    stretched: frozenset[int] = frozenset()
    """Axes of the value along which it repeats; those it does not have are among them."""


def exact(name: str, value: Value) -> Tensor:
    """A tensor that has the value's own shape."""
    return Tensor(name, value.type.rank)


class Lowering:
    """Values of one graph as ONNX tensors, made in order."""

    def __init__(self, emitter: Emitter, sizes: Sizes) -> None:
        self.emitter = emitter
        self.sizes = sizes
        self.tensors: dict[int, Tensor] = {}
        self._expanded: dict[int, str] = {}

    def lower(self, value: Value) -> None:
        """The tensor of a value whose operands have theirs; raises `ProblemError`."""
        lower = TABLE.get(type(value.op))
        if lower is None:
            is_loop = bool(value.op.bodies)
            reason = "loops are not written yet" if is_loop else "it has no counterpart there"
            raise refused(value, reason)
        self.tensors[value.id] = lower(self, value)

    def lower_match(self, value: Value, match: Match) -> None:
        """The tensor of a value that is one node with these operands."""
        op_type, attributes = match.op_type, dict(match.attributes)
        if op_type in ELEMENTWISE:
            (x,) = match.operands
            tensor = self.tensors[x.id]
            name = self.emitter.add(op_type, tensor.name, **attributes)
            self.tensors[value.id] = Tensor(name, tensor.rank, tensor.stretched)
            return
        names = [self.whole(each) for each in match.operands]
        if op_type == "Conv":
            attributes |= _window(match.absorbed[0], match.operands[1].type.shape[2:])
        elif op_type == "AveragePool":
            attributes |= _average(value)
        elif op_type == "ReduceMean":
            axes = attributes.pop("axes")
            assert isinstance(axes, tuple)
            name = reduced(self, op_type, names[0], axes)
            self.tensors[value.id] = exact(name, value)
            return
        self.tensors[value.id] = exact(self.emitter.add(op_type, *names, **attributes), value)

    def whole(self, value: Value) -> str:
        """The tensor of a value in its own shape."""
        tensor = self.tensors[value.id]
        if all(value.type.shape[axis] == 1 for axis in tensor.stretched) and (
            tensor.rank == value.type.rank
        ):
            return tensor.name
        if value.id not in self._expanded:
            shape = self.sizes.shape(value.type.shape)
            self._expanded[value.id] = self.emitter.add("Expand", tensor.name, shape)
        return self._expanded[value.id]


def refused(value: Value, reason: str) -> ProblemError:
    """The problem of a value that ONNX cannot say."""
    origin = value.origin
    return ProblemError(NoOnnxForm(type(value.op).__name__, reason, origin.span, origin.path))


# --- elementwise ---------------------------------------------------------------------------------

Lower = Callable[[Lowering, Value], Tensor]


def elementwise(op_type: str) -> Lower:
    """An op that is one node, and broadcasts."""

    def lower(into: Lowering, value: Value) -> Tensor:
        return broadcasting(into, value.operands, lambda *names: into.emitter.add(op_type, *names))

    return lower


def broadcasting(into: Lowering, operands: Sequence[Value], make: Callable[..., str]) -> Tensor:
    """What nodes that broadcast make of operands of equal shape."""
    tensors = [into.tensors[each.id] for each in operands]
    stretched = frozenset[int].intersection(*[each.stretched for each in tensors])
    return Tensor(
        make(*[each.name for each in tensors]), max(each.rank for each in tensors), stretched
    )


def _remainder(into: Lowering, value: Value) -> Tensor:
    op = value.op
    assert isinstance(op, Remainder)
    number = into.emitter.add("Squeeze", into.sizes.vector(op.divisor))
    divisor = into.emitter.add("Cast", number, to=ELEMENT[value.type.dtype])

    def make(x: str) -> str:
        return into.emitter.add("Mod", x, divisor)

    return broadcasting(into, value.operands, make)


def _floor_divide(into: Lowering, value: Value) -> Tensor:
    op, add = value.op, into.emitter.add
    assert isinstance(op, FloorDivide)
    divisor = add("Squeeze", into.sizes.vector(op.divisor))

    def make(x: str) -> str:
        # `Div` truncates. What `Mod` leaves has the sign of the divisor, so this is the floor.
        wide = add("Cast", x, to=INT64)
        floor = add("Div", add("Sub", wide, add("Mod", wide, divisor)), divisor)
        return add("Cast", floor, to=ELEMENT[value.type.dtype])

    return broadcasting(into, value.operands, make)


def _compare(into: Lowering, value: Value) -> Tensor:
    op = value.op
    assert isinstance(op, Compare)

    def make(a: str, b: str) -> str:
        if op.kind == "ne":
            return into.emitter.add("Not", into.emitter.add("Equal", a, b))
        return into.emitter.add(RELATIONS[op.kind], a, b)

    return broadcasting(into, value.operands, make)


RELATIONS: Mapping[str, str] = {
    "eq": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
}


def _where(into: Lowering, value: Value) -> Tensor:
    def of_bools(condition: str, a: str, b: str) -> str:
        add = into.emitter.add
        return add("Or", add("And", condition, a), add("And", add("Not", condition), b))

    def of_numbers(condition: str, a: str, b: str) -> str:
        return into.emitter.add("Where", condition, a, b)

    make = of_bools if value.type.dtype is DType.BOOL else of_numbers
    return broadcasting(into, value.operands, make)


def _cast(into: Lowering, value: Value) -> Tensor:
    to = ELEMENT[value.type.dtype]

    def make(x: str) -> str:
        return into.emitter.add("Cast", x, to=to)

    return broadcasting(into, value.operands, make)


def _same(into: Lowering, value: Value) -> Tensor:
    return into.tensors[value.operands[0].id]


# --- generators and broadcasts -------------------------------------------------------------------


def _constant(into: Lowering, value: Value) -> Tensor:
    op = value.op
    assert isinstance(op, Constant)
    if isinstance(op.value, Dim):
        number = into.emitter.add("Squeeze", into.sizes.vector(op.value))
        return Tensor(into.emitter.add("Cast", number, to=ELEMENT[op.dtype]), 0)
    return Tensor(into.emitter.constant(np.array(op.value, NUMPY[op.dtype])), 0)


def _iota(into: Lowering, value: Value) -> Tensor:
    op = value.op
    assert isinstance(op, Iota)
    if isinstance(op.size, int):
        return exact(into.emitter.constant(np.arange(op.size, dtype=np.int32)), value)
    number = into.emitter.add("Squeeze", into.sizes.vector(op.size))
    ends = [into.emitter.constant(np.array(each, np.int64)) for each in (0, 1)]
    numbers = into.emitter.add("Range", ends[0], number, ends[1])
    return exact(into.emitter.add("Cast", numbers, to=ELEMENT[DType.I32]), value)


def _broadcast(into: Lowering, value: Value) -> Tensor:
    op, (x,) = value.op, value.operands
    assert isinstance(op, Broadcast)
    tensor, rank = into.tensors[x.id], value.type.rank
    name, present = tensor.name, range(x.type.rank - tensor.rank, x.type.rank)
    if list(op.axes) != sorted(op.axes):
        order = sorted(range(x.type.rank), key=lambda axis: op.axes[axis])
        name, present = (
            into.emitter.add("Transpose", into.whole(x), perm=tuple(order)),
            range(len(order)),
        )
        tensor = exact(name, x)
    axes = sorted(op.axes)
    shown = [axes[axis] for axis in present]
    repeats = {axes[axis] for axis in tensor.stretched} | {*range(rank)} - {*axes}
    if not shown:
        return Tensor(name, 0, frozenset(repeats))
    inserted = [axis - shown[0] for axis in range(shown[0], rank) if axis not in shown]
    if inserted:
        name = into.emitter.add("Unsqueeze", name, into.emitter.integers(inserted))
    return Tensor(name, rank - shown[0], frozenset(repeats))


# --- reductions ----------------------------------------------------------------------------------


def reduced(into: Lowering, op_type: str, x: str, axes: Sequence[int]) -> str:
    """A reduction along axes; they became an operand in opset 13 for sums, in 18 for others."""
    if op_type == "ReduceSum" or into.emitter.opset >= AXES_ARE_OPERANDS:
        return into.emitter.add(op_type, x, into.emitter.integers(axes), keepdims=0)
    return into.emitter.add(op_type, x, axes=tuple(axes), keepdims=0)


AXES_ARE_OPERANDS = 18


def _reduction(op_type: str) -> Lower:
    def lower(into: Lowering, value: Value) -> Tensor:
        op, (x,) = value.op, value.operands
        assert isinstance(op, Sum | ReduceMax)
        if not op.axes:
            return into.tensors[x.id]
        if value.type.dtype is not DType.U32:
            return exact(reduced(into, op_type, into.whole(x), op.axes), value)
        # ONNX Runtime sums no u32; what overflows wraps around in both.
        wide = into.emitter.add("Cast", into.whole(x), to=INT64)
        total = reduced(into, op_type, wide, op.axes)
        return exact(into.emitter.add("Cast", total, to=ELEMENT[DType.U32]), value)

    return lower


def _arg_max(into: Lowering, value: Value) -> Tensor:
    op, (x,) = value.op, value.operands
    assert isinstance(op, ArgMax)
    found = into.emitter.add("ArgMax", into.whole(x), axis=op.axis, keepdims=0)
    return exact(into.emitter.add("Cast", found, to=ELEMENT[value.type.dtype]), value)


# --- movement ------------------------------------------------------------------------------------


def _reshape(into: Lowering, value: Value) -> Tensor:
    (x,) = value.operands
    target = into.sizes.target(x.type.shape, value.type.shape)
    return exact(into.emitter.add("Reshape", into.whole(x), target), value)


def _transpose(into: Lowering, value: Value) -> Tensor:
    op, (x,) = value.op, value.operands
    assert isinstance(op, Transpose)
    return exact(into.emitter.add("Transpose", into.whole(x), perm=op.permutation), value)


def _slice(into: Lowering, value: Value) -> Tensor:
    op, (x,) = value.op, value.operands
    assert isinstance(op, Slice)
    ends = [END if stop == size else stop for stop, size in zip(op.stop, x.type.shape, strict=True)]
    cut = [
        axis
        for axis in range(value.type.rank)
        if (op.start[axis], ends[axis], op.step[axis]) != (0, END, 1)
    ]
    if not cut:
        return into.tensors[x.id]
    chosen = [
        into.sizes.shape(tuple(each[axis] for axis in cut)) for each in (op.start, ends, op.step)
    ]
    starts, stops, steps = chosen
    axes = into.emitter.integers(cut)
    return exact(into.emitter.add("Slice", into.whole(x), starts, stops, axes, steps), value)


def _reverse(into: Lowering, value: Value) -> Tensor:
    op, (x,) = value.op, value.operands
    assert isinstance(op, Reverse)
    backward, axes = into.emitter.integers([-1] * len(op.axes)), into.emitter.integers(op.axes)
    first = into.emitter.integers([-END] * len(op.axes))
    return exact(into.emitter.add("Slice", into.whole(x), backward, first, axes, backward), value)


def _pad(into: Lowering, value: Value) -> Tensor:
    op, (x,) = value.op, value.operands
    assert isinstance(op, Pad)
    if any(size != 0 for size in op.interior):
        raise refused(value, "it pads between elements")
    pads = into.sizes.shape((*op.low, *op.high))
    return exact(into.emitter.add("Pad", into.whole(x), pads), value)


def _concat(into: Lowering, value: Value) -> Tensor:
    op = value.op
    assert isinstance(op, Concat)
    return exact(into.emitter.add("Concat", *map(into.whole, value.operands), axis=op.axis), value)


# --- indices -------------------------------------------------------------------------------------


def _gather(into: Lowering, value: Value) -> Tensor:
    op, (table, ids) = value.op, value.operands
    assert isinstance(op, Gather)
    if op.batch:
        raise refused(value, "each of its tables has indices of its own, which is not written yet")
    chosen = into.whole(ids)
    if ids.type.dtype is DType.U32:
        chosen = into.emitter.add("Cast", chosen, to=INT64)
    return exact(into.emitter.add("Gather", into.whole(table), chosen, axis=op.axis), value)


def _scatter_add(into: Lowering, value: Value) -> Tensor:
    op, (ids, updates) = value.op, value.operands
    assert isinstance(op, ScatterAdd)
    if op.batch:
        raise refused(value, "each of its tables has indices of its own, which is not written yet")
    add, axis, depth = into.emitter.add, op.axis, ids.type.rank
    moved = [*range(axis, axis + depth), *range(axis), *range(axis + depth, updates.type.rank)]
    source = into.whole(updates)
    if axis:
        source = add("Transpose", source, perm=tuple(moved))
    rest = [size for position, size in enumerate(value.type.shape) if position != axis]
    zero = into.emitter.constant(np.zeros((), NUMPY[value.type.dtype]))
    zeros = add("Expand", zero, into.sizes.shape((op.size, *rest)))
    wide = add("Cast", into.whole(ids), to=INT64)
    columns = add("Unsqueeze", wide, into.emitter.integers([depth]))
    total = add("ScatterND", zeros, columns, source, reduction="add")
    if axis:
        total = add(
            "Transpose", total, perm=(*range(1, axis + 1), 0, *range(axis + 1, value.type.rank))
        )
    return exact(total, value)


# --- contractions and windows --------------------------------------------------------------------


def _matmul(into: Lowering, value: Value) -> Tensor:
    op, operands = value.op, value.operands
    assert isinstance(op, MatMul)
    names: list[str] = []
    for x, flipped in zip(operands, (op.transpose_left, op.transpose_right), strict=True):
        name, rank = into.whole(x), x.type.rank
        if flipped:
            order = [*range(rank - 2), rank - 1, rank - 2]
            name = into.emitter.add("Transpose", name, perm=tuple(order))
        names.append(name)
    product = into.emitter.add("MatMul", *names)
    return exact(product, value)


def _conv(into: Lowering, value: Value) -> Tensor:
    x, w = value.operands
    window = _window(value, w.type.shape[2:])
    return exact(into.emitter.add("Conv", into.whole(x), into.whole(w), **window), value)


def _conv_transpose(into: Lowering, value: Value) -> Tensor:
    op, (w, dy) = value.op, value.operands
    assert isinstance(op, ConvInputGradient)
    window = _window(value, w.type.shape[2:])
    spare: Shape = tuple(
        size - ((seen - 1) * stride + dilation * (kernel - 1) + 1 - 2 * padding)
        for size, seen, stride, dilation, kernel, padding in zip(
            op.spatial,
            dy.type.shape[2:],
            op.stride,
            op.dilation,
            w.type.shape[2:],
            op.padding,
            strict=True,
        )
    )
    window["output_padding"] = _numbers(value, "output padding", spare)
    return exact(into.emitter.add("ConvTranspose", into.whole(dy), into.whole(w), **window), value)


def _window(value: Value, kernel: Shape) -> dict[str, Attribute]:
    op = value.op
    assert isinstance(op, Convolution)
    return {
        "kernel_shape": _numbers(value, "kernel", kernel),
        "strides": _numbers(value, "stride", op.stride),
        "pads": _numbers(value, "padding", op.padding) * 2,
        "dilations": _numbers(value, "dilation", op.dilation),
        "group": _numbers(value, "number of groups", (op.groups,))[0],
    }


def _average(value: Value) -> dict[str, Attribute]:
    window = _window(value, value.operands[1].type.shape[2:])
    kept = {name: window[name] for name in ("kernel_shape", "strides", "pads")}
    return {**kept, "count_include_pad": 1}


def _max_pool(into: Lowering, value: Value) -> Tensor:
    op, (x,) = value.op, value.operands
    assert isinstance(op, MaxPool)
    if value.index:
        raise refused(value, "its indices count in the window, and those of ONNX in the image")
    return exact(
        into.emitter.add(
            "MaxPool",
            into.whole(x),
            kernel_shape=_numbers(value, "window", op.window),
            strides=_numbers(value, "stride", op.stride),
            pads=_numbers(value, "padding", op.padding) * 2,
        ),
        value,
    )


def _numbers(value: Value, name: str, sizes: Shape) -> tuple[int, ...]:
    """Sizes that ONNX wants as numbers."""
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) < len(sizes):
        raise refused(value, f"its {name} is a number there, and [{', '.join(map(show, sizes))}]")
    return tuple(numbers)


ELEMENTWISE = frozenset({"Relu", "Sigmoid", "Gelu"})
"""Functions of patterns that keep what is repeated as it is."""

TABLE: Mapping[type[Op], Lower] = {
    Abs: elementwise("Abs"),
    Add: elementwise("Add"),
    ArgMax: _arg_max,
    Broadcast: _broadcast,
    Cast: _cast,
    Compare: _compare,
    Concat: _concat,
    Constant: _constant,
    Conv: _conv,
    ConvInputGradient: _conv_transpose,
    Cos: elementwise("Cos"),
    Div: elementwise("Div"),
    Erf: elementwise("Erf"),
    Exp: elementwise("Exp"),
    Floor: elementwise("Floor"),
    FloorDivide: _floor_divide,
    Gather: _gather,
    Iota: _iota,
    Log: elementwise("Log"),
    MatMul: _matmul,
    MaxPool: _max_pool,
    Maximum: elementwise("Max"),
    Minimum: elementwise("Min"),
    Mul: elementwise("Mul"),
    Neg: elementwise("Neg"),
    Pad: _pad,
    ReduceMax: _reduction("ReduceMax"),
    Remainder: _remainder,
    Reshape: _reshape,
    Reverse: _reverse,
    Round: elementwise("Round"),
    ScatterAdd: _scatter_add,
    Sin: elementwise("Sin"),
    Slice: _slice,
    Sqrt: elementwise("Sqrt"),
    StopGradient: _same,
    Sub: elementwise("Sub"),
    Sum: _reduction("ReduceSum"),
    Tanh: elementwise("Tanh"),
    Transpose: _transpose,
    Where: _where,
}
"""The ops of inference; others are refused."""
