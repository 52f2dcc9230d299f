"""Problems of objectives: what `minimize ... over ...` moves."""

from collections.abc import Sequence

from meganeura_dsl.diagnostics.problem import Help, Remark, Report
from meganeura_dsl.diagnostics.wording import quoted
from meganeura_dsl.elaborate.problems.location import LocatedProblem, Location

_AGAIN = Help("moves one after the other are a `repeat`, in place of the `for`")


class NothingOver(LocatedProblem, code="E0506", topic="training"):
    """An objective is minimized over a path that no parameter is below, or one is projected."""

    path: str
    known: tuple[str, ...]
    """The labels and names that parameters are below."""
    word: str = "over"
    """The word before the path."""

    def report(self) -> Report:
        below = f"the weights are below {quoted(self.known, 'and')}" if self.known else ""
        name = self.known[0] if self.known else ""
        cure = Help("name a layer or a model that this step applies", f"{self.word} {name}")
        return self.words(
            f"`{self.word} {self.path}` reaches no parameter",
            below,
            cure=cure if name else Help("nothing here has weights that are trained: leave it out"),
        )


class MovedTwice(LocatedProblem, code="E0508", topic="training"):
    """Two objectives move the same parameter."""

    parameter: str
    first: Location
    open: Location | None = None
    """The objective that does not say what it moves; this one, if none is given."""
    over: tuple[str, ...] = ()
    """The layers that the objective reaches and the other one does not move."""
    each: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """The layers that the first and this one are to move, where both move all."""
    known: tuple[str, ...] = ()
    """The names of the layers that both move."""
    projected: str = ""
    """The `project` for an update that reads nothing but what it changes."""

    def report(self) -> Report:
        return self.words(
            f"`{self.parameter}` is moved twice",
            f"moves `{self.parameter}`",
            remarks=(Remark("the first", self.first.span.text, self.first.span),),
            cure=self._cure(),
        )

    def _cure(self) -> Help:
        if self.projected:
            return Help("what weights become after their move is", self.projected)
        if all(self.each):
            lines = zip((self.first, self.location), self.each, strict=True)
            code = "\n".join(_over(location, names) for location, names in lines)
            return Help("say which each of the two moves", code)
        if self.over:
            which = "this" if self.open is None else "the first"
            return Help(f"say which {which} moves", _over(self.open or self.location, self.over))
        if len(self.known) > 1:
            named = quoted(self.known, "and")
            return Help(f"say by `over` which of {named} each of the two moves")
        if self.first.span == self.location.span:
            return _AGAIN
        if self.known:
            return Help("minimize the sum of the two losses, as one objective moves a parameter")
        return Help("say by `over` what the objective moves, without this")


def _over(location: Location, names: Sequence[str]) -> str:
    """An objective with the layers that it moves."""
    return f"{location.span.text.splitlines()[0]} over {', '.join(names)}"


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
    is_first: bool
    """True if there is no objective above."""
    is_repeated: bool = False
    """True in a `repeat`."""
    is_again: bool = False
    """True in a later iteration of a `for`."""

    def report(self) -> Report:
        if self.over:
            what = f" below {quoted(self.over, 'or')}"
        else:
            what = "" if self.is_first else " that is still to be moved"
        return self.words(
            "this objective moves nothing",
            f"its gradient reaches no parameter{what}",
            cure=self._cure(),
        )

    def _cure(self) -> Help:
        stops = "`stop_gradient`, `==` and `argmax` pass no gradient"
        if self.is_repeated:
            return Help(
                f"{stops}, and what stands above a `repeat` is constant in it:\n"
                "compute in it what the weights are to change"
            )
        if self.is_again:
            return _AGAIN
        if self.over:
            return Help(f"{stops}: leave them out on the way to {quoted(self.over, 'or')}")
        if self.is_first:
            advice = "minimize a loss such as `cross_entropy`, and measure this by `metric`"
            return Help(f"{stops}: {advice}")
        return Help("if this loss is to move what those above do, minimize the sum of them")
