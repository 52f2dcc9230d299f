"""Base of optimizers: arguments with bounds, and the rule that moves one parameter."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, Protocol

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.transforms.optimizers.hyperparameters import Choice, Positive
from meganeura_dsl.transforms.optimizers.update import Update

Decayed = Literal["all", "matrices"]
"""The parameters with weight decay: `matrices` are those of two axes or more.

Biases and the scales of norms have one axis or none.
"""


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

    def demand(self, of: TensorType) -> str:
        """Returns the requirement that a parameter does not meet; empty if it can be moved."""
        del of
        return ""


class Decaying(Protocol):
    """An optimizer with weight decay."""

    @property
    def weight_decay(self) -> float:
        """The factor of the weight decay."""
        ...

    @property
    def decay(self) -> Decayed:
        """The parameters with weight decay."""
        ...


def decay_of(optimizer: Decaying, p: Value) -> float:
    """The weight decay of a parameter: 0 for those that `decay` leaves out."""
    return 0.0 if optimizer.decay == "matrices" and p.type.rank < 2 else optimizer.weight_decay
