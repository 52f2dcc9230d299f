"""Problems of caches, and their words."""

from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import Help, Report
from meganeura_dsl.elaborate.problems.location import PlacedProblem


@dataclass(frozen=True)
class CacheInTraining(PlacedProblem, code="E0318", topic="cache"):
    """A `train` block applies a layer that has a cache.

    A cache is what a session keeps between the calls of one sequence. The steps of a training run
    are examples of their own, and gradients do not reach into earlier calls.
    """

    name: str
    train: str

    def report(self) -> Report:
        return self.words(
            f"`{self.train}` trains a layer with a cache, `{self.name}`",
            "kept from call to call of a session, not from step to step",
            cure=Help("declare it under a condition on the configuration that training leaves out"),
        )


@dataclass(frozen=True)
class CacheNotCleared(PlacedProblem, code="E0319", topic="cache"):
    """A cache begins as another value than zeros.

    A session clears its caches when it opens and at each `reset()`; nothing initializes them.
    """

    name: str

    def report(self) -> Report:
        return self.words(
            f"the cache `{self.name}` begins as zeros",
            "another first value",
            cure=Help("leave the first value out"),
        )
