"""Adagrad."""

from dataclasses import dataclass

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops import Add, Cast, Div, Mul, Sqrt, Sub
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.optimizers.hyperparameters import NonNegative, Positive
from meganeura_dsl.transforms.optimizers.optimizer import Decayed, Optimizer, decay_of
from meganeura_dsl.transforms.optimizers.update import Update


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad (Duchi et al., 2011) as `torch.optim.Adagrad`.

    Weight decay is added to the gradient g of the parameter p. In step t = 1, 2, ...

        s' = s + g**2
        p' = p - lr / (1 + (t - 1) lr_decay) g / (sqrt(initial_accumulator_value + s') + eps)

    The state `sum` is s, which begins at 0.
    """

    word = "adagrad"

    lr: Positive = 0.01
    lr_decay: NonNegative = 0.0
    initial_accumulator_value: NonNegative = 0.0
    eps: Positive = 1e-10
    weight_decay: NonNegative = 0.0
    decay: Decayed = "all"

    def update(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        """Returns the parameter after a step, by the formula above."""
        g = update.decayed(decay_of(self, p), p, g)
        old = update.state("sum", p.type)
        total = update.op(Add(), old, update.op(Mul(), g, g))
        update.store(old, total)
        if self.initial_accumulator_value:
            first = full(update.build, p.type, self.initial_accumulator_value)
            total = update.op(Add(), first, total)
        if self.lr_decay:
            passed = update.op(Sub(), update.op(Cast(DType.F32), update.step()), update.number(1.0))
            slower = update.op(Add(), update.number(1.0), update.times(self.lr_decay, passed))
            rate = update.op(Div(), rate, slower)
        eps = full(update.build, p.type, self.eps)
        direction = update.op(Div(), g, update.op(Add(), update.op(Sqrt(), total), eps))
        return update.op(Sub(), p, update.scaled(rate, direction))
