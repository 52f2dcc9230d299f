"""Facts of a result of whole numbers: `-> i32[n] where 0 <= result, result < c`.

They are clauses of the `where` that speak of `result`. A block proves them of what it returns, and
whoever applies it knows them. `result` is no such word where the block has a parameter, an input or
a size of this name.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.result_problems import NoResultFact, ResultFactUnproved
from meganeura_dsl.elaborate.scope.new_symbols import marked, symbols_in
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.conditions import clause_condition
from meganeura_dsl.elaborate.typecheck.positions import (
    Invariants,
    assume_bounds,
    bounds_in,
    has_bound,
    position_of,
)
from meganeura_dsl.elaborate.typecheck.stated_positions import names_in
from meganeura_dsl.elaborate.values import ElabValue, Results
from meganeura_dsl.symbolic.assumptions import And
from meganeura_dsl.symbolic.size import dim
from meganeura_dsl.syntax import ast

RESULT = "result"
"""The name of a block's only result in its facts."""


@lru_cache(maxsize=1024)
def result_facts(block: ast.Block) -> tuple[ast.Expression, ...]:
    """The clauses of a `where` that speak of the result."""
    own = {each.name for each in (*block.parameters, *block.inputs)}
    own |= {
        name
        for item in block.inputs
        for entry in item.type.shape.entries
        if not isinstance(entry, ast.Rest)
        for name in names_in(entry)
    }
    if RESULT in own:
        return ()
    return tuple(clause for clause in block.where if RESULT in names_in(clause))


@lru_cache(maxsize=1024)
def stated_facts(block: ast.Block) -> tuple[ast.Expression, ...]:
    """The clauses of a `where` that whoever applies the block has to prove."""
    about = result_facts(block)
    return tuple(clause for clause in block.where if clause not in about)


def require_result_facts(
    inner: Frame, block: ast.Block, signature: Mapping[str, ElabValue], results: Results
) -> None:
    """Raise `ProblemError` unless what a block returns is as its facts say."""
    for clause, bounds in _stated(inner, block, signature).items():
        for operator, bound in bounds:
            if not has_bound(inner, results[0], operator, bound):
                location = inner.location(_last_return(block))
                text = " ".join(clause.span.text.split())
                raise ProblemError(ResultFactUnproved(location, block.name.text, text, clause.span))


def keep_result_facts(
    inner: Frame, block: ast.Block, signature: Mapping[str, ElabValue], results: Results
) -> None:
    """Let the caller know the facts of a result that it cannot see in what was returned."""
    stated = [each for found in _stated(inner, block, signature).values() for each in found]
    if not stated:
        return
    is_seen = all(has_bound(inner, results[0], *each) for each in stated)
    if not is_seen or position_of(inner, results[0]) is None:
        assume_bounds(inner, results[0], tuple(stated))


def assume_result_facts(
    inner: Frame, block: ast.Block, signature: Mapping[str, ElabValue], results: Results
) -> None:
    """Take the facts of a result for true, as the block was proved to give it."""
    bounds = [each for found in _stated(inner, block, signature).values() for each in found]
    if bounds:
        assume_bounds(inner, results[0], tuple(bounds))


def _stated(
    inner: Frame, block: ast.Block, signature: Mapping[str, ElabValue]
) -> dict[ast.Expression, Invariants]:
    """Returns the bounds that each fact states for elements of the result."""
    clauses = result_facts(block)
    if not clauses:
        return {}
    kinds = [each.dtype or "f32" for each in block.results or ()]
    if kinds != ["i32"]:
        raise ProblemError(NoResultFact(inner.location(clauses[0].span), ", ".join(kinds)))
    symbol = dim(marked(RESULT, frozenset[str]().union(*map(symbols_in, signature.values()))))
    given = replace(inner, names={**signature, RESULT: symbol})
    found: dict[ast.Expression, Invariants] = {}
    for clause in clauses:
        condition = clause_condition(clause, given, block)
        parts = condition.parts if isinstance(condition, And) else (condition,)
        bounds = [tuple(bounds_in(part, symbol)) for part in parts if part is not True]
        if not all(bounds):
            raise ProblemError(NoResultFact(inner.location(clause.span), "i32"))
        found[clause] = tuple(each for part in bounds for each in part)
    return found


def _last_return(block: ast.Block) -> Span:
    returns = [each for each in block.body if isinstance(each, ast.Return)]
    return returns[-1].span if returns else block.name.span
