"""An optimizer: its arguments are fields, its rule is written in ops of the graph."""

from dataclasses import dataclass

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops import Add, Sub
from meganeura_dsl.transforms.optimizers.hyperparameters import Fraction, Positive
from meganeura_dsl.transforms.optimizers.optimizer import Optimizer
from meganeura_dsl.transforms.optimizers.update import Update


@dataclass(frozen=True)
class HeavyBall(Optimizer):
    """Descent with momentum (Polyak, 1964): b' = momentum b + g, p' = p - lr b'."""

    word = "heavy_ball"

    lr: Positive = 0.01
    momentum: Fraction = 0.9

    def update(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        old = update.state("momentum", p.type)
        new = update.op(Add(), update.times(self.momentum, old), g)
        update.store(old, new)
        return update.op(Sub(), p, update.scaled(rate, new))
