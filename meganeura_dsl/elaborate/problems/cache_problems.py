"""Problems of caches, and their words."""

from meganeura_dsl.diagnostics.problem import Help, Problem, Report, Severity
from meganeura_dsl.elaborate.problems.location import LocatedProblem


class CacheInTraining(LocatedProblem, code="E0318", topic="cache"):
    """A `train` block applies a layer that has a cache."""

    name: str
    train: str

    def report(self) -> Report:
        return self.words(
            f"`{self.train}` trains a layer with a cache, `{self.name}`",
            "kept from call to call of a session, not from step to step",
            cure=Help("declare it under a condition on the configuration that training leaves out"),
        )


class CacheNotCleared(LocatedProblem, code="E0319", topic="cache"):
    """A cache begins as something else than one number."""

    name: str

    def report(self) -> Report:
        return self.words(
            f"the cache `{self.name}` does not begin as one number",
            "numbers that are drawn or differ",
            cure=Help("begin as zeros, ones or a number, or take the first value as an input"),
        )


class NotGenerating(LocatedProblem, code="E0660", topic="generation"):
    """A model that is to generate does not read and write tokens as a generation does."""

    model: str
    faults: tuple[str, ...]

    def report(self) -> Report:
        return self.words(
            f"`{self.model}` does not generate",
            f"it {', '.join(self.faults)}",
            cure=Help(
                "`meganeura docs generation` says which models do; `meganeura docs gpt2` is one"
            ),
        )


class WritesWithoutCaches(LocatedProblem, code="N0007", topic="generation", severity=Severity.NOTE):
    """A model that generates computes each token from all before it."""

    model: str
    lacks: tuple[str, ...]

    def report(self) -> Report:
        return self.words(
            f"`{self.model}` keeps no caches: all tokens are computed anew for each that is drawn",
            f"it {', '.join(self.lacks)}",
            cure=Help(
                "for longer texts keep keys and values, as `SelfAttention` of "
                "`meganeura docs gpt2` does; `meganeura docs caches` says how"
            ),
        )


class TooFewTokens(Problem, code="E0664", topic="generation"):
    """A token is to be drawn from more of the likeliest than there are."""

    top_k: int
    vocabulary: int

    def report(self) -> Report:
        return self.message(
            f"`top_k` is {self.top_k:,}, and the model has {self.vocabulary:,} tokens",
            cure=Help("a `top_k` of 0 draws from all of them"),
        )
