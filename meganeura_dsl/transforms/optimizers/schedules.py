"""The learning-rate schedules. To add one, write its class here and list it in `SCHEDULES`.

A class is all there is to a schedule: its fields are the arguments of `schedule = name(...)`, with
their defaults and bounds; its docstring is what `meganeura explain name` prints.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import cos, pi

from meganeura_dsl.transforms.optimizers.hyperparameters import Choice, Count, Share


@dataclass(frozen=True)
class Schedule(Choice, ABC):
    """The learning rate of each step, as a factor of the optimizer's `lr`.

    The factor rises linearly in the `warmup` steps: (s + 1) / warmup in step s = 0, 1, ...
    """

    warmup: Count = 0

    @property
    def is_steady(self) -> bool:
        """Whether the factor is 1 in every step, so that the rate is a constant of the graph."""
        return False

    @property
    def needs_length(self) -> bool:
        """Whether the factor depends on how many steps a run has."""
        return True

    def factor(self, step: int, steps: int) -> float:
        """The factor of a step, counted from 0, in a run of `steps`."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        return self.after_warmup((step - self.warmup) / max(1, steps - self.warmup))

    @abstractmethod
    def after_warmup(self, t: float) -> float:
        """The factor after the warmup, of which the part t of the steps has passed, 0 <= t < 1."""


@dataclass(frozen=True)
class Constant(Schedule):
    """The learning rate of the optimizer, after `warmup` steps of a linear rise to it."""

    word = "constant"

    @property
    def is_steady(self) -> bool:
        """Without warmup the factor is 1."""
        return self.warmup == 0

    @property
    def needs_length(self) -> bool:
        """The factor is the same in every step after the warmup."""
        return False

    def after_warmup(self, t: float) -> float:  # noqa: ARG002 - the factor is the same for all
        """1."""
        return 1.0


@dataclass(frozen=True)
class Cosine(Schedule):
    """After `warmup` steps of a linear rise, half a cosine down to `final` times `lr`.

    The factor is final + (1 - final) (1 + cos(pi t)) / 2, where t goes from 0 to 1 over the steps
    after the warmup (Loshchilov and Hutter, 2017, without restarts).
    """

    word = "cosine"

    final: Share = 0.0

    def after_warmup(self, t: float) -> float:
        """As the formula above."""
        return self.final + (1 - self.final) * (1 + cos(pi * t)) / 2


@dataclass(frozen=True)
class Linear(Schedule):
    """After `warmup` steps of a linear rise, a straight line down to `final` times `lr`.

    The factor is final + (1 - final) (1 - t), where t goes from 0 to 1 over the steps after the
    warmup.
    """

    word = "linear"

    final: Share = 0.0

    def after_warmup(self, t: float) -> float:
        """As the formula above."""
        return self.final + (1 - self.final) * (1 - t)


SCHEDULES: dict[str, type[Schedule]] = {each.word: each for each in (Constant, Cosine, Linear)}
"""Every schedule, by the word that names it."""
