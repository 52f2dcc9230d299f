"""Followed back from a value: the layer that gave it, and the axis that its channels are on."""

from collections.abc import Callable, Collection

from meganeura_dsl.elaborate.scope.value_facts import Applied
from meganeura_dsl.elaborate.values import Tensor, is_assumed_tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.ops.primitive.elementwise import Binary, Unary
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import show
from meganeura_dsl.syntax import ast

SourceOf = Callable[[Tensor], Applied | None]
_MOST = 200
"""Values that are followed back."""
OF_PICTURES = (
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "depthwise_conv2d",
    "max_pool", "avg_pool", "batch_norm", "group_norm", "instance_norm", "ghost_batch_norm",
    "upsample",
)  # fmt: skip
"""Layers of the library whose results have their channels on axis 1."""
OF_FEATURES = ("linear", "embedding", "layer_norm", "rms_norm", "lstm", "gru")
"""Layers of the library whose results have their features on the last axis."""
_PLACES = (
    ("h", "w"),
    ("height", "width"),
    ("rows", "columns"),
    ("rows", "cols"),
    ("H", "W"),
)
"""Names of the last two axes of pictures whose channels come before them."""


def carried(value: Tensor, source_of: SourceOf) -> Tensor | None:
    """The operand that an elementwise op, or a layer of the library, keeps the axes of.

    None for other values. A constant, or a value that is repeated along axes, is not followed.
    """
    applied = source_of(value)
    if applied is not None:
        operands = applied.operands if applied.layer else ()
    elif isinstance(value.op, Unary | Binary | ops.Where | ops.Cast):
        operands = value.operands
    else:
        return None
    fitting = [
        each
        for each in operands
        if each.type.shape == value.type.shape and each.type.dtype.is_float
    ]
    rest = [each for each in fitting if not isinstance(each.op, ops.Broadcast | ops.Constant)]
    return rest[0] if rest else None


def channels_on(
    value: Tensor, source_of: SourceOf, names: dict[str, tuple[str, ...]]
) -> int | None:
    """The axis that the channels of a value are on: 1 or -1; None if nothing says it.

    `names` are the axes of inputs as they are written.
    """
    for _ in range(_MOST):
        applied = source_of(value)
        if applied is not None and applied.layer in OF_PICTURES:
            return 1
        if applied is not None and applied.layer in OF_FEATURES:
            return -1
        if isinstance(value.op, ops.Input) and not is_assumed_tensor(value):
            axes = names.get(value.op.name, ())
            return 1 if len(axes) == 4 and axes[2:] in _PLACES else None
        before = carried(value, source_of)
        if before is None:
            return None
        value = before
    return None


def layer_behind(value: Tensor, layers: Collection[str], source_of: SourceOf) -> Applied | None:
    """The layer of these names that gave a value, at most masked or dropped behind it."""
    for _ in range(_MOST):
        applied = source_of(value)
        if applied is not None and applied.layer in layers:
            return applied
        is_dropped = applied is not None and applied.layer in ("dropout", "dropout2d")
        if not is_dropped and not isinstance(value.op, ops.Where | ops.Mul):
            return None
        before = carried(value, source_of)
        if before is None:
            return None
        value = before
    return None


def product_behind(value: Tensor, source_of: SourceOf) -> Tensor | None:
    """The product `a @ b` of two computed values that a value is, scaled, shifted or masked."""
    for _ in range(_MOST):
        if isinstance(value.op, ops.MatMul):
            is_weight = any(isinstance(_moved(each).op, ops.Parameter) for each in value.operands)
            return None if is_weight else value
        before = carried(value, source_of)
        if before is None:
            return None
        value = before
    return None


def _moved(value: Tensor) -> Tensor:
    """A value without the moves of its axes."""
    while isinstance(value.op, ops.Reshape | ops.Transpose | ops.Broadcast):
        value = value.operands[0]
    return value


def split_from(value: Tensor, source_of: SourceOf) -> Tensor | None:
    """The value whose last axis was split in two to give one of four axes, none of them moved."""
    for _ in range(_MOST):
        if isinstance(value.op, ops.Reshape):
            source = value.operands[0]
            is_split = value.type.rank == 4 and source.type.rank == 3
            return value if is_split and source.type.shape[:2] == value.type.shape[:2] else None
        before = carried(value, source_of)
        if before is None:
            return None
        value = before
    return None


def inputs_of(value: Tensor, source_of: SourceOf) -> set[str]:
    """The names of the inputs that a value is computed from, through layers."""
    rest, seen, names = [value], set[int](), set[str]()
    while rest and len(seen) < _MOST:
        value = rest.pop()
        if value.id in seen:
            continue
        seen.add(value.id)
        applied = source_of(value)
        rest.extend(value.operands if applied is None else applied.operands)
        if isinstance(value.op, ops.Input) and not is_assumed_tensor(value):
            names.add(value.op.name)
    return names


def is_mask(value: Tensor) -> bool:
    """True if a value is a mask of 0 and 1: made of truth values, or an input called so."""
    for _ in range(_MOST):
        match value.op:
            case ops.Cast() if value.operands[0].type.dtype is DType.BOOL:
                return True
            case ops.Reshape() | ops.Transpose() | ops.Broadcast() | ops.Cast() | ops.Slice():
                value = value.operands[0]
            case ops.Input(name=name):
                return "mask" in name.lower()
            case _:
                return False
    return False


def is_number(value: Tensor, number: float) -> bool:
    """True if a value is one number everywhere."""
    value = value.operands[0] if isinstance(value.op, ops.Broadcast) else value
    return isinstance(value.op, ops.Constant) and value.op.value == number


def depends_on(value: Tensor, other: Tensor) -> bool:
    """True if a value is computed from another one, within the ops that were followed."""
    rest, seen = [value], set[int]()
    while rest and len(seen) < _MOST:
        value = rest.pop()
        if value is other:
            return True
        if value.id not in seen:
            seen.add(value.id)
            rest.extend(value.operands)
    return False


_EXAMPLES = ("n", "N", "b", "B", "bs", "batch", "batch_size")
_STEPS = ("s", "t", "l", "seq", "time", "steps", "length", "seq_len", "L", "T", "S")


def examples_of(block: ast.Block | ast.Train) -> str:
    """The name of the axis that counts examples in the inputs and results of a block; or empty.

    It comes first, or behind that of the steps of a sequence.
    """
    inputs = [[entry.span.text for entry in each.type.shape.entries] for each in block.inputs]
    declared = block.results or () if isinstance(block, ast.Block) else ()
    results = [[entry.span.text for entry in each.shape.entries] for each in declared]
    first = next((axes for axes in inputs if len(axes) > 1), [""])
    name = first[0]
    if len(first) > 2 and name in _STEPS and first[1] in _EXAMPLES:
        name = first[1]
    elif name not in _EXAMPLES or any(axes[:1] != [name] for axes in results):
        return ""
    if any(axes.count(name) > 1 for axes in (*inputs, *results)):
        return ""
    return name


def axes_of_inputs(block: ast.Block | ast.Train) -> dict[str, tuple[str, ...]]:
    """The axes of each input, as they are written."""
    return {
        each.name: tuple(entry.span.text for entry in each.type.shape.entries)
        for each in block.inputs
    }


def shown(value: Tensor) -> list[str]:
    """The axes of a value in text."""
    return [show(size) for size in value.type.shape]
