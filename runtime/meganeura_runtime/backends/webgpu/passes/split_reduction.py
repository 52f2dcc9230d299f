"""Long reductions as reductions of reductions, in ops that any graph may contain."""

from functools import reduce
from math import prod

from meganeura_dsl.ir.graph import Builder, Value
from meganeura_dsl.ir.ops import Add, Concat, Iota, Maximum, Mul, Pad, Reshape, Slice, Sum, Where
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast, full, others
from meganeura_dsl.ir.ops.primitive.elementwise import Compare
from meganeura_dsl.ir.ops.primitive.reduce import ArgMax, ReduceMax
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.codegen.lowering.axis_reduction import runs

FEWEST_AT_ONCE = 16
"""Terms for which it is worth to write a sum to memory."""

FEW_PARTS = 8
"""Parts of a sum that its reader can add up by itself."""


def divisor_near(size: int, wanted: int) -> int:
    """The least divisor of `size` from `wanted` to twice that; `wanted` where there is none."""
    return next((d for d in range(wanted, 2 * wanted + 1) if size % d == 0), wanted)


def split_reduction(build: Builder, op: Sum | ReduceMax, x: Value, most: int) -> Value:
    """The same result, with at most `most` terms in each reduction."""
    shape = concrete_shape(x.type.shape)
    if prod(shape[axis] for axis in op.axes) <= most:
        return build.add(op, x)
    x, axes = _joined(build, x, op.axes)
    shape = concrete_shape(x.type.shape)
    inner = _within(shape, axes, most)
    terms = prod(shape[axis] for axis in inner)
    if terms < FEWEST_AT_ONCE:
        axis = axes[-1 - len(inner)]
        parts, length = _lengths(shape[axis], most // terms)
        if parts * length != shape[axis] and isinstance(op, ReduceMax):
            return _with_tail(build, ReduceMax(axes), x, axis, length, most)
        x = _folded(build, x, axis, parts, length)
        inner = (axis + 1, *(one + 1 for one in inner))
        axes = (*(one for one in axes if one <= axis), *inner)
    reduced = build.add(type(op)(inner), x)
    kept = others(inner, x.type.rank)
    outer = tuple(kept.index(axis) for axis in axes if axis not in inner)
    return split_reduction(build, type(op)(outer), reduced, most)


def sum_of_parts(build: Builder, partial: Value, most: int) -> Value:
    """The sum along the first axis: of few parts as additions, which any reader can take over."""
    parts, *rest = concrete_shape(partial.type.shape)
    if parts > FEW_PARTS:
        return split_reduction(build, Sum((0,)), partial, most)
    each = (
        build.add(Reshape(tuple(rest)), part(build, partial, 0, number, number + 1))
        for number in range(parts)
    )
    return reduce(lambda a, b: build.add(Add(), a, b), each)


def _lengths(size: int, most: int) -> tuple[int, int]:
    """Returns number and length, at most `most`, of the parts that hold so many elements."""
    parts = divisor_near(size, -(-size // most))
    return parts, -(-size // parts)


def _joined(build: Builder, x: Value, axes: tuple[int, ...]) -> tuple[Value, tuple[int, ...]]:
    """The operand with each run of neighbouring axes made one, for free; and those axes."""
    shape = concrete_shape(x.type.shape)
    groups = sorted([*runs(axes), *((axis,) for axis in others(axes, len(shape)))])
    joined = tuple(prod(shape[axis] for axis in group) for group in groups)
    positions = tuple(position for position, group in enumerate(groups) if group[0] in axes)
    return build.add(Reshape(joined), x), positions


def _within(shape: tuple[int, ...], axes: tuple[int, ...], most: int) -> tuple[int, ...]:
    """The last of the axes, as many as together have at most `most` terms; all have more."""
    first = len(axes)
    while prod(shape[axis] for axis in axes[first - 1 :]) <= most:
        first -= 1
    return axes[first:]


def _with_tail(build: Builder, op: ReduceMax, x: Value, axis: int, length: int, most: int) -> Value:
    """The maximum of whole parts and of what is left: there is no padding that never is one."""
    size = concrete_shape(x.type.shape)[axis]
    whole = (size // length) * length
    ends = ((0, whole), (whole, size))
    both = (split_reduction(build, op, part(build, x, axis, *at), most) for at in ends)
    return build.add(Maximum(), *both)


def _folded(build: Builder, x: Value, axis: int, parts: int, length: int) -> Value:
    """One axis as two, after zeros at its end where it is too short."""
    shape = concrete_shape(x.type.shape)
    if parts * length > shape[axis]:
        x = _padded(build, x, axis, parts * length - shape[axis])
    return build.add(Reshape((*shape[:axis], parts, length, *shape[axis + 1 :])), x)


def _padded(build: Builder, x: Value, axis: int, by: int) -> Value:
    none = (0,) * x.type.rank
    high = tuple(by if at == axis else 0 for at in range(x.type.rank))
    return build.add(Pad(none, high, none), x)


def part(build: Builder, x: Value, axis: int, start: int, stop: int) -> Value:
    """The elements from `start` up to `stop` along an axis."""
    shape = concrete_shape(x.type.shape)
    starts = tuple(start if at == axis else 0 for at in range(len(shape)))
    stops = tuple(stop if at == axis else size for at, size in enumerate(shape))
    return build.add(Slice(starts, stops, (1,) * len(shape)), x)


def split_arg_max(build: Builder, axis: int, x: Value, most: int) -> Value:
    """The first of the largest of parts, and where in its part it is first."""
    size = concrete_shape(x.type.shape)[axis]
    if size <= most:
        return build.add(ArgMax(axis), x)
    length = most
    whole = (size // length) * length
    if whole < size:
        return _arg_max_with_tail(build, axis, x, whole, most)
    folded = _folded(build, x, axis, size // length, length)
    largest = split_reduction(build, ReduceMax((axis + 1,)), folded, most)
    within = build.add(ArgMax(axis + 1), folded)
    part = split_arg_max(build, axis, largest, most)
    return build.add(
        Add(),
        build.add(Mul(), part, full(build, part.type, length)),
        _picked(build, within, part, axis),
    )


def _picked(build: Builder, within: Value, part: Value, axis: int) -> Value:
    """Returns, from each row of `within`, the element at the index that `part` gives."""
    shape = within.type.shape
    kept = others((axis,), len(shape))
    numbers = build.add(Broadcast(shape, (axis,)), build.add(Iota(shape[axis])))
    same = build.add(Compare("eq"), numbers, build.add(Broadcast(shape, kept), part))
    chosen = build.add(Where(), same, within, full(build, within.type, 0))
    return build.add(Sum((axis,)), chosen)


def _arg_max_with_tail(build: Builder, axis: int, x: Value, whole: int, most: int) -> Value:
    size = concrete_shape(x.type.shape)[axis]
    parts = [part(build, x, axis, *ends) for ends in ((0, whole), (whole, size))]
    head, tail = (split_arg_max(build, axis, part, most) for part in parts)
    moved = build.add(Add(), tail, full(build, tail.type, whole))
    # A comparison of the two maxima would not see that NaN is the largest.
    row = concrete_shape(head.type.shape)
    alone = Reshape((*row[:axis], 1, *row[axis:]))
    largest = (split_reduction(build, ReduceMax((axis,)), part, most) for part in parts)
    both = build.add(Concat(axis), *(build.add(alone, each) for each in largest))
    which = build.add(ArgMax(axis), both)
    first = build.add(Compare("eq"), which, full(build, which.type, 0))
    return build.add(Where(), first, head, moved)
