"""Rotary positions: pairs of channels turned by an angle that grows with the position.

J. Su et al., "RoFormer: enhanced transformer with rotary position embedding", 2021. A pair is a
channel of the first half and its like of the second half.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Op, TypeRuleError, Value
from meganeura_dsl.ir.ops.fused.base import Fused
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast, Sum
from meganeura_dsl.ir.ops.primitive.elementwise import Add, Mul, Neg, Sub
from meganeura_dsl.ir.ops.primitive.movement import Concat, Slice
from meganeura_dsl.ir.ops.type_rules import (
    FLOATS,
    concrete_shape,
    require_dtype,
    require_same_type,
    title,
)
from meganeura_dsl.ir.traits import Operands, Trait
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts

__all__ = ["Rotate"]


@dataclass(frozen=True)
class Rotate(Fused):
    """[left cos - right sin, right cos + left sin] of the halves of x [..., s, d].

    The cosines and sines [s, d / 2] are the same for everything before the last two axes.
    """

    operands = Operands(("x", "cosine", "sine"))
    traits = frozenset({Trait.GATHER})
    flops_per_element = 3

    def infer(
        self, facts: Facts, x: TensorType, cosine: TensorType, sine: TensorType
    ) -> TensorType:
        require_dtype(self, x, FLOATS)
        if x.rank < 2 or cosine.rank != 2:
            raise TypeRuleError(f"{title(self)} turns no {x} by {cosine}")
        rows, half = cosine.shape
        facts.require_same_shape(
            x.shape[-2:], (rows, 2 * half), f"{title(self)} has an angle for each pair of channels"
        )
        require_same_type(self, facts, cosine, x.with_shape(cosine.shape))
        require_same_type(self, facts, sine, cosine)
        return x

    def evaluate(self, x: Array, cosine: Array, sine: Array) -> Array:
        left, right = np.split(x, 2, axis=-1)
        parts = (left * cosine - right * sine, right * cosine + left * sine)
        return np.concatenate(parts, axis=-1)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        # Turned back; and along the tables  dcos = dl l + dr r,  dsin = dr l - dl r.
        x, cosine, sine = out.operands
        left, right = _halves(build, x)
        to_left, to_right = _halves(build, cotangent)

        def times(one: Value, other: Value) -> Value:
            return build.add(Mul(), one, other)

        along = build.add(Add(), times(to_left, left), times(to_right, right))
        across = build.add(Sub(), times(to_right, left), times(to_left, right))
        back = build.add(self, cotangent, cosine, build.add(Neg(), sine))
        return back, _over_batch(build, along), _over_batch(build, across)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        # x [cos | cos] + [right | left] [-sin | sin], where each element is made at one place.
        x, cosine, sine = operands
        left, right = _halves(build, x)
        swapped = build.add(Concat(x.type.rank - 1), right, left)
        level = build.add(Concat(1), cosine, cosine)
        cross = build.add(Concat(1), build.add(Neg(), sine), sine)
        terms = (
            build.add(Mul(), each, _spread(build, table, x))
            for each, table in ((x, level), (swapped, cross))
        )
        return build.add(Add(), *terms)


OPS: tuple[type[Op], ...] = (Rotate,)


def _halves(build: Builder, x: Value) -> tuple[Value, Value]:
    shape = concrete_shape(x.type.shape)
    *rest, width = shape
    zeros, ones = (0,) * len(shape), (1,) * len(shape)
    left = build.add(Slice(zeros, (*rest, width // 2), ones), x)
    return left, build.add(Slice((*zeros[:-1], width // 2), shape, ones), x)


def _spread(build: Builder, table: Value, like: Value) -> Value:
    rank = like.type.rank
    return build.add(Broadcast(like.type.shape, (rank - 2, rank - 1)), table)


def _over_batch(build: Builder, x: Value) -> Value:
    axes = tuple(range(x.type.rank - 2))
    return build.add(Sum(axes), x) if axes else x
