"""RMSprop."""

from dataclasses import dataclass

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops import Add, Div, Maximum, Mul, Sqrt, Sub
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.transforms.optimizers.hyperparameters import Fraction, NonNegative, Positive
from meganeura_dsl.transforms.optimizers.optimizer import Decayed, Optimizer, decay_of
from meganeura_dsl.transforms.optimizers.update import Update


@dataclass(frozen=True)
class RmsProp(Optimizer):
    """RMSprop (Tieleman and Hinton, 2012) as `torch.optim.RMSprop`.

    Weight decay is added to the gradient g of the parameter p:

        v' = alpha v + (1 - alpha) g**2
        d  = sqrt(v') + eps, or centered (Graves, 2013)  d = sqrt(v' - m'**2) + eps
             where  m' = m + (1 - alpha) (g - m)
        p' = p - lr g / d, or with momentum  p' = p - lr b'  where  b' = momentum b + g / d
    """

    word = "rmsprop"

    lr: Positive = 0.01
    alpha: Fraction = 0.99
    eps: Positive = 1e-8
    momentum: Fraction = 0.0
    centered: bool = False
    weight_decay: NonNegative = 0.0
    decay: Decayed = "all"

    def update(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        """Returns the parameter after a step, by the formula above."""
        g = update.decayed(decay_of(self, p), p, g)
        old = update.state("square_avg", p.type)
        fresh = update.times(1 - self.alpha, update.op(Mul(), g, g))
        square = update.op(Add(), update.times(self.alpha, old), fresh)
        update.store(old, square)
        if self.centered:
            square = self._variance(update, g, square)
        eps = full(update.build, p.type, self.eps)
        direction = update.op(Div(), g, update.op(Add(), update.op(Sqrt(), square), eps))
        if self.momentum:
            buffer = update.state("momentum_buffer", p.type)
            direction = update.op(Add(), update.times(self.momentum, buffer), direction)
            update.store(buffer, direction)
        return update.op(Sub(), p, update.scaled(rate, direction))

    def _variance(self, update: Update, g: Value, square: Value) -> Value:
        """The mean of squares less the square of the mean, and never below 0 by rounding."""
        old = update.state("grad_avg", g.type)
        mean = update.mixed(old, g, update.number(1 - self.alpha))
        update.store(old, mean)
        variance = update.op(Sub(), square, update.op(Mul(), mean, mean))
        return update.op(Maximum(), variance, full(update.build, g.type, 0.0))
