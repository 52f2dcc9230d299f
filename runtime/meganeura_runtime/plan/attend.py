"""Which attentions become kernels of their own, and what takes the place of the others' ops.

A kernel makes one tensor. What else comes out of it lies beside: the normalizers beside the means,
and beside the gradient of each key that of its value. Both are read there in place.
"""

from collections.abc import Sequence

from meganeura_dsl.graph.core import Builder, Graph, Op, Value, rebuild
from meganeura_dsl.ops import Add, Div, Exp, Log, MatMul, Maximum, Mul, Reshape, Slice, Sub
from meganeura_dsl.ops.broadcast import Broadcast, full
from meganeura_dsl.ops.fused.attention import (
    Attention,
    AttentionGradient,
    AttentionKeyGradient,
    AttentionNormalizer,
    AttentionQueryGradient,
    AttentionValueGradient,
)
from meganeura_dsl.ops.rules import concrete_shape
from meganeura_runtime.kernels.attention_choice import backward_tile, forward_tile, parts_of
from meganeura_runtime.kernels.attention_scores import Heads
from meganeura_runtime.kernels.limits import Target
from meganeura_runtime.kernels.ops.attention import (
    BESIDE,
    Attend,
    AttendBack,
    AttendInParts,
    AttendToQueries,
)

KEEPS = False
"""Whether the slopes of all scores are stored, of which dq is then a plain product."""


def attend(graph: Graph, target: Target) -> Graph:
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
        """The value of an op on changed operands."""
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
        if backward_tile(heads, self._target) is None:
            return self._build.add(op, *operands)
        keeps = KEEPS and not op.causal
        if isinstance(op, AttentionQueryGradient) and not keeps:
            return self._build.add(AttendToQueries(whole), *operands)
        made = self._build.add(AttendBack(whole, keeps), *operands)
        match op:
            case AttentionKeyGradient():
                return self._columns(made, 0, heads.width)
            case AttentionValueGradient():
                return self._columns(made, heads.width, heads.width + heads.value_width)
            case _:
                beside = heads.width + heads.value_width
                slopes = self._columns(made, beside, concrete_shape(made.type.shape)[-1])
                product = self._build.add(MatMul(transpose_left=True), slopes, operands[1])
                factor = full(self._build, product.type, op.scale)
                scaled = self._build.add(Mul(), factor, product)
                return op.parted_value(self._build, scaled, operands[0])

    def _attention(self, op: Attention, value: Value, operands: tuple[Value, ...]) -> Value:
        heads = Heads(op, *operands)
        tile = forward_tile(heads, self._target)
        if tile is None:
            return self._build.add(op, *operands)
        parts = parts_of(heads, tile)
        key = (op.form, *_ids(value.operands[:2]))
        if parts == 1 and key not in self._normalized:
            return self._build.add(Attend(op), *operands)
        made = self._made[key] = self._build.add(AttendInParts(op, parts), *operands)
        return self._mean(made)

    def _mean(self, made: Value) -> Value:
        """The means of all parts, by the sums of their weights."""
        parts = [self._part(made, part) for part in range(_count(made))]
        if len(parts) == 1:
            return parts[0][0]
        largest = self._largest(parts)
        total = mean = None
        for one, rows in parts:
            weight = self._build.add(Exp(), self._build.add(Sub(), rows, largest))
            every = self._over(weight, one)
            share = self._build.add(Mul(), one, every)
            total = weight if total is None else self._build.add(Add(), total, weight)
            mean = share if mean is None else self._build.add(Add(), mean, share)
        assert mean is not None
        assert total is not None
        return self._build.add(Div(), mean, self._over(total, mean))

    def _normalizer(self, made: Value) -> Value:
        parts = [self._part(made, part) for part in range(_count(made))]
        if len(parts) == 1:
            return parts[0][1]
        largest = self._largest(parts)
        weights = [
            self._build.add(Exp(), self._build.add(Sub(), rows, largest)) for _, rows in parts
        ]
        total = self._folded(Add(), weights)
        return self._build.add(Add(), largest, self._build.add(Log(), total))

    def _largest(self, parts: Sequence[tuple[Value, Value]]) -> Value:
        return self._folded(Maximum(), [rows for _, rows in parts])

    def _folded(self, op: Op, values: Sequence[Value]) -> Value:
        folded, *others = values
        for value in others:
            folded = self._build.add(op, folded, value)
        return folded

    def _part(self, made: Value, part: int) -> tuple[Value, Value]:
        """The means of a part, and their normalizers."""
        _, *rows, width = concrete_shape(made.type.shape)
        width -= BESIDE
        mean = self._columns(made, 0, width, part)
        beside = self._columns(made, width, width + 1, part)
        return (
            self._build.add(Reshape((*rows, width)), mean),
            self._build.add(Reshape(tuple(rows)), beside),
        )

    def _columns(self, made: Value, start: int, stop: int, part: int | None = None) -> Value:
        """Some columns of what is made, of one of its parts."""
        first, *rows, _ = concrete_shape(made.type.shape)
        low, high = (0, first) if part is None else (part, part + 1)
        starts, stops = (low, *(0 for _ in rows), start), (high, *rows, stop)
        return self._build.add(Slice(starts, stops, (1,) * made.type.rank), made)

    def _over(self, rows: Value, like: Value) -> Value:
        """A number for each row, for all of its columns."""
        axes = tuple(range(rows.type.rank))
        return self._build.add(Broadcast(like.type.shape, axes), rows)


def _count(made: Value) -> int:
    return concrete_shape(made.type.shape)[0]


def _ids(values: Sequence[Value]) -> tuple[int, ...]:
    return tuple(value.id for value in values)
