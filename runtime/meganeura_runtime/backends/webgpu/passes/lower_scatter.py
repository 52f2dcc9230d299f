"""Scatters: by a scan of all ids for each row, or along lists of equal ids."""

from collections.abc import Mapping
from functools import reduce
from math import prod

from meganeura_dsl.ir.graph import Builder, Op, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Cast,
    Compare,
    Iota,
    Maximum,
    Minimum,
    ReduceMax,
    Reshape,
    ScatterAdd,
    ScatterExtreme,
    Where,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.ops.primitive.gather_scatter import Combination
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.ops.lowered import LinkedReduction
from meganeura_runtime.backends.webgpu.passes.split_reduction import (
    part,
    split_arg_max,
    split_reduction,
)

Scattering = ScatterAdd | ScatterExtreme
BETWEEN: Mapping[Combination, Op] = {"sum": Add(), "max": Maximum(), "min": Minimum()}
"""The op that combines two tables."""
FEW = 1 << 18
"""Ids compared, for all elements together, up to which lists are not worth their three kernels."""


def lower_scatter(build: Builder, op: Scattering, ids: Value, updates: Value, most: int) -> Value:
    """The table, whose rows see at most `most` ids at once."""
    common = concrete_shape(ids.type.shape[: op.batch])
    count = prod(concrete_shape(ids.type.shape[op.batch :]))
    shape = updates.type.shape
    flat = (*shape[: op.axis], count, *shape[op.axis + ids.type.rank - op.batch :])
    ids = build.add(Reshape((*common, count)), ids)
    if ids.type.dtype is not DType.I32:
        ids = build.add(Cast(DType.I32), ids)
    updates = build.add(Reshape(flat), updates)
    tables: list[Value] = []
    for start in range(0, count, most):
        ends = start, min(start + most, count)
        some = part(build, ids, op.batch, *ends), part(build, updates, op.axis, *ends)
        tables.append(_combined(build, op, *some, most))
    return reduce(lambda a, b: build.add(BETWEEN[_kind(op)], a, b), tables)


def _kind(op: Scattering) -> Combination:
    """Returns the way in which updates of one row are combined."""
    return op.kind if isinstance(op, ScatterExtreme) else "sum"


def _combined(build: Builder, op: Scattering, ids: Value, updates: Value, most: int) -> Value:
    """The table of some ids."""
    count = concrete(ids.type.shape[op.batch])
    rows = concrete(op.size)
    elements = prod(concrete_shape(updates.type.shape)) // count * rows
    if op.batch or elements * count <= FEW:
        return build.add(op, ids, updates)
    names = build.add(Iota(rows))
    first = _first_equal(build, names, ids, most)
    positions = build.add(Iota(count))
    later = build.add(
        Compare("gt"),
        build.add(Broadcast((count, count), (1,)), positions),
        build.add(Broadcast((count, count), (0,)), positions),
    )
    following = _first_equal(build, ids, ids, most, later)
    return build.add(LinkedReduction(_kind(op), op.axis), first, following, updates)


def _first_equal(
    build: Builder, wanted: Value, ids: Value, most: int, where: Value | None = None
) -> Value:
    """Returns the first place among `ids` of each wanted number; their count if none has it."""
    shape = (*wanted.type.shape, *ids.type.shape)
    same = build.add(
        Compare("eq"),
        build.add(Broadcast(shape, (0,)), wanted),
        build.add(Broadcast(shape, (1,)), ids),
    )
    found = build.add(Cast(DType.I32), same)
    if where is not None:
        found = build.add(Where(), where, found, full(build, found.type, 0))
    position = split_arg_max(build, 1, found, most)
    exists = split_reduction(build, ReduceMax((1,)), found, most)
    none = build.add(Compare("eq"), exists, full(build, exists.type, 0))
    (count,) = concrete_shape(ids.type.shape)
    return build.add(Where(), none, full(build, position.type, count), position)
