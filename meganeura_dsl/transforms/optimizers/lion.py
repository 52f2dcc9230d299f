"""Lion."""

from dataclasses import dataclass

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops import Sub
from meganeura_dsl.transforms.optimizers.hyperparameters import Fraction, NonNegative, Positive
from meganeura_dsl.transforms.optimizers.optimizer import Decayed, Optimizer, decay_of
from meganeura_dsl.transforms.optimizers.update import Update


@dataclass(frozen=True)
class Lion(Optimizer):
    """Lion (Chen et al., 2023): steps of the sign of a moving mean of gradients.

    With the defaults of the authors, for the gradient g of the parameter p:

        c  = beta1 m + (1 - beta1) g
        m' = beta2 m + (1 - beta2) g
        p' = p - lr (sign(c) + weight_decay p)
    """

    word = "lion"

    lr: Positive = 1e-4
    beta1: Fraction = 0.9
    beta2: Fraction = 0.99
    weight_decay: NonNegative = 0.0
    decay: Decayed = "all"

    def update(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        """Returns the parameter after a step, by the formula above."""
        old = update.state("exp_avg", p.type)
        direction = update.sign(update.mixed(old, g, update.number(1 - self.beta1)))
        update.store(old, update.mixed(old, g, update.number(1 - self.beta2)))
        shrunk = update.shrunk(decay_of(self, p), rate, p)
        return update.op(Sub(), shrunk, update.scaled(rate, direction))
