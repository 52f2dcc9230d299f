"""Muon."""

from dataclasses import dataclass
from math import prod, sqrt
from typing import Annotated, Literal

from pydantic import Field

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops import Add, MatMul, Maximum, Reshape, Sub
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.transforms.optimizers.hyperparameters import Fraction, NonNegative, Positive
from meganeura_dsl.transforms.optimizers.optimizer import Optimizer
from meganeura_dsl.transforms.optimizers.update import Update

QUINTIC = (3.4445, -4.7750, 2.0315)
"""The coefficients of the iteration, by K. Jordan."""


@dataclass(frozen=True)
class Muon(Optimizer):
    """Muon (Jordan et al., 2024) as `torch.optim.Muon`, with products of float32.

    The momentum of a matrix is made nearly orthogonal by `ns_steps` steps of a Newton-Schulz
    iteration, on the side that is shorter. For the gradient g of the parameter p of A rows and B
    columns:

        b' = b + (1 - momentum) (g - b)
        x  = b', or with Nesterov  x = g + momentum (b' - g)
        x  = x / max(|x|, eps), then as often as `ns_steps` says
             x = 3.4445 x + (-4.775 (x x^T) + 2.0315 (x x^T)**2) x
        p' = (1 - lr weight_decay) p - lr f x

    where f is sqrt(max(1, A / B)), or 0.2 sqrt(max(A, B)) with `adjust_lr_fn="match_rms_adamw"`
    (Liu et al., 2025). A kernel of a convolution is the matrix of its first axis by all others.
    Parameters of fewer than two axes need another optimizer.
    """

    word = "muon"

    lr: Positive = 1e-3
    momentum: Fraction = 0.95
    nesterov: bool = True
    weight_decay: NonNegative = 0.1
    eps: Positive = 1e-7
    ns_steps: Annotated[int, Field(ge=1, le=99)] = 5
    adjust_lr_fn: Literal["original", "match_rms_adamw"] = "original"

    def demand(self, of: TensorType) -> str:
        """Two axes or more."""
        return "" if of.rank > 1 else "two axes or more"

    def update(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        """Returns the parameter after a step, by the formula above."""
        old = update.state("momentum_buffer", p.type)
        buffer = update.mixed(old, g, update.number(1 - self.momentum))
        update.store(old, buffer)
        ahead = update.mixed(g, buffer, update.number(self.momentum)) if self.nesterov else buffer
        rows, *columns = concrete_shape(p.type.shape)
        shape = rows, prod(columns)
        x = ahead if p.type.rank == 2 else update.op(Reshape(shape), ahead)
        x = self._orthogonal(update, x)
        x = x if p.type.rank == 2 else update.op(Reshape(p.type.shape), x)
        step = update.times(self._adjustment(*shape), x)
        shrunk = update.shrunk(self.weight_decay, rate, p)
        return update.op(Sub(), shrunk, update.scaled(rate, step))

    def _orthogonal(self, update: Update, x: Value) -> Value:
        """A matrix with the singular vectors of x, and singular values near 1."""
        a, b, c = QUINTIC
        rows, columns = concrete_shape(x.type.shape)
        tall = rows > columns
        length = update.op(Maximum(), update.norm(x), update.number(self.eps))
        x = update.over(x, length)
        for _ in range(self.ns_steps):
            gram = update.op(MatMul(transpose_left=tall, transpose_right=not tall), x, x)
            square = update.op(MatMul(), gram, gram)
            mixed = update.op(Add(), update.times(b, gram), update.times(c, square))
            turned = update.op(MatMul(), x, mixed) if tall else update.op(MatMul(), mixed, x)
            x = update.op(Add(), update.times(a, x), turned)
        return x

    def _adjustment(self, rows: int, columns: int) -> float:
        """Returns the factor of the learning rate for a matrix."""
        match self.adjust_lr_fn:
            case "original":
                return sqrt(max(1.0, rows / columns))
            case "match_rms_adamw":
                return 0.2 * sqrt(max(rows, columns))
