"""A training as source is written of it: settings, inputs, and the optimizer of each weight."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.declarations.written_settings import setting_key
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.settings.not_finite_policy import NotFinitePolicy
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.symbolic.size import evaluate
from meganeura_dsl.transforms.joined_loss import Joins
from meganeura_dsl.transforms.optimizers.optimizers import OPTIMIZERS, Optimizer
from meganeura_dsl.transforms.optimizers.schedules import SCHEDULES, Plateau
from meganeura_runtime.export.source.form_problems import refusal
from meganeura_runtime.io.data.dataset import InputSpec

ALL = "*"
"""The pattern of all weights."""


@dataclass(frozen=True, eq=False)
class Training:
    """A training with its settings resolved."""

    name: str
    settings: RunSettings
    input_spec: InputSpec
    measured: tuple[str, ...]
    """The names of the results of its block: the loss, and the metrics."""
    parameters: tuple[ParameterInfo, ...]
    reached: frozenset[str]
    """The names of the weights that the gradient of the loss reaches."""
    joins: Joins
    """The relation of the loss of an update to the losses of its batches."""
    span: Span

    @property
    def counter(self) -> str:
        """The size that counts examples. Raises `ProblemError` where none does."""
        found = self.input_spec.counter
        if found is None:
            reason = "no size of its inputs counts examples"
            raise refusal(f"`{self.name}`", reason, self.span)
        return found

    @property
    def inputs(self) -> Mapping[str, TensorType]:
        """The inputs that the data feeds."""
        return self.input_spec.inputs

    def rows(self, name: str) -> int:
        """The rows of an input in one example; 0 where it is fed whole."""
        if name in self.input_spec.whole:
            return 0
        one, two = (
            evaluate(self.inputs[name].shape[0], {**self.input_spec.sizes, self.counter: examples})
            for examples in (1, 2)
        )
        if two != 2 * one:
            raise refusal(f"`{name}`", "its first axis counts more than examples", self.span)
        return one

    @property
    def trained(self) -> tuple[ParameterInfo, ...]:
        """The weights that an optimizer may move."""
        return tuple(each for each in self.parameters if each.name in self.reached)

    @property
    def unmoved(self) -> tuple[str, ...]:
        """Patterns of the other weights and of the states: by the last words of their names.

        A name stands for itself where a trained weight has its last word.
        """
        words = {each.name.rpartition(".")[2] for each in self.trained}
        found: dict[str, None] = {}
        for name in [each.name for each in self.parameters if each.name not in self.reached]:
            _, dot, word = name.rpartition(".")
            found[f"*.{word}" if dot and word not in words else name] = None
        return tuple(found)

    def pattern(self, name: str) -> str:
        """The pattern of `optimizer[...]` by which a weight moves: the last that it matches."""
        globs = [glob for glob in self.settings.optimizers if fnmatchcase(name, glob)]
        return globs[-1] if globs else ALL

    @property
    def rules(self) -> Mapping[str, Optimizer | None]:
        """The optimizers by the patterns of weights that they move; None moves nothing."""
        given = {ALL: self.settings.optimizer, **self.settings.optimizers}
        used = {self.pattern(each.name) for each in self.trained}
        return {pattern: rule for pattern, rule in given.items() if pattern in used}

    def moved_by(self, pattern: str) -> Sequence[ParameterInfo]:
        """The weights of a pattern."""
        return [each for each in self.trained if self.pattern(each.name) == pattern]


def require_written(training: Training, places: Mapping[str, Span]) -> None:
    """Raise `ProblemError` (E0598) for settings that a loop of source does not follow.

    `places` has the place of each setting by its key.
    """
    for key, reason in (*_unlike_loops(training), *_not_built_in(training)):
        near = (span for name, span in places.items() if name.partition("[")[0] == key)
        raise refusal(f"`{key}`", reason, places.get(key) or next(near, training.span))


def _unlike_loops(training: Training) -> Iterator[tuple[str, str]]:
    """The settings that make other steps than those of the loop, each with the reason."""
    settings = training.settings
    for name in ("balance", "sampling_weights"):
        if getattr(settings, name) is not None:
            yield name, "the loop draws each example once an epoch"
    if settings.intervals:
        yield "every", "the loop moves all weights at each step"
    if settings.schedules:
        yield "schedule", "the loop has one schedule for all weights"
    if settings.ema is not None:
        yield "ema", "the loop keeps no average of the weights"
    if settings.not_finite == NotFinitePolicy.SKIP:
        yield "not_finite", "the loop makes each update"
    if settings.accumulate > 1 and training.joins is Joins.SUMS:
        yield "accumulate", "the loss of several batches is no mean of their losses"
    if settings.accumulate > 1 and not settings.drop_last:
        yield "accumulate", "the last batch of an epoch is smaller than others"


def _not_built_in(training: Training) -> Iterator[tuple[str, str]]:
    """The optimizers and schedules that the loop does not have, each with the reason."""
    for pattern, rule in training.rules.items():
        key = "optimizer" if pattern == ALL else setting_key("optimizer", pattern)
        if rule is not None and type(rule) is not OPTIMIZERS.get(rule.word):
            yield key, f"`{rule.word}` is not built in, as {', '.join(OPTIMIZERS)} are"
    schedule = training.settings.schedule
    if isinstance(schedule, Plateau):
        yield "schedule", "`plateau` follows evaluations, and the loop makes none"
    elif type(schedule) is not SCHEDULES.get(schedule.word):
        yield "schedule", f"`{schedule.word}` is not built in"
