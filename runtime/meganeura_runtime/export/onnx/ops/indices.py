"""Reads and writes at computed positions, and sorting."""

from collections.abc import Mapping, Sequence

import numpy as np

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import (
    DynamicSlice,
    DynamicUpdate,
    Gather,
    ScatterAdd,
    ScatterExtreme,
    Sort,
)
from meganeura_dsl.ir.ops.primitive.gather_scatter import Combination, combination
from meganeura_dsl.ir.types import DType
from meganeura_runtime.export.onnx.attributes import refused
from meganeura_runtime.export.onnx.emitter import ELEMENT
from meganeura_runtime.export.onnx.lowering import INT64, Lower, Lowering, OnnxTensor, exact
from meganeura_runtime.io.tensors.stored_tensor import NUMPY

EXTREMES_SINCE = 18
"""The opset from which `ScatterND` takes the larger or the smaller."""


# --- tables --------------------------------------------------------------------------------------


def _gather(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op, (table, ids) = value.op, value.operands
    assert isinstance(op, Gather)
    add = into.emitter.add
    chosen = into.whole(ids)
    if op.batch or ids.type.dtype is DType.U32:
        chosen = add("Cast", chosen, to=INT64)
    if not op.batch:
        return (exact(add("Gather", into.whole(table), chosen, axis=op.axis), value),)
    # GatherND indexes the axis behind those in common, and leaves what it picks in its place.
    batch, axis, rank = op.batch, op.axis, table.type.rank
    rows = ids.type.rank - batch
    first = (*range(batch), axis, *range(batch, axis), *range(axis + 1, rank))
    columns = add("Unsqueeze", chosen, into.emitter.integers([ids.type.rank]))
    source = _transposed(into, into.whole(table), first)
    picked = add("GatherND", source, columns, batch_dims=batch)
    middle = range(batch + rows, axis + rows)
    behind = range(axis + rows, value.type.rank)
    order = (*range(batch), *middle, *range(batch, batch + rows), *behind)
    return (exact(_transposed(into, picked, order), value),)


def _scatter(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op, (ids, updates) = value.op, value.operands
    assert isinstance(op, ScatterAdd | ScatterExtreme)
    kind: Combination = "sum" if isinstance(op, ScatterAdd) else op.kind
    if kind != "sum" and into.emitter.opset < EXTREMES_SINCE:
        raise refused(value, f"it has a counterpart from opset {EXTREMES_SINCE} on")
    batch, axis, rows = op.batch, op.axis, ids.type.rank - op.batch
    # ScatterND replaces along the first axes: those in common, then the one that ids name.
    order = (
        *range(batch),
        *range(axis, axis + rows),
        *range(batch, axis),
        *range(axis + rows, updates.type.rank),
    )
    source = _transposed(into, into.whole(updates), order)
    shape = value.type.shape
    sizes = (*shape[:batch], shape[axis], *shape[batch:axis], *shape[axis + 1 :])
    of = NUMPY[value.type.dtype]
    number = into.emitter.constant(np.array(combination(kind, np.zeros((), of))[1], of))
    table = into.emitter.add("Expand", number, into.sizes.shape(sizes))
    reduction = {"sum": "add", "max": "max", "min": "min"}[kind]
    indices = _positions(into, ids, batch)
    total = into.emitter.add("ScatterND", table, indices, source, reduction=reduction)
    back = (
        *range(batch),
        *range(batch + 1, axis + 1),
        batch,
        *range(axis + 1, value.type.rank),
    )
    return (exact(_transposed(into, total, back), value),)


def _positions(into: Lowering, ids: Value, batch: int) -> str:
    """Returns the target of each id: its position along the common axes, and the id."""
    add, rank = into.emitter.add, ids.type.rank
    wide = add("Cast", into.whole(ids), to=INT64)
    last = into.emitter.integers([rank])
    columns = [add("Unsqueeze", wide, last)]
    if not batch:
        return columns[0]
    shape = into.sizes.shape((*ids.type.shape, 1))
    for axis in reversed(range(batch)):
        indices = add("Cast", into.indices(ids.type.shape[axis]), to=INT64)
        others = [each for each in range(rank + 1) if each != axis]
        along = add("Unsqueeze", indices, into.emitter.integers(others))
        columns.insert(0, add("Expand", along, shape))
    return add("Concat", *columns, axis=rank)


def _transposed(into: Lowering, x: str, order: tuple[int, ...]) -> str:
    if order == tuple(range(len(order))):
        return x
    return into.emitter.add("Transpose", x, perm=order)


# --- parts ---------------------------------------------------------------------------------------


def _dynamic_slice(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op, (x, *starts) = value.op, value.operands
    assert isinstance(op, DynamicSlice)
    if not starts:
        return (into.tensors[x.id],)
    first = _starts(into, starts)
    end = into.emitter.add("Add", first, into.sizes.shape(op.sizes))
    return (exact(into.emitter.add("Slice", into.whole(x), first, end), value),)


def _dynamic_update(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    """Each element is chosen by a mask of the part, which has the shape of the whole."""
    x, part, *starts = value.operands
    axes = [
        axis
        for axis, (size, whole) in enumerate(zip(part.type.shape, x.type.shape, strict=True))
        if size != whole
    ]
    if not axes:
        return (into.tensors[part.id],)
    add = into.emitter.add
    # Not of bools, and chosen as numbers: `Pad` and `Where` have no such kernels everywhere.
    is_bool = x.type.dtype is DType.BOOL
    whole, inner = into.whole(x), into.whole(part)
    if is_bool:
        whole, inner = (add("Cast", each, to=ELEMENT[DType.I32]) for each in (whole, inner))
    if all(part.type.shape[axis] == 1 for axis in axes):
        mask = _at_starts(into, x, starts, axes)
    else:
        before = _starts(into, starts)
        room = add("Sub", into.sizes.shape(x.type.shape), into.sizes.shape(part.type.shape))
        pads = add("Concat", before, add("Sub", room, before), axis=0)
        one = into.emitter.constant(np.ones((), np.int32))
        ones = add("Expand", one, into.sizes.shape(part.type.shape))
        mask = add("Cast", add("Pad", ones, pads), to=ELEMENT[DType.BOOL])
        inner = add("Pad", inner, pads)
    found = add("Where", mask, inner, whole)
    return (exact(add("Cast", found, to=ELEMENT[DType.BOOL]) if is_bool else found, value),)


def _at_starts(into: Lowering, x: Value, starts: list[Value], axes: Sequence[int]) -> str:
    """Returns a mask of the elements at the starts along some axes, as it broadcasts to `x`."""
    add, mask = into.emitter.add, ""
    for axis in axes:
        here = add("Equal", into.indices(x.type.shape[axis]), into.whole(starts[axis]))
        behind = list(range(1, x.type.rank - axis))
        if behind:
            here = add("Unsqueeze", here, into.emitter.integers(behind))
        mask = add("And", mask, here) if mask else here
    return mask


def _starts(into: Lowering, starts: list[Value]) -> str:
    """Returns the start of a part, as a vector of int64."""
    zero = into.emitter.integers([0])
    rows = [into.emitter.add("Unsqueeze", into.whole(each), zero) for each in starts]
    return into.emitter.add("Cast", into.emitter.add("Concat", *rows, axis=0), to=INT64)


# --- order ---------------------------------------------------------------------------------------


def _sort(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    """All of the largest, or smallest: of equal elements the first comes first there too."""
    op, (x,) = value.op, value.operands
    assert isinstance(op, Sort)
    add, of = into.emitter.add, x.type.dtype
    given = into.whole(x)
    if of is DType.U32:
        given = add("Cast", given, to=INT64)
    count = into.sizes.vector(x.type.shape[op.axis])
    values, indices = into.emitter.add_all(
        "TopK", 2, given, count, axis=op.axis, largest=int(op.descending), sorted=1
    )
    if of is DType.U32:
        values = add("Cast", values, to=ELEMENT[of])
    positions = add("Cast", indices, to=ELEMENT[DType.I32])
    return exact(values, value), exact(positions, value)


OPS: Mapping[type[Op], Lower] = {
    DynamicSlice: _dynamic_slice,
    DynamicUpdate: _dynamic_update,
    Gather: _gather,
    ScatterAdd: _scatter,
    ScatterExtreme: _scatter,
    Sort: _sort,
}
