"""The learning-rate schedules. To add one, write its class here and list it in `SCHEDULES`.

A class is all there is to a schedule: its fields are the arguments of `schedule = name(...)`, with
their defaults and bounds; its docstring is what `meganeura explain name` prints.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from fractions import Fraction as Ratio
from math import cos, inf, pi
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from meganeura_dsl.transforms.optimizers.hyperparameters import (
    Choice,
    Count,
    NonNegative,
    Positive,
    Share,
)


@dataclass(frozen=True)
class RunLength:
    """The length of a run, in steps, or in the updates that several steps make."""

    steps: int
    steps_per_epoch: int | Ratio
    """A fraction where an epoch ends between two updates."""


@dataclass(frozen=True)
class Reduction:
    """The effect of held-out examples on the learning rate so far."""

    scale: float = 1.0
    """The factor of every later rate."""
    best: float | None = None
    """The best value that was measured, if one was."""
    bad: int = 0
    """Evaluations in a row that were no better."""
    cooldown: int = 0
    """Evaluations to come that do not count."""


@dataclass(frozen=True)
class Schedule(Choice, ABC):
    """The learning rate of each step, as a factor of the optimizer's `lr`."""

    needs: ClassVar[str] = "steps"
    """The name of the number of a run that it needs: `steps`, `steps_per_epoch`, `evaluations`;
    or empty."""

    @property
    def is_steady(self) -> bool:
        """True if the factor is 1 in every step, so that the rate is a constant of the graph."""
        return False

    @property
    def spans_run(self) -> bool:
        """True if its rates depend on how long the whole run is."""
        return self.needs == "steps"

    @property
    def follows(self) -> str | None:
        """The measurement of held-out examples that it follows, if it follows one."""
        return None

    @abstractmethod
    def at(self, step: int, run: RunLength) -> float:
        """The factor of a step, counted from 0."""

    def measured(self, before: Reduction, value: float) -> Reduction:
        """Returns the reduction after an evaluation, whose value is that of `follows`."""
        del value
        return before


@dataclass(frozen=True)
class WarmedUp(Schedule):
    """A schedule whose factor rises linearly before: (s + 1) / warmup in step s = 0, 1, ..."""

    warmup: Count = 0

    def at(self, step: int, run: RunLength) -> float:
        """The factor of a step, counted from 0."""
        return (step + 1) / self.warmup if step < self.warmup else self.after_warmup(step, run)

    @abstractmethod
    def after_warmup(self, step: int, run: RunLength) -> float:
        """The factor of a step that is not of the warmup, counted from the start of the run."""


@dataclass(frozen=True)
class Falling(WarmedUp):
    """A schedule that falls once, to the end of the run or over `steps` steps from its start."""

    steps: Count = field(default=0, kw_only=True)
    """From the start of the run to the end of the fall; 0 is the end of the run."""

    @property
    def spans_run(self) -> bool:
        """True unless the length is given."""
        return not self.steps

    def passed(self, step: int, run: RunLength) -> float:
        """The part of the steps after the warmup that lie before this one; 1 after the last."""
        length = self.steps or run.steps
        return min(1.0, (step - self.warmup) / max(1, length - self.warmup))


@dataclass(frozen=True)
class Constant(WarmedUp):
    """The learning rate of the optimizer, after `warmup` steps of a linear rise to it."""

    word = "constant"
    needs = ""

    @property
    def is_steady(self) -> bool:
        """True without warmup, as the factor is then 1."""
        return self.warmup == 0

    def after_warmup(self, step: int, run: RunLength) -> float:
        """1."""
        del step, run
        return 1.0


@dataclass(frozen=True)
class Cosine(Falling):
    """After `warmup` steps of a linear rise, half a cosine down to `final` times `lr`.

    The factor is final + (1 - final) (1 + cos(pi t)) / 2, where t goes from 0 to 1 over the steps
    after the warmup (Loshchilov and Hutter, 2017, without restarts): to the end of the run, or
    to step `steps` of it, after which the factor stays, unless that is 0.
    """

    word = "cosine"

    final: Share = 0.0

    def after_warmup(self, step: int, run: RunLength) -> float:
        """Returns the factor by the formula above."""
        return self.final + (1 - self.final) * (1 + cos(pi * self.passed(step, run))) / 2


@dataclass(frozen=True)
class Linear(Falling):
    """After `warmup` steps of a linear rise, a straight line down to `final` times `lr`.

    The factor is final + (1 - final) (1 - t), where t goes from 0 to 1 over the steps after the
    warmup: to the end of the run, or to step `steps` of it, after which the factor stays, unless
    that is 0.
    """

    word = "linear"

    final: Share = 0.0

    def after_warmup(self, step: int, run: RunLength) -> float:
        """Returns the factor by the formula above."""
        return self.final + (1 - self.final) * (1 - self.passed(step, run))


@dataclass(frozen=True)
class Polynomial(Falling):
    """After `warmup` steps of a linear rise, a power of what is left, down to `final` times `lr`.

    The factor is final + (1 - final) (1 - t)**power, where t goes from 0 to 1 over the steps after
    the warmup, as `torch.optim.lr_scheduler.PolynomialLR` with `final=0`: to the end of the run, or
    to step `steps` of it, after which the factor stays, unless that is 0.
    """

    word = "polynomial"

    power: Positive = 1.0
    final: Share = 0.0

    def after_warmup(self, step: int, run: RunLength) -> float:
        """Returns the factor by the formula above."""
        return self.final + (1 - self.final) * (1 - self.passed(step, run)) ** self.power


@dataclass(frozen=True)
class Step(WarmedUp):
    """The factor `gamma` once more after every so many epochs, as `StepLR` of PyTorch.

    The factor is gamma**floor(e / every) where e epochs of the run have passed, those of the warmup
    too; e and `every` need not be whole. `step(every=1, gamma=0.9)` is PyTorch's `ExponentialLR`.
    """

    word = "step"
    needs = "steps_per_epoch"

    every: Positive = 30.0
    gamma: Positive = 0.1

    def after_warmup(self, step: int, run: RunLength) -> float:
        """Returns the factor by the formula above."""
        return self.gamma ** (_epochs(step, run) // _exact(self.every))


@dataclass(frozen=True)
class Piecewise(WarmedUp):
    """A factor of its own from each milestone on, and 1 before the first.

    Milestones are epochs from the start of the run, in order, and need not be whole.
    `piecewise(milestones=[30, 60], factors=[0.1, 0.01])` is PyTorch's `MultiStepLR` of
    `milestones=[30, 60], gamma=0.1`.
    """

    word = "piecewise"
    needs = "steps_per_epoch"

    milestones: Annotated[tuple[Positive, ...], Field(strict=False)] = ()
    factors: Annotated[tuple[NonNegative, ...], Field(strict=False)] = ()

    def __post_init__(self) -> None:
        """Each milestone has a factor, and comes after the one before."""
        if len(self.milestones) != len(self.factors):
            raise ValueError("needs as many factors as milestones")
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError("needs milestones that increase")

    def after_warmup(self, step: int, run: RunLength) -> float:
        """Returns the reduction as described above."""
        epochs = _epochs(step, run)
        passed = sum(_exact(each) <= epochs for each in self.milestones)
        return self.factors[passed - 1] if passed else 1.0


@dataclass(frozen=True)
class Restarts(WarmedUp):
    """Half a cosine down to `final` times `lr`, again and again (Loshchilov and Hutter, 2017).

    The first takes `period` epochs after the warmup, each later one `multiplier` times as many as
    the one before. The factor is final + (1 - final) (1 + cos(pi t)) / 2, where t goes from 0 to 1
    over the steps of one, as `CosineAnnealingWarmRestarts` of PyTorch, stepped by parts of epochs.
    """

    word = "restarts"
    needs = "steps_per_epoch"

    period: Positive = 10.0
    multiplier: Annotated[float, Field(ge=1)] = 1.0
    final: Share = 0.0

    def after_warmup(self, step: int, run: RunLength) -> float:
        """Returns the factor by the formula above."""
        epochs, period = _epochs(step - self.warmup, run), _exact(self.period)
        multiplier = _exact(self.multiplier)
        if multiplier == 1:
            epochs %= period
        while epochs >= period:
            epochs, period = epochs - period, period * multiplier
        return self.final + (1 - self.final) * (1 + cos(pi * float(epochs / period))) / 2


@dataclass(frozen=True)
class OneCycle(Schedule):
    """One rise to `lr` and one fall far below, as `OneCycleLR` of PyTorch (Smith and Topin, 2017).

    In steps s = 0, 1, ..., n - 1 of the run, or the first n = `steps` of it unless that is 0, each
    phase by half a cosine, or linearly with `anneal_strategy="linear"`:

        from 1 / div_factor to 1                       until s = pct_start n - 1
        to 1 / (div_factor final_div_factor)           until s = n - 1

    With `three_phase` the factor is 1 / div_factor again at s = 2 pct_start n - 2, and falls from
    there. The momentum of the optimizer stays as it is: PyTorch's `cycle_momentum=False`.
    """

    word = "one_cycle"

    pct_start: Share = 0.3
    anneal_strategy: Literal["cos", "linear"] = "cos"
    div_factor: Positive = 25.0
    final_div_factor: Positive = 1e4
    three_phase: bool = False
    steps: Count = 0

    @property
    def spans_run(self) -> bool:
        """True unless the length is given."""
        return not self.steps

    def at(self, step: int, run: RunLength) -> float:
        """Returns the factor by the formula above."""
        low, steps = 1 / self.div_factor, self.steps or run.steps
        peak = self.pct_start * steps - 1
        middle = [(2 * peak, low)] if self.three_phase else []
        start, first = 0.0, low
        for end, last in ((peak, 1.0), *middle):
            if step <= end:
                return self._between(first, last, start, end, step)
            start, first = end, last
        return self._between(first, low / self.final_div_factor, start, steps - 1, step)

    def _between(self, first: float, last: float, start: float, end: float, step: int) -> float:
        """The factor on the way from `first` in step `start` to `last` in step `end`."""
        t = 1.0 if end <= start else min(1.0, (step - start) / (end - start))
        part = (1 + cos(pi * t)) / 2 if self.anneal_strategy == "cos" else 1 - t
        return last + (first - last) * part


@dataclass(frozen=True)
class Plateau(WarmedUp):
    """The factor `factor` once more where a measurement stays, as PyTorch's `ReduceLROnPlateau`.

    `metric` is `loss` or a metric of the program on held-out examples, measured every `eval_every`
    epochs. A value is better if it is below best (1 - threshold), or with `mode="max"` above
    best (1 + threshold); these are best - threshold and best + threshold with
    `threshold_mode="abs"`. After more than `patience` values in a row that are not better, the rate
    is multiplied with `factor`, to no less than `final` times `lr`, and the next `cooldown` values
    do not count as worse.
    """

    word = "plateau"
    needs = "evaluations"

    metric: str = "loss"
    mode: Literal["min", "max"] = "min"
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.1
    patience: Count = 10
    threshold: NonNegative = 1e-4
    threshold_mode: Literal["rel", "abs"] = "rel"
    cooldown: Count = 0
    final: Share = 0.0

    @property
    def follows(self) -> str:
        """The measurement it is given."""
        return self.metric

    def after_warmup(self, step: int, run: RunLength) -> float:
        """1: what was measured reduces it."""
        del step, run
        return 1.0

    def measured(self, before: Reduction, value: float) -> Reduction:
        """Returns the reduction as described above."""
        is_better = self._is_better(value, before.best)
        cooling = before.cooldown > 0
        bad = 0 if is_better or cooling else before.bad + 1
        after = replace(
            before,
            best=value if is_better else before.best,
            bad=bad,
            cooldown=before.cooldown - cooling,
        )
        if bad <= self.patience:
            return after
        scale = max(before.scale * self.factor, self.final)
        return replace(after, scale=scale, bad=0, cooldown=self.cooldown)

    def _is_better(self, value: float, best: float | None) -> bool:
        sign = -1 if self.mode == "min" else 1
        if best is None:
            return sign * value > -inf
        is_relative = self.threshold_mode == "rel"
        step = sign * self.threshold
        bound = best * (1 + step) if is_relative else best + step
        return sign * value > sign * bound


SCHEDULES: dict[str, type[Schedule]] = {
    each.word: each
    for each in (
        Constant,
        Cosine,
        Linear,
        Polynomial,
        Step,
        Piecewise,
        Restarts,
        OneCycle,
        Plateau,
    )
}
"""Every schedule, by the word that names it."""


def _epochs(step: int, run: RunLength) -> Ratio:
    """The epochs that so many steps are."""
    return Ratio(step, run.steps_per_epoch)


def _exact(written: float) -> Ratio:
    """A number as its decimal digits say it: 0.1 is a tenth."""
    return Ratio(str(written))
