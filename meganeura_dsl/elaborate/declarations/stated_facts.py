"""The facts that a block states in `where`, and those that each part of it knows."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import Problem, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.location import FIRST, Clause, LocatedProblem
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.conditions import (
    clause_condition_on_path,
    condition_on_all_paths,
)
from meganeura_dsl.elaborate.typecheck.stated_positions import is_position
from meganeura_dsl.symbolic.assumptions import Condition
from meganeura_dsl.syntax import ast

CLOSED = re.compile(r"(?:(?:\s|#.*)*\))*")
"""The parentheses that close behind an expression."""


@contextmanager
def preceding_where() -> Generator[None]:
    """Marks problems of the `with` block as found before any `where` is known."""
    try:
        yield
    except ProblemError as error:
        problem = error.problem
        if not isinstance(problem, LocatedProblem):
            raise
        location = replace(problem.location, precedes_where=True)
        raise ProblemError(replace(problem, location=location)) from error


def condition_of(clause: ast.Expression, frame: Frame, block: ast.Block | ast.Train) -> Condition:
    """The condition of a clause of `where`, which knows no clause behind it.

    Raises `ProblemError` that says so.
    """
    try:
        if isinstance(block, ast.Train):
            return condition_on_all_paths(clause, frame)
        return clause_condition_on_path(clause, frame, block)
    except ProblemError as error:
        raise ProblemError(_at(error.problem, _before(clause, block))) from error


def with_clause(problem: Problem, block: ast.Block) -> Problem:
    """The problem, with the place where the block can state a fact that it lacks."""
    if isinstance(problem, LocatedProblem) and problem.location.where is not None:
        return problem
    return _at(problem, _after_all(block))


def _at(problem: Problem, where: Clause | None) -> Problem:
    if not isinstance(problem, LocatedProblem):
        return problem
    return replace(problem, location=replace(problem.location, where=where))


def _after_all(block: ast.Block) -> Clause | None:
    """The end of a block's `where`, or of its signature, and what begins a clause there."""
    if not block.inputs:
        return None
    text, end = block.span.source.text, _signature_end(block)
    lead = FIRST
    if block.where:
        end, lead = block.where[-1].span.end, ", "
        if closed := CLOSED.match(text, end):
            end = closed.end()
    elif not block.results:
        end = text.index(")", end) + 1
    return Clause(Span(block.span.source, end, end), lead, _names(block))


def _before(clause: ast.Expression, block: ast.Block | ast.Train) -> Clause:
    """The place before a clause, and before its parentheses.

    There is nothing to write where clauses follow: they may exclude it, or say it already.
    """
    text, start, end = clause.span.source.text, clause.span.start, _signature_end(block)
    between = re.sub("#.*", lambda comment: " " * len(comment[0]), text[end:start])
    opened = between.find("(", max(between.rfind("where"), between.rfind(",")))
    if opened >= 0:
        start = end + opened
    lead = "" if text[start - 1].isspace() else " "
    names = frozenset[str]()
    if isinstance(block, ast.Block) and clause is block.where[-1]:
        names = _names(block)
    return Clause(Span(clause.span.source, start, start), lead, names, before=True)


def _signature_end(block: ast.Block | ast.Train) -> int:
    """Returns the end of the last input or result, or of the name of a block without any."""
    results = (block.results or ()) if isinstance(block, ast.Block) else ()
    return (block.name, *block.inputs, *results)[-1].span.end


def _names(block: ast.Block) -> frozenset[str]:
    """Returns the names that the facts of a block may use."""
    names = {parameter.name for parameter in block.parameters}
    for item in block.inputs:
        names.update(re.findall(r"[A-Za-z_]\w*", item.type.span.text))
        if is_position(item):
            names.add(item.name)
    return frozenset(names)
