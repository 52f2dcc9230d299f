"""The metric that the best weights of a run are chosen by."""

from dataclasses import dataclass
from math import inf

LOWEST_LOSS = "lowest loss"
"""What is said where a program says nothing."""


@dataclass(frozen=True)
class BestMetric:
    """A loss or metric of evaluations, and which of its values is the best."""

    name: str
    is_highest: bool

    def is_better(self, value: float, than: float | None) -> bool:
        """Whether a value is better than the best so far; what is not a number never is."""
        best = (-inf if self.is_highest else inf) if than is None else than
        return value > best if self.is_highest else value < best


def best_metric(text: str) -> BestMetric:
    """What `lowest loss` or `highest accuracy` says; raises `ValueError`."""
    match text.split():
        case ["lowest" | "highest" as which, name]:
            return BestMetric(name, which == "highest")
        case _:
            raise ValueError('must be lowest or highest and a metric, such as "highest accuracy"')
