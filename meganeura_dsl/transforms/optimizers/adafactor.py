"""Adafactor."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops import (
    Broadcast,
    Cast,
    Div,
    Exp,
    Log,
    Maximum,
    Minimum,
    Mul,
    Sqrt,
    Sub,
    Sum,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full, others
from meganeura_dsl.ir.ops.type_rules import concrete
from meganeura_dsl.ir.types import DType, element_count
from meganeura_dsl.transforms.optimizers.hyperparameters import NonNegative, Positive
from meganeura_dsl.transforms.optimizers.optimizer import Decayed, Optimizer, decay_of
from meganeura_dsl.transforms.optimizers.update import Update

EPS = 2.0**-23
"""The distance from 1 to the next float32."""


@dataclass(frozen=True)
class Adafactor(Optimizer):
    """Adafactor (Shazeer and Stern, 2018) as `torch.optim.Adafactor`.

    Of a matrix it holds the mean squares of rows R and of columns C instead of those V of all
    elements; of a tensor of more axes, those of the matrices of its last two. In step
    t = 1, 2, ... with w = t**beta2_decay, for the gradient g of the parameter p:

        R' = R + w (mean of g**2 along rows - R),  C' likewise along columns
        V' = R' C' / max(mean of R', eps1), or of a vector  V' = V + w (g**2 - V)
        u  = g / max(sqrt(V'), eps1)
        p' = (1 - lr weight_decay) p
             - max(eps2, rms(p)) min(lr, 1 / sqrt(t)) u / max(1, rms(u) / d)

    where rms(x) is the root of the mean of squares.
    """

    word = "adafactor"

    lr: Positive = 0.01
    beta2_decay: Annotated[float, Field(le=0)] = -0.8
    eps1: Positive = EPS
    eps2: Positive = 1e-3
    d: Annotated[float, Field(ge=1)] = 1.0
    weight_decay: NonNegative = 0.0
    decay: Decayed = "all"

    def update(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        """Returns the parameter after a step, by the formula above."""
        step = update.op(Cast(DType.F32), update.step())
        weight = update.op(Exp(), update.times(self.beta2_decay, update.op(Log(), step)))
        square = update.op(Mul(), g, g)
        variance = (
            self._factored(update, square, weight)
            if p.type.rank > 1
            else _averaged(update, "variance", square, weight)
        )
        floor = full(update.build, p.type, self.eps1**2)
        root = update.op(Sqrt(), update.op(Maximum(), variance, floor))
        direction = update.op(Div(), g, root)
        slower = update.op(Div(), update.number(1.0), update.op(Sqrt(), step))
        length = update.op(
            Mul(),
            update.op(Maximum(), update.number(self.eps2), _root_mean_square(update, p)),
            update.op(Minimum(), rate, slower),
        )
        excess = update.times(1 / self.d, _root_mean_square(update, direction))
        clipped = update.op(Div(), length, update.op(Maximum(), update.number(1.0), excess))
        shrunk = update.shrunk(decay_of(self, p), rate, p)
        return update.op(Sub(), shrunk, update.scaled(clipped, direction))

    def _factored(self, update: Update, square: Value, weight: Value) -> Value:
        """The mean squares of all elements, as far as those of rows and columns give them."""
        shape, rank = square.type.shape, square.type.rank
        rows = _averaged(update, "row_var", _mean(update, square, rank - 1), weight)
        columns = _averaged(update, "col_var", _mean(update, square, rank - 2), weight)
        whole = _mean(update, rows, rank - 2)
        least = update.op(Maximum(), whole, full(update.build, whole.type, self.eps1))
        spread = update.op(Broadcast(rows.type.shape, tuple(range(rank - 2))), least)
        shares = update.op(Div(), rows, spread)
        return update.op(
            Mul(),
            update.op(Broadcast(shape, others((rank - 1,), rank)), shares),
            update.op(Broadcast(shape, others((rank - 2,), rank)), columns),
        )


def _averaged(update: Update, name: str, fresh: Value, weight: Value) -> Value:
    """The next value of a moving mean, which a state holds."""
    old = update.state(name, fresh.type)
    new = update.mixed(old, fresh, weight)
    update.store(old, new)
    return new


def _mean(update: Update, x: Value, axis: int) -> Value:
    """The mean along an axis, which disappears."""
    return update.times(1 / concrete(x.type.shape[axis]), update.op(Sum((axis,)), x))


def _root_mean_square(update: Update, x: Value) -> Value:
    return update.times(element_count(x.type) ** -0.5, update.norm(x))
