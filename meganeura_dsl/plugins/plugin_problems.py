"""Problems of plugins, and the error that carries them."""

from meganeura_dsl.diagnostics.problem import Help, Problem, ProblemError, Remark, Report
from meganeura_dsl.diagnostics.source import Span


class PluginFailure(Problem, code="E0592", topic="plugin"):
    """A plugin of an installed package cannot be used."""

    kind: str
    """The kind of plugin, such as `optimizer`."""
    name: str
    owners: tuple[str, ...]
    """The packages that have it, with their versions; several where they have the same name."""
    reason: str
    cure: str
    span: Span | None = None
    """The place in the program that asks for it."""

    def report(self) -> Report:
        packages = " and ".join(f"`{owner}`" for owner in self.owners)
        return self.message(
            f"the {self.kind} `{self.name}` of {packages} cannot be used",
            Remark("because", self.reason),
            span=self.span,
            cure=Help(self.cure),
        )


class PluginError(ProblemError):
    """A plugin cannot be used; says which package it is of, and why."""

    def __init__(self, problem: PluginFailure) -> None:
        super().__init__(problem)
        self.failure = problem


class UnfitPluginError(Exception):
    """An entry point names no plugin of its group; the text follows its name."""
