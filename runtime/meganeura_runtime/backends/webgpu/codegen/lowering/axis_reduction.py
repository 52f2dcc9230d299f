"""Reductions along whole axes."""

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import ArgMax, ReduceMax, Sum
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.codegen.lowering.reduction import Kind, Reduction, Term
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import Index
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import ElementReader

REDUCES: tuple[type[Op], ...] = (Sum, ReduceMax, ArgMax)


def reduction(value: Value) -> Reduction:
    """The elements of the operand that differ only along the axes."""
    match value.op:
        case Sum(axes=axes):
            return _along(value.operands[0], axes, Kind.SUM)
        case ReduceMax(axes=axes):
            return _along(value.operands[0], axes, Kind.MAX)
        case ArgMax(axis=axis):
            return _along(value.operands[0], (axis,), Kind.ARG_MAX)
        case op:
            raise TypeError(f"{op} does not reduce axes")


def _along(x: Value, axes: tuple[int, ...], kind: Kind) -> Reduction:
    shape = concrete_shape(x.type.shape)

    def term(reading: ElementReader, kept: Index, at: Index) -> Term:
        return Term(reading.at(x, merged(len(shape), axes, kept, at)))

    loops = tuple(tuple(shape[axis] for axis in run) for run in runs(axes))
    return Reduction(kind, loops, term)


def merged(rank: int, axes: tuple[int, ...], kept: Index, along: Index) -> Index:
    """The index whose components at `axes` are `along`, the others `kept`, in order."""
    inside, outside = iter(along), iter(kept)
    return tuple(next(inside if axis in axes else outside) for axis in range(rank))


def runs(axes: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The axes, neighbours together."""
    groups: list[tuple[int, ...]] = []
    for axis in axes:
        if groups and groups[-1][-1] == axis - 1:
            groups[-1] = (*groups[-1], axis)
        else:
            groups.append((axis,))
    return tuple(groups)
