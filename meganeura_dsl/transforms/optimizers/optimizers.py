"""The optimizers. To add one, write its class here and list it in `OPTIMIZERS`.

A class is all there is to an optimizer: its fields are the arguments of `optimizer = name(...)`,
with their defaults and bounds; its docstring is what `meganeura explain name` prints; `update`
builds its rule.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import log

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops import Add, Cast, Div, Exp, Mul, Sqrt, Sub
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.optimizers.hyperparameters import (
    Choice,
    Fraction,
    NonNegative,
    Positive,
)
from meganeura_dsl.transforms.optimizers.update import Update, spread


@dataclass(frozen=True)
class Optimizer(Choice, ABC):
    """A rule that moves parameters against their gradients.

    A combination of arguments that makes no sense raises `ValueError` in `__post_init__`.
    """

    lr: Positive = 1e-3

    @abstractmethod
    def update(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        """The next value of a parameter.

        `p` and its gradient `g` are f32 tensors of one shape; `rate` is the learning rate of this
        step for this parameter, an f32 scalar. The result has the type of `p`.
        """


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

    def __post_init__(self) -> None:
        """Nesterov's rule is plain descent where there is no momentum."""
        if self.nesterov and not self.momentum:
            raise ValueError("needs momentum above 0")

    def update(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        """As the formula above."""
        decayed = direction = update.decayed(self.weight_decay, p, g)
        if self.momentum:
            old = update.state("momentum", p)
            direction = update.op(Add(), update.times(self.momentum, old), decayed)
            update.store(old, direction)
            if self.nesterov:
                direction = update.op(Add(), decayed, update.times(self.momentum, direction))
        return update.op(Sub(), p, update.scaled(rate, direction))


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015) as `torch.optim.Adam`.

    Weight decay is added to the gradient g of the parameter p. In step t = 1, 2, ...

        m' = m + (1 - beta1) (g - m)
        v' = beta2 v + (1 - beta2) g**2
        p' = p - lr / (1 - beta1**t) m' / (sqrt(v') / sqrt(1 - beta2**t) + eps)
    """

    word = "adam"

    lr: Positive = 1e-3
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    eps: Positive = 1e-8
    weight_decay: NonNegative = 0.0

    def update(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        """As the formula above."""
        return self._moved(update, p, update.decayed(self.weight_decay, p, g), rate)

    def _moved(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        """The next value without weight decay."""
        old, old_square = (update.state(each, p) for each in ("exp_avg", "exp_avg_sq"))
        mean = update.op(Add(), old, update.times(1 - self.beta1, update.op(Sub(), g, old)))
        fresh = update.times(1 - self.beta2, update.op(Mul(), g, g))
        square = update.op(Add(), update.times(self.beta2, old_square), fresh)
        update.store(old, mean)
        update.store(old_square, square)
        length = update.op(Div(), rate, _bias_correction(update, self.beta1))
        scale = update.op(Sqrt(), _bias_correction(update, self.beta2))
        root = update.op(Div(), update.op(Sqrt(), square), spread(update.build, scale, p.type))
        denominator = update.op(Add(), root, full(update.build, p.type, self.eps))
        ratio = update.op(Div(), mean, denominator)
        return update.op(Sub(), p, update.scaled(length, ratio))


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019) as `torch.optim.AdamW`.

    The parameter shrinks by the factor 1 - lr weight_decay before the update of `adam`.
    """

    word = "adamw"

    weight_decay: NonNegative = 0.01

    def update(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        """As the formula above."""
        decay = update.op(Mul(), rate, update.number(self.weight_decay))
        factor = update.op(Sub(), update.number(1.0), decay)
        return self._moved(update, update.scaled(factor, p), g, rate)


def _bias_correction(update: Update, beta: float) -> Value:
    """1 - beta**t, for the t-th step."""
    step = update.step()
    if beta == 0:
        return update.number(1.0)
    exponent = update.times(log(beta), update.op(Cast(DType.F32), step))
    return update.op(Sub(), update.number(1.0), update.op(Exp(), exponent))


OPTIMIZERS: dict[str, type[Optimizer]] = {each.word: each for each in (Sgd, Adam, AdamW)}
"""Every optimizer, by the word that names it."""
