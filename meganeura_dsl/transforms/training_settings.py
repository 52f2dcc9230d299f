"""The settings of a training step."""

from dataclasses import KW_ONLY, dataclass
from fnmatch import fnmatchcase

from meganeura_dsl.plugins.plugin_groups import plugin_behind
from meganeura_dsl.transforms.optimizers.optimizers import Optimizer
from meganeura_dsl.transforms.step_part import StepPart


class TrainingError(Exception):
    """A training step that cannot be made of this graph with these settings."""


@dataclass(frozen=True)
class TrainingSettings:
    """The settings with which a step moves the parameters.

    `feed_learning_rate` makes the rate a scalar input `learning_rate`, for schedules; the
    optimizer's own `lr` is then not read. `groups` gives the parameters whose names match a glob
    such as `head.*` another optimizer, or none that moves them; the last match counts. A learning
    rate that is fed scales all rates by one factor. `gradients` makes the gradient of each
    parameter that is moved an output `gradient.PATH`, before they are clipped, and `gradient_norm`
    the norm of all of them an output of that name. `clip_value` bounds each element of a gradient
    before `clip_norm` bounds the norm of all. The parameters that match a glob of
    `every` move at each so many updates only; the last match counts. With `schedules` the rate that
    is fed is a vector: the rate of all, and for each of these globs that of the parameters that
    match it, of which the last counts.

    `accumulate` moves the parameters after so many batches, by the mean of their gradients: all of
    them but the last are steps of the `part` `SUM`. `ema` keeps an average of each parameter:
    a' = a + (1 - ema) (p' - a). `skip_not_finite` leaves all as it was where a gradient is not
    finite, and adds the output `update.skipped`. `scale_loss` does so too: gradients are computed
    of the loss times a scale that fits them, an output of the steps that move parameters. `part` is
    how much of the step is made.

    A scan that would store more bytes than `recompute_above` for its gradient stores the carries of
    some iterations, and runs the others once more.
    """

    optimizer: Optimizer
    _: KW_ONLY
    clip_norm: float | None = None
    feed_learning_rate: bool = False
    groups: tuple[tuple[str, Optimizer | None], ...] = ()
    gradients: bool = False
    every: tuple[tuple[str, int], ...] = ()
    clip_value: float | None = None
    gradient_norm: bool = False
    accumulate: int = 1
    ema: float | None = None
    skip_not_finite: bool = False
    scale_loss: bool = False
    part: StepPart = StepPart.WHOLE
    recompute_above: int | None = None
    schedules: tuple[str, ...] = ()

    def interval_of(self, name: str) -> int:
        """The steps from one move of a parameter to the next."""
        matching = [steps for glob, steps in self.every if fnmatchcase(name, glob)]
        return matching[-1] if matching else 1

    def rate_of(self, name: str) -> int:
        """Returns the number of a parameter's learning rate among those that are fed."""
        matching = [at for at, glob in enumerate(self.schedules) if fnmatchcase(name, glob)]
        return matching[-1] + 1 if matching else 0

    @property
    def skips(self) -> bool:
        """True if gradients that are not finite leave all as it was."""
        return self.skip_not_finite or self.scale_loss

    @property
    def has_plugins(self) -> bool:
        """True if code of another package moves parameters, which no cache can know."""
        moving = (self.optimizer, *(each for _, each in self.groups))
        return any(plugin_behind(each) is not None for each in moving)

    def optimizer_of(self, name: str) -> Optimizer | None:
        """Returns the optimizer that moves a parameter, if any."""
        found = self.optimizer
        for glob, optimizer in self.groups:
            if fnmatchcase(name, glob):
                found = optimizer
        return found
