"""Whole numbers of at most 16 bits, which are i32 in a program: what they may be, and what wraps.

The program computes with 32 bits. So sums and products are brought back between the limits, and an
op for which nothing is known here is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from onnx import TensorProto as Proto

from meganeura_dsl.ir.types import DType
from meganeura_runtime.importing.onnx.builder import Builder
from meganeura_runtime.importing.onnx.code import Limits, Tensor
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Known, Node, Value

BITS: Mapping[int, int] = {
    Proto.INT16: -16, Proto.INT8: -8, Proto.INT4: -4, Proto.INT2: -2,
    Proto.UINT16: 16, Proto.UINT8: 8, Proto.UINT4: 4, Proto.UINT2: 2,
}  # fmt: skip
"""The bits of each type, below 0 for signed ones."""


def _limits(kind: int, bits: int) -> Limits:
    low = -(1 << (-bits - 1)) if bits < 0 else 0
    return Limits(Proto.DataType.Name(kind).lower(), low, low + (1 << abs(bits)) - 1)


SMALL: Mapping[int, Limits] = {kind: _limits(kind, bits) for kind, bits in BITS.items()}
"""The limits of each element type of ONNX that is small."""
BY_NAME: Mapping[str, Limits] = {each.name: each for each in SMALL.values()}
MOVES = frozenset({
    "Clip", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND",
    "Identity", "Max", "Min", "Mod", "Pad", "Relu", "Reshape", "Slice", "SpaceToDepth", "Split",
    "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where",
})  # fmt: skip
"""Ops whose results are among their operands, or smaller."""
SUMS = frozenset({"Add", "Sub", "Mul", "Div", "Neg", "Abs"})
"""Ops whose results wrap around."""
READERS = frozenset({
    "ArgMax", "ArgMin", "Cast", "CastLike", "ConvInteger", "DequantizeLinear", "Equal", "Greater",
    "GreaterOrEqual", "Less", "LessOrEqual", "MatMulInteger", "QLinearConv", "QLinearMatMul",
    "QuantizeLinear", "Shape", "Size",
})  # fmt: skip
"""Ops that give something else than small numbers, or say themselves what they give."""


def limits_of(build: Builder, value: Value | None) -> Limits | None:
    """The limits of a value, None if it is not small."""
    if isinstance(value, Tensor):
        return build.limits.get(value.id)
    if value is None or value.limits is not None:
        return None if value is None else value.limits
    return BY_NAME.get(value.array.dtype.name)


def is_wide(build: Builder, value: Value) -> bool:
    """True; raises `UnsupportedNodeError` for a small value, which a loop would carry as i32."""
    limits = limits_of(build, value)
    if limits is not None:
        raise UnsupportedNodeError(f"it carries numbers of type {limits.name}")
    return True


def with_limits(build: Builder, value: Value, limits: Limits) -> Value:
    """The value, of which it is remembered between which limits it is."""
    if isinstance(value, Known):
        return replace(value, limits=limits)
    build.limits[value.id] = limits
    return value


def small_results(
    node: Node, run: Callable[[Node], Sequence[Value | None]]
) -> Sequence[Value | None]:
    """The results of a node of which some operands may be small."""
    build = node.build
    found = {each for value in node.inputs if (each := limits_of(build, value)) is not None}
    if not found or node.op in READERS:
        return run(node)
    names = " and ".join(sorted(each.name for each in found))
    if len(found) > 1:
        raise UnsupportedNodeError(f"{names} meet")
    (limits,) = found
    if node.op == "MaxPool":
        (largest,) = run(replace(node, inputs=[as_float(node, node.value(0))]))
        assert isinstance(largest, Tensor)
        return [as_small(build, largest, limits)]
    if node.op not in MOVES | SUMS:
        raise UnsupportedNodeError(f"it is not read of {names}")
    results = run(node)
    if node.op in SUMS:
        results = [each and wrapped(node, each, limits) for each in results]
    return [each and with_limits(build, each, limits) for each in results]


def wrapped(node: Node, value: Value, limits: Limits) -> Value:
    """Whole numbers modulo the number of those between the limits."""
    build, count = node.build, limits.high - limits.low + 1
    if isinstance(value, Known):
        array = (value.array.astype(np.int64) - limits.low) % count + limits.low
        return replace(value, array=array)
    if limits.low:
        value = build.binary("+", value, -limits.low)
    value = build.binary("%", value, count)
    return build.binary("-", value, -limits.low) if limits.low else value


def as_float(node: Node, value: Value) -> Tensor:
    """The numbers as f32."""
    known = node.build.floats.get(value.id) if isinstance(value, Tensor) else None
    if known is not None:
        return known
    x = value if isinstance(value, Tensor) else node.written(value)
    return node.build.cast(x, DType.F32)


def as_small(build: Builder, levels: Tensor, limits: Limits) -> Tensor:
    """Floats that are whole numbers between limits, as whole numbers."""
    built = build.cast(levels, DType.I32)
    build.limits[built.id] = limits
    build.floats[built.id] = levels
    return built
