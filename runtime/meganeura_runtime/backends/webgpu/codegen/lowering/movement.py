"""Ops that move elements, as index arithmetic: none of them costs memory or a kernel."""

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import OPS as PRIMITIVES
from meganeura_dsl.ir.ops import Broadcast, Concat, Pad, Reshape, Reverse, Slice, Transpose
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_dsl.ir.traits import Trait
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Affine,
    BoundsCheck,
    Expression,
    Index,
    ravel,
    unravel,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import ElementReader, guarded

OPS: tuple[type[Op], ...] = tuple(op for op in PRIMITIVES if Trait.MOVEMENT in op.traits)


def read(reading: ElementReader, value: Value, index: Index) -> Expression:
    """The element of a moved value, from where it stood before."""
    operand = value.operands[0]
    shape = concrete_shape(operand.type.shape)
    match value.op:
        case Broadcast(axes=axes):
            return reading.at(operand, tuple(index[axis] for axis in axes))
        case Reshape(shape=reshaped):
            position = ravel(index, concrete_shape(reshaped))
            return reading.at(operand, unravel(position, shape))
        case Transpose(permutation=permutation):
            inverse = sorted(range(len(permutation)), key=permutation.__getitem__)
            return reading.at(operand, tuple(index[axis] for axis in inverse))
        case Slice(start=start, step=step):
            bounds = zip(index, concrete_shape(start), concrete_shape(step), strict=True)
            return reading.at(operand, tuple(at * by + first for at, first, by in bounds))
        case Reverse(axes=axes):
            return reading.at(operand, _reversed(index, shape, axes))
        case Pad(low=low, interior=interior):
            positions = zip(
                index, concrete_shape(low), concrete_shape(interior), shape, strict=True
            )
            guards = [BoundsCheck(at - first, gap + 1, size) for at, first, gap, size in positions]
            inside = reading.at(operand, tuple(guard.index for guard in guards))
            return guarded(reading.make, guards, inside)
        case Concat(axis=axis):
            return _joined(reading, value, index, axis)
        case op:
            raise TypeError(f"{op} does not move elements")


def _reversed(index: Index, shape: tuple[int, ...], axes: tuple[int, ...]) -> Index:
    return tuple(
        Affine(size - 1) - at if axis in axes else at
        for axis, (at, size) in enumerate(zip(index, shape, strict=True))
    )


def _joined(reading: ElementReader, value: Value, index: Index, axis: int) -> Expression:
    """The operand that holds the index, found from the last to the first."""
    found: list[tuple[BoundsCheck, Expression]] = []
    start = concrete(value.type.shape[axis])
    for operand in reversed(value.operands):
        size = concrete(operand.type.shape[axis])
        start -= size
        guard = BoundsCheck(index[axis] - start, 1, size)
        position = (*index[:axis], guard.index, *index[axis + 1 :])
        found.append((guard, reading.at(operand, position)))
    (_, result), *others = found
    for guard, inside in others:
        result = reading.make.choice(guard, inside, result)
    return result
