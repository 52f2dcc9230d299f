"""Scatters: elements of a tensor replaced, or combined, at positions that others give."""

from collections.abc import Mapping

from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import Size
from meganeura_runtime.importing.onnx.builder import Builder
from meganeura_runtime.importing.onnx.code import Code, Level, Ref, Tensor, listed, size_piece
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Node, Value
from meganeura_runtime.importing.onnx.ops.elementwise import Entry
from meganeura_runtime.importing.onnx.ops.movement import counted


def _scatter(
    build: Builder, callee: str, ids: Tensor, updates: Tensor, size: Size, batch: int, empty: str
) -> Tensor:
    """Returns the updates combined at each position of a new axis."""
    parts = [(Ref(ids.id),), (Ref(updates.id),), (size_piece(size),)]
    parts += [(empty,)] if empty else []
    parts += [(f"axis={batch}",), (f"batch={batch}",)] if batch else []
    shape = (*updates.shape[:batch], size, *updates.shape[ids.rank :])
    return build.add(Code((callee, "(", *listed(parts), ")"), Level.ATOM), updates.dtype, shape)


def _combined(
    build: Builder, data: Tensor, ids: Tensor, updates: Tensor, batch: int, reduction: str
) -> Tensor:
    """A table whose axis `batch` is replaced, or combined, where ids say."""
    size = data.shape[batch]
    is_bool = data.dtype is DType.BOOL
    if not is_bool and not (data.dtype.is_float or data.dtype is DType.I32):
        raise UnsupportedNodeError(f"it is applied to {data.dtype.value}")
    if is_bool:
        data, updates = build.cast(data, DType.F32), build.cast(updates, DType.F32)
    match reduction:
        case "none":
            ones = build.filled(1, DType.F32, ids.shape)
            hits = _scatter(build, "scatter_add", ids, ones, size, batch, "")
            there = build.binary(">", hits, 0.0)
            rest = data.shape[batch + 1 :]
            if rest:
                there = build.expand(
                    build.reshape(there, (*there.shape, *(1,) * len(rest))), data.shape
                )
            arrived = _scatter(build, "scatter_add", ids, updates, size, batch, "")
            built = build.where(there, arrived, data)
        case "add":
            built = build.binary(
                "+", data, _scatter(build, "scatter_add", ids, updates, size, batch, "")
            )
        case "max" | "min" if data.dtype.is_float:
            empty = "-3.4028235e38" if reduction == "max" else "3.4028235e38"
            arrived = _scatter(build, f"scatter_{reduction}", ids, updates, size, batch, empty)
            built = build.pair("maximum" if reduction == "max" else "minimum", data, arrived)
        case _:
            raise UnsupportedNodeError(f"its reduction is `{reduction[:40]}`")
    return build.binary("!=", built, 0.0) if is_bool else built


def _scatter_elements(node: Node) -> list[Value | None]:
    build, data, ids, updates = node.build, node.tensor(0), node.tensor(1), node.tensor(2)
    axis = node.axis(0)
    order = [each for each in range(data.rank) if each != axis]
    if not all(build.same(data.shape[each], ids.shape[each]) for each in order):
        raise UnsupportedNodeError("its indices do not reach along all other axes")
    last = [*order, axis]
    ids = counted(build, ids, data.shape[axis])
    table, positions, parts = (build.transpose(each, last) for each in (data, ids, updates))
    reduction = node.attribute("reduction", "none")
    built = _combined(build, table, positions, parts, data.rank - 1, reduction)
    return [build.transpose(built, [last.index(each) for each in range(data.rank)])]


def _scatter_nd(node: Node) -> list[Value | None]:
    build, data, ids, updates = node.build, node.tensor(0), node.tensor(1), node.tensor(2)
    depth = ids.shape[-1]
    if not isinstance(depth, int) or not 1 <= depth <= data.rank:
        raise UnsupportedNodeError("the length of an index is not known")
    position = counted(build, build.entry(ids, ids.rank - 1, 0), data.shape[0])
    size = data.shape[0]
    for level in range(1, depth):
        step = data.shape[level]
        part = counted(build, build.entry(ids, ids.rank - 1, level), step)
        position = build.binary("+", build.binary("*", position, step), part)
        size = size * step
    rest = data.shape[depth:]
    count: Size = 1
    for each in position.shape:
        count = count * each
    table = build.reshape(data, (size, *rest))
    rows = build.reshape(updates, (count, *rest))
    built = _combined(
        build,
        table,
        build.reshape(position, (count,)),
        rows,
        0,
        node.attribute("reduction", "none"),
    )
    return [build.reshape(built, data.shape)]


OPS: Mapping[str, Entry] = {
    "ScatterElements": _scatter_elements,
    "Scatter": _scatter_elements,
    "ScatterND": _scatter_nd,
}
"""The translation of each op."""
