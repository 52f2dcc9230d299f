"""A learning-rate schedule: a factor of the optimizer's `lr` for each step."""

from dataclasses import dataclass

from meganeura_dsl.transforms.optimizers.hyperparameters import Share
from meganeura_dsl.transforms.optimizers.schedules import RunLength, Schedule


@dataclass(frozen=True)
class Triangle(Schedule):
    """Up in a line from `low` to 1 in the middle of the run, and down again."""

    word = "triangle"

    low: Share = 0.0

    def at(self, step: int, run: RunLength) -> float:
        to_middle = 1 - abs(2 * step / run.steps - 1)
        return self.low + (1 - self.low) * to_middle
