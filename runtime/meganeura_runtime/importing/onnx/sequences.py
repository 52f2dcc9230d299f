"""Sequences of tensors whose length is known, as `torch.chunk` and `torch.split` are written.

They are never values of the program: what is taken from one is.
"""

from collections.abc import Mapping, Sequence

from meganeura_dsl.symbolic.size import Size
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Known, Node, Value, known_sizes
from meganeura_runtime.importing.onnx.ops.movement import parts_along

SEQUENCES = frozenset({
    "ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
    "SequenceInsert", "SequenceLength", "SplitToSequence",
})  # fmt: skip
"""The ops that make sequences or read them."""
MOST_PARTS = 4096

Found = Sequence[Value]


def sequence_op(node: Node, names: Sequence[str], known: Mapping[str, Found]) -> Found | Value:
    """The sequence that an op makes, or the tensor that it reads of one.

    `names` are those of the operands, `known` has the sequences so far.
    Raises `UnsupportedNodeError`.
    """
    match node.op:
        case "SequenceEmpty":
            return ()
        case "SequenceConstruct":
            return [node.value(index) for index in range(len(node.inputs))]
        case "SplitToSequence":
            return _split(node)
        case _:
            pass
    parts = known.get(names[0]) if names else None
    if parts is None:
        raise UnsupportedNodeError("its sequence is not known")
    match node.op:
        case "SequenceLength":
            return known_sizes(len(parts))
        case "SequenceAt":
            return parts[_position(node, 1, len(parts))]
        case "SequenceErase":
            at = _position(node, 1, len(parts)) if node.has(1) else len(parts) - 1
            return [*parts[:at], *parts[at + 1 :]]
        case "SequenceInsert":
            at = _position(node, 2, len(parts) + 1) if node.has(2) else len(parts)
            return [*parts[:at], node.value(1), *parts[at:]]
        case _:
            return _joined(node, parts)


def _position(node: Node, index: int, count: int) -> int:
    """A place in a sequence, counted from the front."""
    (at,) = node.integers(index, "positions")
    if not -count <= at < count:
        raise UnsupportedNodeError(f"there is no place {at} in a sequence of {count}")
    return at % count


def _split(node: Node) -> Found:
    x, axis = node.tensor(0), node.axis(0)
    size = x.shape[axis]
    sizes: list[Size] = [1]
    is_each = True
    if node.has(1):
        sizes, is_each = node.sizes(1, "sizes"), node.value(1).rank == 0
    if is_each:
        each = sizes[0]
        count = -(-size // each)
        if not isinstance(count, int):
            raise UnsupportedNodeError(f"how many parts it makes depends on sizes: {count}")
        if not 1 <= count <= MOST_PARTS:
            raise UnsupportedNodeError(f"it makes {count:,} parts")
        sizes = [each] * (count - 1)
        sizes.append(size - each * (count - 1))
    parts = parts_along(node.build, x, axis, sizes)
    if node.has(1) or node.attribute("keepdims", 1):
        return parts
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return [node.build.reshape(part, shape) for part in parts]


def _joined(node: Node, parts: Found) -> Value:
    build = node.build
    tensors = [each if not isinstance(each, Known) else node.written(each) for each in parts]
    if not tensors:
        raise UnsupportedNodeError("it joins no tensors")
    rank, is_new = tensors[0].rank, node.attribute("new_axis", 0)
    axis = node.checked_axis(node.attribute("axis", 0), rank + is_new)
    if is_new:
        shapes = [(*each.shape[:axis], 1, *each.shape[axis:]) for each in tensors]
        tensors = [build.reshape(each, of) for each, of in zip(tensors, shapes, strict=True)]
    return build.concat(tensors, axis)
