"""Facts of results of whole numbers: `-> i32[n] where 0 <= result, result < c`.

They are clauses of the `where` that speak of a result by its name, or of the only one, where it has
no name, as `result`. A block proves them of what it returns, and whoever applies it knows them.
`result` is no such word where the block has a parameter, an input or a size of this name.
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
    kept_bounds,
    position_of,
)
from meganeura_dsl.elaborate.typecheck.stated_positions import names_in
from meganeura_dsl.elaborate.values import ElabValue, Results
from meganeura_dsl.symbolic.assumptions import And
from meganeura_dsl.symbolic.size import dim
from meganeura_dsl.syntax import ast

RESULT = "result"
"""The name of a result in facts where the signature has none for it."""


@lru_cache(maxsize=1024)
def _result_names(block: ast.Block) -> tuple[str, ...]:
    """The names that facts have for the results, in order."""
    if block.result_names:
        return block.result_names
    own = {each.name for each in (*block.parameters, *block.inputs)}
    own |= {
        name
        for item in block.inputs
        for entry in item.type.shape.entries
        if not isinstance(entry, ast.Rest)
        for name in names_in(entry)
    }
    return () if RESULT in own else (RESULT,)


@lru_cache(maxsize=1024)
def result_facts(block: ast.Block) -> tuple[ast.Expression, ...]:
    """The clauses of a `where` that speak of results."""
    names = {*_result_names(block)}
    return tuple(clause for clause in block.where if not names.isdisjoint(names_in(clause)))


@lru_cache(maxsize=1024)
def stated_facts(block: ast.Block) -> tuple[ast.Expression, ...]:
    """The clauses of a `where` that whoever applies the block has to prove."""
    about = result_facts(block)
    return tuple(clause for clause in block.where if clause not in about)


def require_result_facts(
    inner: Frame, block: ast.Block, signature: Mapping[str, ElabValue], results: Results
) -> None:
    """Raise `ProblemError` unless what a block returns is as its facts say."""
    for clause, (at, bounds) in _stated(inner, block, signature).items():
        if kept_bounds(inner, results[at], bounds) != bounds:
            location = inner.location(_last_return(block))
            text = " ".join(clause.span.text.split())
            raise ProblemError(ResultFactUnproved(location, block.name.text, text, clause.span))


def keep_result_facts(
    inner: Frame, block: ast.Block, signature: Mapping[str, ElabValue], results: Results
) -> None:
    """Let the caller know the facts of results that it cannot see in what was returned."""
    for at, stated in _by_result(_stated(inner, block, signature)).items():
        is_seen = kept_bounds(inner, results[at], stated) == stated
        if not is_seen or position_of(inner, results[at]) is None:
            assume_bounds(inner, results[at], stated)


def assume_result_facts(
    inner: Frame, block: ast.Block, signature: Mapping[str, ElabValue], results: Results
) -> None:
    """Take the facts of results for true, as the block was proved to give them."""
    for at, bounds in _by_result(_stated(inner, block, signature)).items():
        assume_bounds(inner, results[at], bounds)


_Stated = Mapping[ast.Expression, tuple[int, Invariants]]


def _by_result(stated: _Stated) -> dict[int, Invariants]:
    """Returns the bounds of each result that has some, by its place."""
    found: dict[int, Invariants] = {}
    for at, bounds in stated.values():
        found[at] = (*found.get(at, ()), *bounds)
    return found


def _stated(inner: Frame, block: ast.Block, signature: Mapping[str, ElabValue]) -> _Stated:
    """Returns, for each fact, the place of the result and the bounds it states for its elements."""
    names = _result_names(block)
    taken = frozenset[str]().union(*map(symbols_in, signature.values()))
    kinds = [each.dtype or "f32" for each in block.results or ()]
    found: dict[ast.Expression, tuple[int, Invariants]] = {}
    for clause in result_facts(block):
        about = [at for at, name in enumerate(names) if name in names_in(clause)]
        stated = kinds if names == (RESULT,) else [kinds[at] for at in about]
        if stated != ["i32"]:
            raise ProblemError(NoResultFact(inner.location(clause.span), ", ".join(stated)))
        (at,) = about
        symbol = dim(marked(names[at], taken))
        given = replace(inner, names={**signature, names[at]: symbol})
        condition = clause_condition(clause, given, block)
        parts = condition.parts if isinstance(condition, And) else (condition,)
        bounds = [tuple(bounds_in(part, symbol)) for part in parts if part is not True]
        if not all(bounds):
            raise ProblemError(NoResultFact(inner.location(clause.span), "i32"))
        found[clause] = at, tuple(each for part in bounds for each in part)
    return found


def _last_return(block: ast.Block) -> Span:
    returns = [each for each in block.body if isinstance(each, ast.Return)]
    return returns[-1].span if returns else block.name.span
