"""Problems of `optimizer` blocks: their header, their states and their bodies."""

from meganeura_dsl.diagnostics.problem import Help, Report
from meganeura_dsl.elaborate.problems.location import LocatedProblem

HEADER = "optimizer name(lr: real)(p: [...s], g: [...s]) -> [...s]:"


class UnfitOptimizer(LocatedProblem, code="E0595", topic="optimizer"):
    """The header of an optimizer is none of a rule that moves a parameter by its gradient."""

    fault: str
    label: str
    cure: Help = Help("its form is", HEADER)

    def report(self) -> Report:
        return self.words(self.fault, self.label, cure=self.cure)


class NotInOptimizer(LocatedProblem, code="E0596", topic="optimizer"):
    """The body of an optimizer has what no rule has, such as weights or random numbers."""

    what: str
    label: str
    cure: Help

    def report(self) -> Report:
        return self.words(f"an optimizer has no {self.what}", self.label, cure=self.cure)


class UnfitState(LocatedProblem, code="E0597", topic="optimizer"):
    """A state of an optimizer has another shape or first value, or is not updated once."""

    name: str
    fault: str
    label: str
    cure: Help

    def report(self) -> Report:
        return self.words(f"the state `{self.name}` {self.fault}", self.label, cure=self.cure)
