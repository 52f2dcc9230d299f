"""Stochastic gradient descent."""

from dataclasses import dataclass

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops import Add, Sub
from meganeura_dsl.transforms.optimizers.hyperparameters import Fraction, NonNegative, Positive
from meganeura_dsl.transforms.optimizers.optimizer import Decayed, Optimizer, decay_of
from meganeura_dsl.transforms.optimizers.update import Update


@dataclass(frozen=True)
class Sgd(Optimizer):
    """Stochastic gradient descent as `torch.optim.SGD`, without dampening.

    Weight decay is added to the gradient g of the parameter p:

        b' = momentum b + g
        p' = p - lr b', or with Nesterov  p' = p - lr (g + momentum b')
    """

    word = "sgd"

    lr: Positive = 0.01
    momentum: Fraction = 0.0
    nesterov: bool = False
    weight_decay: NonNegative = 0.0
    decay: Decayed = "all"

    def __post_init__(self) -> None:
        """Nesterov's rule is plain descent where there is no momentum."""
        if self.nesterov and not self.momentum:
            raise ValueError("needs momentum above 0")

    def update(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        """Returns the parameter after a step, by the formula above."""
        decayed = direction = update.decayed(decay_of(self, p), p, g)
        if self.momentum:
            old = update.state("momentum", p.type)
            direction = update.op(Add(), update.times(self.momentum, old), decayed)
            update.store(old, direction)
            if self.nesterov:
                direction = update.op(Add(), decayed, update.times(self.momentum, direction))
        return update.op(Sub(), p, update.scaled(rate, direction))
