"""The result of a check, and its text for Python and for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape

from meganeura_dsl.diagnostics.characters import printable
from meganeura_dsl.diagnostics.html import html_of
from meganeura_dsl.diagnostics.problem import Problem, Report, Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.diagnostics.verdict import verdict
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.scope.binding import Binding
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.program import Program


def _as_they_are(reports: tuple[Report, ...]) -> tuple[Report, ...]:
    return reports


@dataclass(frozen=True, repr=False)
class CheckResult:
    """The result of a check: all problems, the declarations that were proved, and the types."""

    program: Program
    problems: tuple[Problem, ...]
    types: Mapping[tuple[int, str], TensorType]
    proved: tuple[str, ...]
    holds: int
    values: tuple[Binding, ...] = ()
    """Every visible value of the file, the first at its place: names, and stages of pipes."""
    elaborations: Mapping[str, Elaboration] = field(default_factory=dict[str, Elaboration])
    """The models that hold, by name, with the parameters of their checkpoints."""
    texts: tuple[tuple[str, Source], ...] = ()
    """All texts that it depends on: the file itself, under no name, imported ones, the library."""
    repaired: Callable[[tuple[Report, ...]], tuple[Report, ...]] = _as_they_are
    """The reports, with the help that a search for small edits found."""

    @cached_property
    def reports(self) -> tuple[Report, ...]:
        """A report for each problem."""
        return self.repaired(tuple(problem.report() for problem in self.problems))

    def __repr__(self) -> str:
        """The text of `meganeura check`."""
        return "\n\n".join([*map(render, self.reports), self._verdict])

    def _repr_html_(self) -> str:
        """The same, in colours, for a notebook."""
        return f"{html_of(self.reports)}\n<div>{escape(self._verdict)}</div>"

    @property
    def _verdict(self) -> str:
        found = [each.severity for each in self.problems]
        return verdict(printable(self.program.source.name), found, len(self.proved), self.holds)

    @property
    def bindings(self) -> Mapping[tuple[int, str], str]:
        """Every visible value's type as text, by its line and name."""
        return {location: str(type_) for location, type_ in self.types.items()}

    @property
    def fine(self) -> bool:
        """True if nothing is wrong; notes are not errors."""
        return all(problem.severity is not Severity.ERROR for problem in self.problems)
