"""Which attentions become kernels of their own, and what takes the place of the others' ops.

A kernel makes one tensor. What else comes out of it lies beside: the normalizers beside the means,
and beside the gradient of each key that of its value. Both are read there in place.
"""

from collections.abc import Sequence

from meganeura_dsl.ir.graph import Builder, Graph, Op, Value, rebuild
from meganeura_dsl.ir.ops import Add, Div, Exp, Log, Maximum, Mul, Reshape, Slice, Sub
from meganeura_dsl.ir.ops.fused.attention import (
    Attention,
    AttentionGradient,
    AttentionKeyGradient,
    AttentionNormalizer,
    AttentionQueryGradient,
    AttentionValueGradient,
)
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.codegen.attention.kernel_choice import is_fused, kv_splits
from meganeura_runtime.backends.webgpu.codegen.attention.scores import Heads
from meganeura_runtime.backends.webgpu.config.limits import Target
from meganeura_runtime.backends.webgpu.ops.attention import (
    BESIDE,
    FlashAttention,
    FlashAttentionBackwardKV,
    FlashAttentionBackwardQ,
    FlashAttentionSplitKV,
)


def fuse_attention(graph: Graph, target: Target) -> Graph:
    """The same step, with attention that a kernel makes faster in the ops that kernels make."""
    build = Builder()
    return rebuild(graph, build, _Attending(build, graph, target).change)


class _Attending:
    def __init__(self, build: Builder, graph: Graph, target: Target) -> None:
        self._build = build
        self._target = target
        self._normalized = {
            (value.op.form, *_ids(value.operands))
            for value in graph.values
            if isinstance(value.op, AttentionNormalizer)
        }
        self._made: dict[tuple[object, ...], Value] = {}
        """What lies side by side, by the operands whose normalizers are in it."""

    def change(self, value: Value, operands: tuple[Value, ...]) -> Value:
        """The value of an op on changed operands. No kernel reads a mask."""
        if len(value.operands) in value.op.operands.counts[1:]:
            return self._build.add(value.op, *operands)
        match value.op:
            case Attention() as op:
                return self._attention(op, value, operands)
            case AttentionNormalizer() as op:
                made = self._made.get((op.form, *_ids(value.operands)))
                return self._build.add(op, *operands) if made is None else self._normalizer(made)
            case (
                AttentionQueryGradient() | AttentionKeyGradient() | AttentionValueGradient()
            ) as op:
                return self._gradient(op, operands)
            case op:
                return self._build.add(op, *operands)

    def _gradient(self, op: AttentionGradient, operands: tuple[Value, ...]) -> Value:
        whole = Attention(*op.form)
        heads = Heads(whole, *operands[:3])
        if not is_fused(heads, self._target, trains=True):
            return self._build.add(op, *operands)
        if isinstance(op, AttentionQueryGradient):
            return self._build.add(FlashAttentionBackwardQ(whole), *operands)
        made = self._build.add(FlashAttentionBackwardKV(whole), *operands)
        if isinstance(op, AttentionKeyGradient):
            return self._columns(made, 0, heads.width)
        return self._columns(made, heads.width, heads.width + heads.value_width)

    def _attention(self, op: Attention, value: Value, operands: tuple[Value, ...]) -> Value:
        heads = Heads(op, *operands)
        key = (op.form, *_ids(value.operands[:2]))
        trains = key in self._normalized
        if not is_fused(heads, self._target, trains=trains):
            return self._build.add(op, *operands)
        parts = kv_splits(heads)
        if parts == 1 and not trains:
            return self._build.add(FlashAttention(op), *operands)
        made = self._made[key] = self._build.add(FlashAttentionSplitKV(op, parts), *operands)
        return self._mean(made)

    def _mean(self, made: Value) -> Value:
        """The means of all parts, weighted by how much of all weights is theirs."""
        count = concrete_shape(made.type.shape)[0]
        if count == 1:
            return self._part(made, 0)[0]
        add = self._build.add
        rows = self._rows(made)
        largest, total = self._largest_and_total(made)
        every = [
            add(Broadcast(rows.type.shape, tuple(range(1, rows.type.rank))), each)
            for each in (largest, total)
        ]
        shares = add(Div(), add(Exp(), add(Sub(), rows, every[0])), every[1])
        means: list[Value] = []
        for part in range(count):
            mean, beside = self._part(made, part)[0], self._at(shares, part)
            axes = tuple(range(beside.type.rank))
            share = add(Broadcast(mean.type.shape, axes), beside)
            means.append(add(Mul(), mean, share))
        return self._folded(Add(), means)

    def _normalizer(self, made: Value) -> Value:
        if concrete_shape(made.type.shape)[0] == 1:
            return self._part(made, 0)[1]
        largest, total = self._largest_and_total(made)
        return self._build.add(Add(), largest, self._build.add(Log(), total))

    def _largest_and_total(self, made: Value) -> tuple[Value, Value]:
        """Of each row the largest normalizer of a part, and the sum of powers beside it."""
        add, count = self._build.add, concrete_shape(made.type.shape)[0]
        each = [self._part(made, part)[1] for part in range(count)]
        largest = self._folded(Maximum(), each)
        powers = [add(Exp(), add(Sub(), rows, largest)) for rows in each]
        return largest, self._folded(Add(), powers)

    def _folded(self, op: Op, values: Sequence[Value]) -> Value:
        folded, *others = values
        for value in others:
            folded = self._build.add(op, folded, value)
        return folded

    def _rows(self, made: Value) -> Value:
        """The normalizers of all parts."""
        *rows, width = concrete_shape(made.type.shape)
        beside = self._columns(made, width - BESIDE, width - BESIDE + 1)
        return self._build.add(Reshape(tuple(rows)), beside)

    def _at(self, of: Value, part: int) -> Value:
        """What belongs to a part."""
        _, *rest = concrete_shape(of.type.shape)
        starts, stops = (part, *(0 for _ in rest)), (part + 1, *rest)
        one = self._build.add(Slice(starts, stops, (1,) * of.type.rank), of)
        return self._build.add(Reshape(tuple(rest)), one)

    def _part(self, made: Value, part: int) -> tuple[Value, Value]:
        """The means of a part, and their normalizers."""
        width = concrete_shape(made.type.shape)[-1] - BESIDE
        return (
            self._at(self._columns(made, 0, width), part),
            self._at(self._rows(made), part),
        )

    def _columns(self, made: Value, start: int, stop: int) -> Value:
        """Some columns of what is made."""
        *rows, _ = concrete_shape(made.type.shape)
        starts, stops = (*(0 for _ in rows), start), (*rows, stop)
        return self._build.add(Slice(starts, stops, (1,) * made.type.rank), made)


def _ids(values: Sequence[Value]) -> tuple[int, ...]:
    return tuple(value.id for value in values)
