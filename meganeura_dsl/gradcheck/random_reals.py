"""Real numbers of a configuration, drawn so that the facts about them hold."""

from collections.abc import Iterator, Mapping
from itertools import islice, pairwise, product

from meganeura_dsl.elaborate.declarations.block_domain import facts_hold
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.typecheck.stated_positions import names_in
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.gradcheck.random_sizes import Choose
from meganeura_dsl.syntax import ast

MOST_TRIED = 1000
"""The combinations of numbers that are compared with the facts."""


def choose_reals(
    choose: Choose,
    module: LinkedModule,
    block: ast.Block,
    drawn: Mapping[str, float],
    known: Mapping[str, StaticValue],
) -> Mapping[str, float]:
    """Returns `drawn`, or other numbers of these names where the facts exclude those.

    `known` has all else that the facts may speak of. Candidates are the numbers that the facts
    compare with, and numbers around and between them. Where none is allowed, it is `drawn`.
    """
    known = {name: value for name, value in known.items() if name not in drawn}
    if not drawn or facts_hold(module, block, {**known, **drawn}):
        return drawn
    stated = [fact for fact in block.where if not drawn.keys().isdisjoint(names_in(fact))]
    numbers = dict.fromkeys((*drawn.values(), *_around(stated)))
    candidates = {
        name: [each for each in numbers if facts_hold(module, block, {**known, name: each})]
        for name in drawn
        if any(name in names_in(fact) for fact in stated)
    }
    combinations = (
        dict(zip(candidates, each, strict=True)) for each in product(*candidates.values())
    )
    allowed = [
        each
        for each in islice(combinations, MOST_TRIED)
        if facts_hold(module, block, {**known, **each})
    ]
    return {**drawn, **allowed[choose(range(len(allowed)))]} if allowed else drawn


def _around(facts: list[ast.Expression]) -> Iterator[float]:
    """Numbers between, below and above those that facts compare with."""
    written = sorted(
        {
            float(node.value)
            for fact in facts
            for node in walk(fact)
            if isinstance(node, ast.Integer | ast.Real)
        }
    )
    for low, high in pairwise(written):
        yield from (low + (high - low) * share for share in (0.5, 0.75))
    for number in written:
        yield from (number, number + 1, number - 1, 2 * number, number / 2)
