"""Problems of names: more of them than values, and sizes that only a pattern has."""

from meganeura_dsl.diagnostics.problem import Help, Remark, Report
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.name_problems import UnknownName, WrongKind


class WrongCount(WrongKind):
    """A statement has another number of names than its expression has values."""

    names: tuple[str, ...] = ()


class SizeOfPattern(UnknownName):
    """A size is read outside of the pattern that has a name for it."""

    kind: str = "size"
    nearest: tuple[str, ...] = ()
    pattern: Span | None = None
    """The pattern above that has the name."""
    size: str = ""
    """The size of the value that the pattern gave, if that is bound to a name."""

    def report(self) -> Report:
        words = "a name of a pattern is a size in that pattern alone"
        cure = Help(f"{words}: bind it", f"{self.name} = {self.size}")
        if not self.size:
            cure = Help(f"{words}: compute it from sizes of the header, as `d // heads`")
        line = self.pattern.text.split("\n")[0] if self.pattern else ""
        return self.words(
            f"nothing here is called `{self.name}`",
            "no size of this name",
            remarks=(Remark("a pattern has it", line, self.pattern),),
            cure=cure,
        )
