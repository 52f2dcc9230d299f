"""Problems of the facts that a block states of its result."""

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


class NoResultFact(LocatedProblem, code="E0334", topic="result fact"):
    """A fact is about results that are no whole numbers, or it is no bound."""

    kinds: str

    def report(self) -> Report:
        if self.kinds == "i32":
            return self.words(
                "a fact about `result` must be a bound",
                "this is no bound",
                cure=Help("compare it with a size", "0 <= result, result < n"),
            )
        return self.words(
            "facts about `result` need one result of whole numbers",
            f"the results are {self.kinds}" if self.kinds else "the block states no result type",
            cure=Help("write its type", "-> i32[n] where 0 <= result, result < c"),
        )
