"""Problems with requests to the optimizer, and their words."""

from difflib import get_close_matches

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report

LISTED = 12
"""The number of rules that a message shows."""


class UnknownRule(Problem, code="E0570", topic="optimizer"):
    """`--disable-rule` or the setting `disabled_rules` names a rewrite rule that does not exist."""

    name: str
    known: tuple[str, ...]

    def report(self) -> Report:
        near = get_close_matches(self.name, self.known, n=1)
        more = ", ..." if len(self.known) > LISTED else ""
        return self.message(
            f"there is no rule `{self.name}` to disable",
            Remark("there are", ", ".join(self.known[:LISTED]) + more),
            cure=Help(f"did you mean `{near[0]}`?") if near else None,
        )


class GaveUp(Problem, code="E0571", topic="optimizer"):
    """The optimizer could not finish with all its rules, and does not guess."""

    reason: str

    def report(self) -> Report:
        return self.message(
            "the optimizer gave up",
            Remark("reason", self.reason),
            cure=Help("run the program as it is written", "--no-opt"),
        )


class MissingEngine(Problem, code="E0577", topic="installation"):
    """egglog, which optimizes programs, is not installed in the version that is needed."""

    version: str
    installed: str
    """Another version that is installed, or nothing."""
    command: str
    """The command that installs the extra."""

    def report(self) -> Report:
        return self.message(
            f"egglog {self.version}, which optimizes programs, is not installed",
            *([Remark("there is", self.installed)] if self.installed else ()),
            cure=Help("install it; `--no-opt` runs a program as it is written", self.command),
        )


class FoldedOverflow(Problem, code="E0572", topic="optimizer"):
    """A weight that the optimizer derives from others is beyond the largest number of its type."""

    name: str
    dtype: str
    sources: tuple[str, ...]

    def report(self) -> Report:
        more = ", ..." if len(self.sources) > LISTED else ""
        return self.message(
            f"the folded weight `{self.name}` is not finite in {self.dtype}",
            Remark("folded from", ", ".join(self.sources[:LISTED]) + more),
            cure=Help("run the program as it is written", "--no-opt"),
        )
