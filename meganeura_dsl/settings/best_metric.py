"""The metric that the best weights of a run are chosen by."""

from dataclasses import dataclass
from math import inf

LOWEST_LOSS = "lowest loss"
"""The default of the setting `best`."""


@dataclass(frozen=True)
class BestMetric:
    """A loss or metric of evaluations, and which of its values is the best."""

    name: str
    is_highest: bool

    def is_better(self, value: float, than: float | None) -> bool:
        """Returns True if a value is better than the best so far; NaN never is."""
        best = (-inf if self.is_highest else inf) if than is None else than
        return value > best if self.is_highest else value < best


def best_metric(text: str) -> BestMetric:
    """Parses `lowest loss` or `highest accuracy`; raises `ValueError`."""
    match text.split():
        case ["lowest" | "highest" as which, name]:
            return BestMetric(name, which == "highest")
        case _:
            raise ValueError('must be lowest or highest and a metric, such as "highest accuracy"')
