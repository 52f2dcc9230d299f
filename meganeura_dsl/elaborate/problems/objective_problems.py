"""Problems of objectives: what `minimize ... over ...` moves."""

from meganeura_dsl.diagnostics.problem import Help, Remark, Report
from meganeura_dsl.diagnostics.wording import quoted
from meganeura_dsl.elaborate.problems.location import LocatedProblem, Location


class NothingOver(LocatedProblem, code="E0506", topic="training"):
    """An objective is minimized over a path that no parameter is below.

    A path is the label of a layer, the path of a parameter, or the name of a model, and the layer
    has been applied above. States and parameters that are `frozen` are not trained.

        minimize loss over critic       # E0506 if nothing above applies a layer `critic`
    """

    path: str
    known: tuple[str, ...]
    """The labels and names that parameters are below."""

    def report(self) -> Report:
        below = f"the weights are below {quoted(self.known, 'and')}" if self.known else ""
        return self.words(f"`over {self.path}` reaches no parameter", below)


class MovedTwice(LocatedProblem, code="E0508", topic="training"):
    """Two objectives move the same parameter.

    Each parameter is moved by one objective of a step. `over` says which parameters an objective
    moves; without it, it moves all that its gradient reaches. One parameter that is to follow two
    losses follows their sum:

        minimize fit + 0.1 * penalty
    """

    parameter: str
    first: Location

    def report(self) -> Report:
        return self.words(
            f"`{self.parameter}` is moved twice",
            f"moves `{self.parameter}`",
            remarks=(Remark("the first", self.first.span.text, self.first.span),),
            cure=Help("say which this moves", "minimize ... over PATH"),
        )


class NothingReached(LocatedProblem, code="E0584", topic="training"):
    """An objective does not depend on anything that it is to move.

    A gradient passes neither `stop_gradient` nor what is applied with `frozen=true`, and what an
    objective above has moved is a constant below it.

        fake = stop_gradient(noise |> generator)
        minimize mean(fake |> critic) over generator     # E0584
    """

    over: tuple[str, ...]

    def report(self) -> Report:
        what = f"below {quoted(self.over, 'or')}" if self.over else "that is still to be moved"
        return self.words(
            "this objective moves nothing", f"its gradient reaches no parameter {what}"
        )
