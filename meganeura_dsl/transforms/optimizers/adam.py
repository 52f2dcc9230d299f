"""Adam, and the optimizers whose steps are Adam's but for decay or length."""

from dataclasses import dataclass
from math import log

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops import Add, Cast, Compare, Div, Exp, Maximum, Mul, Sqrt, Sub, Where
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.optimizers.hyperparameters import Fraction, NonNegative, Positive
from meganeura_dsl.transforms.optimizers.optimizer import Decayed, Optimizer, decay_of
from meganeura_dsl.transforms.optimizers.update import Update


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015) as `torch.optim.Adam`.

    Weight decay is added to the gradient g of the parameter p. In step t = 1, 2, ...

        m' = m + (1 - beta1) (g - m)
        v' = beta2 v + (1 - beta2) g**2
        p' = p - lr / (1 - beta1**t) m' / (sqrt(v') / sqrt(1 - beta2**t) + eps)

    With `amsgrad` the largest v' so far stands for v' in p' (Reddi et al., 2018).
    """

    word = "adam"

    lr: Positive = 1e-3
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    eps: Positive = 1e-8
    weight_decay: NonNegative = 0.0
    decay: Decayed = "all"
    amsgrad: bool = False

    def update(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        """Returns the parameter after a step, by the formula above."""
        return self._moved(update, p, update.decayed(decay_of(self, p), p, g), rate)

    def _moved(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        """The next value without weight decay."""
        mean, square = _moments(update, g, self.beta1, self.beta2)
        if self.amsgrad:
            largest = update.state("max_exp_avg_sq", p.type)
            square = update.op(Maximum(), largest, square)
            update.store(largest, square)
        length = update.op(Div(), rate, _bias_correction(update, self.beta1))
        ratio = update.op(Div(), mean, _root(update, square, self.beta2, self.eps))
        return update.op(Sub(), p, update.scaled(length, ratio))


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019) as `torch.optim.AdamW`.

    The parameter shrinks by the factor 1 - lr weight_decay before the update of `adam`.
    """

    word = "adamw"

    weight_decay: NonNegative = 0.01

    def update(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        """Returns the parameter after a step, by the formula above."""
        return self._moved(update, update.shrunk(decay_of(self, p), rate, p), g, rate)


@dataclass(frozen=True)
class Lamb(Optimizer):
    """Adam whose steps are as long as the parameter is (You et al., 2020), as `optax.lamb`.

    With m' and v' of `adam`, in step t = 1, 2, ...

        r  = m' / (1 - beta1**t) / (sqrt(v' / (1 - beta2**t)) + eps) + weight_decay p
        p' = p - lr |p| / |r| r

    where |x| is the square root of the sum of squares of x, and |p| / |r| is 1 where either is 0.
    """

    word = "lamb"

    lr: Positive = 1e-3
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    eps: Positive = 1e-6
    weight_decay: NonNegative = 0.0
    decay: Decayed = "all"

    def update(self, update: Update, p: Value, g: Value, rate: Value) -> Value:
        """Returns the parameter after a step, by the formula above."""
        mean, square = _moments(update, g, self.beta1, self.beta2)
        corrected = update.over(mean, _bias_correction(update, self.beta1))
        ratio = update.op(Div(), corrected, _root(update, square, self.beta2, self.eps))
        direction = update.decayed(decay_of(self, p), p, ratio)
        length, step = update.norm(p), update.norm(direction)
        zero, one = update.number(0.0), update.number(1.0)
        trust = update.op(Div(), length, step)
        for each in (length, step):
            trust = update.op(Where(), update.op(Compare("gt"), each, zero), trust, one)
        return update.op(Sub(), p, update.scaled(update.op(Mul(), rate, trust), direction))


def _moments(update: Update, g: Value, beta1: float, beta2: float) -> tuple[Value, Value]:
    """The next moving means of the gradient and of its square."""
    old, old_square = (update.state(each, g.type) for each in ("exp_avg", "exp_avg_sq"))
    mean = update.op(Add(), old, update.times(1 - beta1, update.op(Sub(), g, old)))
    fresh = update.times(1 - beta2, update.op(Mul(), g, g))
    square = update.op(Add(), update.times(beta2, old_square), fresh)
    update.store(old, mean)
    update.store(old_square, square)
    return mean, square


def _root(update: Update, square: Value, beta2: float, eps: float) -> Value:
    """`sqrt(square) / sqrt(1 - beta2**t) + eps`."""
    scale = update.op(Sqrt(), _bias_correction(update, beta2))
    root = update.over(update.op(Sqrt(), square), scale)
    return update.op(Add(), root, full(update.build, square.type, eps))


def _bias_correction(update: Update, beta: float) -> Value:
    """1 - beta**t, for the t-th step."""
    step = update.step()
    if beta == 0:
        return update.number(1.0)
    exponent = update.times(log(beta), update.op(Cast(DType.F32), step))
    return update.op(Sub(), update.number(1.0), update.op(Exp(), exponent))
