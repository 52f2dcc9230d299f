"""Problems of the results of a block: of their names, and of the facts that it states of them."""

from collections.abc import Sequence

from meganeura_dsl.diagnostics.problem import Help, Remark, Report
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.location import LocatedProblem


class ResultFactUnproved(LocatedProblem, code="E0333", topic="result fact"):
    """A block states a fact of its result, and what it returns may be otherwise."""

    block: str
    fact: str
    clause: Span

    def report(self) -> Report:
        return self.words(
            f"cannot show that what `{self.block}` returns is as stated: `{self.fact}`",
            remarks=(Remark("stated here", self.fact, self.clause),),
            cure=Help("keep it within its bounds, or state less", "minimum(maximum(x, 0), c - 1)"),
        )


def one_result(written: str, names: Sequence[str]) -> Help:
    """Returns the cure for several results where one value is needed; `written` gives them."""
    bound = written if written.isidentifier() else "out"
    before = "" if bound == written else f"out = {written}\n"
    words = "take one of them by its name" if bound == written else "name them, and take one"
    return Help(words, f"{before}{bound}.{names[0]}")


class NoResultFact(LocatedProblem, code="E0334", topic="result fact"):
    """A fact is about results that are no whole numbers, or it is no bound."""

    kinds: str

    def report(self) -> Report:
        if self.kinds == "i32":
            return self.words(
                "a fact about a result must be a bound",
                "this is no bound",
                cure=Help("compare it with a size", "0 <= result, result < n"),
            )
        return self.words(
            "a fact is about one result of whole numbers",
            f"the results are {self.kinds}" if self.kinds else "the block states no result type",
            cure=Help("write its type", "-> i32[n] where 0 <= result, result < c"),
        )


class NoSuchResult(LocatedProblem, code="E0234", topic="results"):
    """A result is taken by a name that no result of the block has."""

    name: str
    count: int
    """The number of results."""
    known: tuple[str, ...]
    """The names of the results; none if the signature has no names."""
    nearest: tuple[str, ...]
    written: str
    """The text of the value that the name stands behind."""

    def report(self) -> Report:
        headline = f"no result here is called `{self.name}`"
        if self.known:
            called = f"they are {', '.join(f'`{each}`' for each in self.known)}"
            meant = f"{self.written}.{self.nearest[0]}" if self.nearest else ""
            cure = Help("did you mean this one?", meant) if meant else None
            return self.words(headline, called, cure=cure)
        if self.count == 1:
            cure = Help("one result is the tensor itself: leave out the name")
            return self.words(headline, "there is one result, and it is a tensor", cure=cure)
        written = ", ".join([f"{self.name}: [...]", *["other: [...]"] * (self.count - 1)])
        cure = Help("let the signature of the block name them", f"-> {written}")
        return self.words(headline, f"the {self.count} results have no names", cure=cure)


class ResultOutOfPlace(LocatedProblem, code="E0235", topic="results"):
    """A name is returned in the place of one result that the signature has for another."""

    returned: str
    place: str
    """The name of the result in this place."""
    results: tuple[str, ...]

    def report(self) -> Report:
        return self.words(
            f"`{self.returned}` is returned as `{self.place}`",
            f"the results are {', '.join(f'`{each}`' for each in self.results)}",
            cure=Help("return them in the order of the signature"),
        )
