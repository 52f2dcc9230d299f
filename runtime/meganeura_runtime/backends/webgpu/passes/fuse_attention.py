"""Attention fusion: which attentions become FlashAttention kernels, and what the others become."""

from collections.abc import Sequence

from meganeura_dsl.ir.graph import Builder, Graph, Op, Value, rebuild
from meganeura_dsl.ir.ops import Add, Div, Exp, Log, Maximum, Mul, Reshape, Slice, Sub
from meganeura_dsl.ir.ops.fused.attention import Attention, AttentionGradient
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.codegen.attention.kernel_choice import is_fused, kv_splits
from meganeura_runtime.backends.webgpu.codegen.attention.scores import Heads
from meganeura_runtime.backends.webgpu.config.limits import Target
from meganeura_runtime.backends.webgpu.ops.attention import (
    FlashAttention,
    FlashAttentionBackwardKV,
    FlashAttentionBackwardQ,
)


def fuse_attention(graph: Graph, target: Target) -> Graph:
    """The same step, with attention that a kernel makes faster in the ops that kernels make."""
    build = Builder()
    trained = {
        value.application
        for value in graph.values
        if isinstance(value.op, Attention) and value.index > 0
    }

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        """The result of an op on changed operands. No kernel reads a mask."""
        op = value.op
        masked = len(operands) > len(op.operands.required)
        if isinstance(op, Attention | AttentionGradient) and not masked:
            whole = Attention(*op.form)
            heads = Heads(whole, *operands[:3])
            trains = isinstance(op, AttentionGradient) or value.application in trained
            if is_fused(heads, target, trains=trains):
                if isinstance(op, AttentionGradient):
                    return _gradient(build, whole, value.index, operands)
                parts = kv_splits(heads, target.limits)
                built = build.add_all(FlashAttention(whole, parts), *operands)
                return (built if parts == 1 else _combined(build, *built))[value.index]
        return build.reapply(value, *operands)

    return rebuild(graph, build, change)


def _gradient(build: Builder, whole: Attention, index: int, operands: Sequence[Value]) -> Value:
    if index == 0:
        return build.add(FlashAttentionBackwardQ(whole), *operands)
    return build.add_all(FlashAttentionBackwardKV(whole), *operands)[index - 1]


def _combined(build: Builder, means: Value, rows: Value) -> tuple[Value, Value]:
    """The means of all parts, weighted by how much of all weights is theirs, and the logarithms."""
    add, parts = build.add, range(concrete_shape(rows.type.shape)[0])
    each = [_part(build, rows, part) for part in parts]
    largest = _folded(build, Maximum(), each)
    total = _folded(build, Add(), [add(Exp(), add(Sub(), one, largest)) for one in each])
    axes = tuple(range(1, rows.type.rank))
    every = [add(Broadcast(rows.type.shape, axes), one) for one in (largest, total)]
    shares = add(Div(), add(Exp(), add(Sub(), rows, every[0])), every[1])
    weighted: list[Value] = []
    for part in parts:
        mean, share = _part(build, means, part), _part(build, shares, part)
        beside = Broadcast(mean.type.shape, tuple(range(share.type.rank)))
        weighted.append(add(Mul(), mean, add(beside, share)))
    return _folded(build, Add(), weighted), add(Add(), largest, add(Log(), total))


def _part(build: Builder, of: Value, part: int) -> Value:
    """Returns the slice of a value that belongs to a part."""
    _, *rest = concrete_shape(of.type.shape)
    starts, stops = (part, *(0 for _ in rest)), (part + 1, *rest)
    one = build.add(Slice(starts, stops, (1,) * of.type.rank), of)
    return build.add(Reshape(tuple(rest)), one)


def _folded(build: Builder, op: Op, values: Sequence[Value]) -> Value:
    folded, *others = values
    for value in others:
        folded = build.add(op, folded, value)
    return folded
