"""Problems of objectives: what `minimize ... over ...` moves."""

from meganeura_dsl.diagnostics.problem import Help, Remark, Report
from meganeura_dsl.diagnostics.wording import quoted
from meganeura_dsl.elaborate.problems.location import LocatedProblem, Location


class NothingOver(LocatedProblem, code="E0506", topic="training"):
    """An objective is minimized over a path that no parameter is below, or one is projected."""

    path: str
    known: tuple[str, ...]
    """The labels and names that parameters are below."""
    word: str = "over"
    """The word before the path."""

    def report(self) -> Report:
        below = f"the weights are below {quoted(self.known, 'and')}" if self.known else ""
        return self.words(f"`{self.word} {self.path}` reaches no parameter", below)


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


class NotMoved(LocatedProblem, code="E0594", topic="training"):
    """Weights are projected before the objective that moves them."""

    path: str
    later: tuple[Location, ...]
    """The objective below that moves them, if one does."""

    def report(self) -> Report:
        return self.words(
            f"nothing above has moved `{self.path}`",
            "this is what weights become after their move",
            remarks=tuple(Remark("moved by", each.span.text, each.span) for each in self.later),
            cure=Help("write it below the objective that moves them"),
        )


class NothingReached(LocatedProblem, code="E0584", topic="training"):
    """An objective does not depend on anything that it is to move."""

    over: tuple[str, ...]

    def report(self) -> Report:
        what = f"below {quoted(self.over, 'or')}" if self.over else "that is still to be moved"
        return self.words(
            "this objective moves nothing", f"its gradient reaches no parameter {what}"
        )
