"""What a kernel does, in a few words: `conv 3x3 64->64 @56x56 + bias + relu`."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from meganeura_dsl.ir.graph import Leaf, Op, Value
from meganeura_dsl.ir.ops import (
    Add,
    Compare,
    Conv,
    ConvInputGradient,
    ConvWeightGradient,
    Erf,
    MatMul,
    Maximum,
    Sqrt,
    Where,
)
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast, is_zero
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.ops.primitive.pool import Pooling
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_dsl.ir.types import TensorType
from meganeura_runtime.backends.webgpu.analysis.materialize import is_contraction, is_reduction
from meganeura_runtime.backends.webgpu.analysis.recompute_cost import is_free
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import Work
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import contraction_of
from meganeura_runtime.backends.webgpu.ops.lowered import SplitKPartial, plain

MOST_WORDS = 4
"""Words about what follows a sum; more of them would say less."""
UPDATE = "update"
SIGNS: Mapping[type[Op], str] = {Erf: "gelu", Sqrt: "norm"}
"""Ops that tell what a formula is."""
SILENT = ("compare", "stop gradient")
ARITHMETIC = (*SILENT, "add", "sub", "mul", "div", "neg", "where", "cast")
"""Words that say nothing beside others."""


@dataclass(frozen=True, slots=True)
class KernelName:
    """The kind of a kernel, the sizes it works on, and what it does besides."""

    kind: str
    sizes: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        shown = self.words[:MOST_WORDS]
        more = ("...",) if len(self.words) > MOST_WORDS else ()
        return " + ".join([f"{self.kind} {self.sizes}".rstrip(), *shown, *more])


def kernel_name(work: Work, computed: Sequence[Value], updates: Collection[int]) -> KernelName:
    """What a kernel does that computes these values, in this order.

    `updates` are the values that replace parameters and states.
    """
    words = tuple(dict.fromkeys(_words(work, computed, updates)))
    if work.anchors:
        kinds = dict.fromkeys(_kind(plain(anchor)[0]) for anchor in work.anchors)
        return KernelName("+".join(kinds), _sizes(work.anchors[0]), words)
    sizes = _times(concrete_shape(work.stores[0].type.shape))
    if words == (UPDATE,):
        return KernelName(UPDATE, sizes, ())
    return KernelName("map", sizes, words)


def op_name(value: Value) -> KernelName:
    """What one op does, where each is run for itself."""
    return KernelName(_kind(plain(value)[0]), _sizes(value), ())


def _kind(op: Op) -> str:
    match op:
        case ConvInputGradient():
            return "conv to input"
        case ConvWeightGradient():
            return "conv to weight"
        case _:
            return _spaced(type(op).__name__)


def _spaced(name: str) -> str:
    """`ReduceMax` is `reduce max`, `MatMul` is `matmul`."""
    return "matmul" if name == "MatMul" else re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def _sizes(anchor: Value) -> str:
    if isinstance(anchor.op, SplitKPartial):
        return f"{_contracted(anchor)} in {anchor.op.parts} parts"
    if is_contraction(anchor):
        return _contracted(anchor)
    if isinstance(anchor.op, Pooling):
        window = _times(concrete_shape(anchor.op.window))
        return f"{window}{_stride(anchor.op.stride)} @{_shape(anchor)}"
    results = prod(concrete_shape(anchor.type.shape))
    if is_reduction(anchor) and len(anchor.operands) == 1:
        terms = prod(concrete_shape(anchor.operands[0].type.shape)) // results
        return f"{results}x{terms}"
    return _shape(anchor)


def _contracted(value: Value) -> str:
    op, of = plain(value)
    match op:
        case MatMul():
            found = contraction_of(value)
            batch = found.batch[1:] if isinstance(value.op, SplitKPartial) else found.batch
            sizes = (prod(found.rows), prod(found.columns), _terms(op, value))
            return _times((prod(batch), *sizes) if prod(batch) > 1 else sizes)
        case Conv() | ConvInputGradient() | ConvWeightGradient():
            return _convolved(op, value, of)
        case _:
            return _shape(value)


def _terms(op: MatMul, value: Value) -> int:
    """Terms of the whole product, of which a part sums fewer."""
    shape = concrete_shape(value.operands[1].type.shape)
    return shape[-1] if op.transpose_right else shape[-2]


def _convolved(op: Convolution, value: Value, of: TensorType) -> str:
    """`3x3/2 64->128 @28x28`: kernel, stride, channels, and the pixels of the output."""
    a, b = (concrete_shape(operand.type.shape) for operand in value.operands)
    groups = concrete(op.groups)
    match op:
        case Conv():
            outputs, depth, *kernel = b
            pixels = concrete_shape(of.shape)[2:]
        case ConvInputGradient():
            outputs, depth, *kernel = a
            pixels = b[2:]
        case ConvWeightGradient(kernel=sizes):
            outputs, depth, kernel = b[1], a[1] // groups, list(concrete_shape(sizes))
            pixels = b[2:]
        case _:
            raise TypeError(f"{op} is no convolution")
    grouped = f" in {groups} groups" if groups > 1 else ""
    channels = f"{depth * groups}->{outputs}{grouped}"
    return f"{_times(kernel)}{_stride(op.stride)} {channels} @{_times(pixels)}"


def _stride(stride: Iterable[object]) -> str:
    """`/2`, where it is not 1."""
    steps = [str(step) for step in stride]
    if all(step == "1" for step in steps):
        return ""
    return f"/{steps[0] if len(set(steps)) == 1 else 'x'.join(steps)}"


def _shape(value: Value) -> str:
    return _times(concrete_shape(value.type.shape))


def _times(sizes: Iterable[int]) -> str:
    return "x".join(map(str, sizes)) or "1"


# --- what follows --------------------------------------------------------------------------------


def _words(work: Work, computed: Sequence[Value], updates: Collection[int]) -> Iterable[str]:
    """What is made of the anchors, or, without any, of what is read."""
    if any(value.id in updates for value in work.stores):
        return [UPDATE]
    found = _following(work.anchors, computed) if work.anchors else computed
    words = [_word(value) for value in found if not is_free(value.op)]
    telling = [word for word in words if word not in ARITHMETIC]
    return telling or [word for word in words if word not in SILENT]


def _following(anchors: Sequence[Value], computed: Sequence[Value]) -> list[Value]:
    """The values that are computed from the anchors."""
    found = {anchor.id for anchor in anchors}
    following: list[Value] = []
    for value in computed:
        if value.id not in found and any(operand.id in found for operand in value.operands):
            found.add(value.id)
            following.append(value)
    return following


def _word(value: Value) -> str:
    if _is_bias(value):
        return "bias"
    if _is_relu(value):
        return "relu"
    return SIGNS.get(type(value.op), _spaced(type(value.op).__name__))


def _is_bias(value: Value) -> bool:
    """The sum of something and a parameter that is repeated."""
    return isinstance(value.op, Add) and any(
        isinstance(each.op, Broadcast) and isinstance(each.operands[0].op, Leaf)
        for each in value.operands
    )


def _is_relu(value: Value) -> bool:
    """max(x, 0), or x where it is not below 0."""
    match value.op:
        case Maximum():
            return any(map(is_zero, value.operands))
        case Where():
            condition, *branches = value.operands
            compared = isinstance(condition.op, Compare) and condition.operands[0] in branches
            return compared and any(map(is_zero, branches))
        case _:
            return False
