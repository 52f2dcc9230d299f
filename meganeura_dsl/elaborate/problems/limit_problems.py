"""Problems of programs that ask for more than any program may."""

from meganeura_dsl.diagnostics.problem import Help, Report
from meganeura_dsl.elaborate.problems.location import LocatedProblem
from meganeura_dsl.limits.language_limits import MOST_AXES


class TooMuchWork(LocatedProblem, code="E0330", topic="limits"):
    """Checking the program takes more work than any program may ask for."""

    reason: str
    declaration: str

    def report(self) -> Report:
        cure = Help("use fewer or smaller parts: what doubles at every level gets too large")
        headline = f"checking `{self.declaration}` takes too much work"
        return self.words(headline, self.reason, cure=cure)


class TooManyAxes(LocatedProblem, code="E0331", topic="limits"):
    """A tensor has more axes than a tensor may have, 32."""

    axes: int

    def report(self) -> Report:
        cure = Help("merge axes: rearrange([a, b, c] -> [a * b, c])")
        return self.words(
            f"a tensor of {self.axes} axes, and {MOST_AXES} are the most",
            f"this has {self.axes} axes",
            cure=cure,
        )


class TooManyElements(LocatedProblem, code="E0332", topic="limits"):
    """A tensor has more elements than a 64-bit number counts, even where its sizes are smallest."""

    sizes: str

    def report(self) -> Report:
        return self.words(
            "a tensor with more elements than any device can hold",
            f"2**63 or more: {self.sizes}",
            cure=Help("make it smaller, by a factor that is a number if a size is not at fault"),
        )
