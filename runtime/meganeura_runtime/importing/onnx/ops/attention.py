"""Parts of attention, for ONNX functions whose definition has slices without elements."""

from collections.abc import Mapping

from meganeura_runtime.importing.onnx.code import Tensor
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Node, Value
from meganeura_runtime.importing.onnx.ops.elementwise import Entry


def _rotary(node: Node) -> list[Value | None] | None:
    """Rotated pairs of features, all of them; where some are left alone, the function is read."""
    if node.attribute("rotary_embedding_dim", 0):
        return None
    build, x = node.build, node.tensor(0)
    if x.rank == 4:
        rows = build.transpose(x, (0, 2, 1, 3))
        return [build.transpose(_rotated(node, rows), (0, 2, 1, 3))]
    heads, width = node.attribute("num_heads", 0), x.shape[-1]
    if x.rank != 3 or heads < 1 or not isinstance(width, int) or width % heads:
        raise UnsupportedNodeError("it has no heads of equal size")
    rows = build.reshape(x, (*x.shape[:2], heads, width // heads))
    return [build.reshape(_rotated(node, rows), x.shape)]


def _rotated(node: Node, x: Tensor) -> Tensor:
    """Rotates each pair (a, b) of [n, s, heads, d] to (a cos - b sin, a sin + b cos)."""
    build, d = node.build, x.shape[-1]
    if not isinstance(d, int) or d % 2:
        raise UnsupportedNodeError("its heads have no even size")
    half, interleaved = d // 2, bool(node.attribute("interleaved", 0))
    cos, sin = (_angles(node, index, x) for index in (1, 2))
    if interleaved:
        pairs = build.reshape(x, (*x.shape[:-1], half, 2))
        a, b = (build.entry(pairs, 4, index) for index in range(2))
    else:
        a, b = build.between(x, 3, 0, half), build.between(x, 3, half, d)
    first = build.binary("-", build.binary("*", a, cos), build.binary("*", b, sin))
    second = build.binary("+", build.binary("*", a, sin), build.binary("*", b, cos))
    if not interleaved:
        return build.concat([first, second], 3)
    columns = [build.reshape(each, (*each.shape, 1)) for each in (first, second)]
    return build.reshape(build.concat(columns, 4), x.shape)


def _angles(node: Node, index: int, x: Tensor) -> Tensor:
    """A table of [positions, d / 2] or [n, s, d / 2], as [n, s, 1, d / 2]."""
    build, table = node.build, node.tensor(index)
    if node.has(3):
        table = build.gather(table, node.tensor(3), 0)
    if table.rank != 3:
        raise UnsupportedNodeError("its tables have other axes")
    wanted = (x.shape[0], x.shape[1], x.shape[3] // 2)
    for size, other in zip(table.shape, wanted, strict=True):
        build.need("==", size, other, "its tables have other sizes")
    return build.reshape(table, (*table.shape[:2], 1, table.shape[2]))


OPS: Mapping[str, Entry] = {"RotaryEmbedding": _rotary}
"""The translation of each op."""
