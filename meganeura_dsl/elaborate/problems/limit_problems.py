"""Problems of programs that ask for more than any program may."""

from meganeura_dsl.diagnostics.problem import Help, Report
from meganeura_dsl.elaborate.problems.location import LocatedProblem
from meganeura_dsl.limits.language_limits import MOST_AXES


class TooMuchWork(LocatedProblem, code="E0330", topic="limits"):
    """Checking the program takes more work than any program may ask for.

    Work is counted in steps, never in seconds, so that a program is refused everywhere or nowhere.
    The limits are far beyond what the standard models take. What usually exceeds them doubles at
    every level: a block that applies the block before it twice, a `def` that calls another twice,
    or many `where` clauses that speak of each other's sizes.

        block B1()(x: [n, 4]) -> [n, 4] = x |> B0() |> B0()
        block B2()(x: [n, 4]) -> [n, 4] = x |> B1() |> B1()      # and so on: B30 is 2**30 layers

    Where all steps of a file are taken, what comes after the place is not checked. Make the model
    smaller, or say what doubles once: bind it to a name, give a block fewer sizes, split a file.
    """

    reason: str
    declaration: str

    def report(self) -> Report:
        cure = Help("use fewer or smaller parts: what doubles at every level gets too large")
        headline = f"checking `{self.declaration}` takes too much work"
        return self.words(headline, self.reason, cure=cure)


class TooManyAxes(LocatedProblem, code="E0331", topic="limits"):
    """A tensor has more axes than a tensor may have, 32.

    Neither the reference nor kernels for a GPU have names for more.

        for i in 0..500:
          x = insert_axis(x, 0, 2)      # E0331: the 31st round gives 33 axes
    """

    axes: int

    def report(self) -> Report:
        cure = Help("merge axes: rearrange([a, b, c] -> [a * b, c])")
        return self.words(
            f"a tensor of {self.axes} axes, and {MOST_AXES} are the most",
            f"this has {self.axes} axes",
            cure=cure,
        )


class TooManyElements(LocatedProblem, code="E0332", topic="limits"):
    """A tensor has more elements than a 64-bit number counts, even where its sizes are smallest.

    No device holds it. What fits a certain device is another question, which
    `meganeura check --limits` answers.

        repeat(x, 0, 10 ** 20)          # E0332
    """

    sizes: str

    def report(self) -> Report:
        return self.words(
            "a tensor with more elements than any device can hold",
            f"2**63 or more: {self.sizes}",
            cure=Help("make it smaller, by a factor that is a number if a size is not at fault"),
        )
