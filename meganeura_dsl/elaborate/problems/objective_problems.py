"""Problems of objectives: what `minimize ... over ...` moves."""

from meganeura_dsl.diagnostics.problem import Help, Remark, Report
from meganeura_dsl.diagnostics.wording import quoted
from meganeura_dsl.elaborate.problems.location import LocatedProblem, Location


class NothingOver(LocatedProblem, code="E0506", topic="training"):
    """An objective is minimized over a path that no parameter is below."""

    path: str
    known: tuple[str, ...]
    """The labels and names that parameters are below."""

    def report(self) -> Report:
        below = f"the weights are below {quoted(self.known, 'and')}" if self.known else ""
        return self.words(f"`over {self.path}` reaches no parameter", below)


class MovedTwice(LocatedProblem, code="E0508", topic="training"):
    """Two objectives move the same parameter."""

    parameter: str
    first: Location
    open: Location | None = None
    """The objective that does not say what it moves; this one, if none is given."""
    over: tuple[str, ...] = ()
    """The layers that the objective reaches and the other one does not move."""

    def report(self) -> Report:
        which = "this" if self.open is None else "the first"
        shown = (self.open or self.location).span.text.split("\n")[0]
        code = f"{shown} over {', '.join(self.over)}" if self.over else "minimize ... over PATH"
        return self.words(
            f"`{self.parameter}` is moved twice",
            f"moves `{self.parameter}`",
            remarks=(Remark("the first", self.first.span.text, self.first.span),),
            cure=Help(f"say which {which} moves", code),
        )


class NothingReached(LocatedProblem, code="E0584", topic="training"):
    """An objective does not depend on anything that it is to move."""

    over: tuple[str, ...]

    def report(self) -> Report:
        what = f"below {quoted(self.over, 'or')}" if self.over else "that is still to be moved"
        return self.words(
            "this objective moves nothing", f"its gradient reaches no parameter {what}"
        )
