"""The facts in `where` about the whole numbers that an elaborated block is given."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.gradcheck.random_inputs import Stated
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.symbolic.conditions import And, Condition, holds, sizes_in
from meganeura_dsl.symbolic.size import dim


@dataclass(frozen=True)
class Element:
    """Any element of an input: the symbol of the facts about it, and its least number."""

    symbol: str
    least: int


def stated_numbers(elaboration: Elaboration) -> Stated:
    """Returns for each input with facts a test of the numbers that they allow."""
    elements = _elements(elaboration)
    return {name: _predicate(elaboration, element) for name, element in elements.items()}


def _predicate(elaboration: Elaboration, element: Element) -> Callable[[int], bool]:
    facts = [fact for fact in _facts(elaboration) if sizes_in(fact) == frozenset({element.symbol})]

    def is_allowed(number: int) -> bool:
        known = {element.symbol: number - element.least}
        return number >= element.least and all(holds(fact, known) for fact in facts)

    return is_allowed


def agree(elaboration: Elaboration, feeds: Mapping[str, Array]) -> bool:
    """True if the facts that are about several inputs hold for all of their elements."""
    elements = _elements(elaboration)
    named = {element.symbol: (name, element) for name, element in elements.items()}
    for fact in _facts(elaboration):
        symbols = sorted(sizes_in(fact))
        if len(symbols) < 2 or not named.keys() >= {*symbols}:
            continue
        numbers = [
            (np.unique(feeds[name]).astype(np.int64) - element.least).tolist()
            for name, element in (named[symbol] for symbol in symbols)
        ]
        if not all(
            holds(fact, dict(zip(symbols, each, strict=True))) for each in product(*numbers)
        ):
            return False
    return True


def _elements(elaboration: Elaboration) -> dict[str, Element]:
    found: dict[str, Element] = {}
    for name, size in elaboration.positions.items():
        (symbol,) = (each for each in size.variables() if each in elaboration.symbols)
        least = size - dim(symbol)
        if isinstance(least, int):
            found[name] = Element(symbol, least)
    return found


def _facts(elaboration: Elaboration) -> Iterator[Condition]:
    for fact in elaboration.facts.stated:
        yield from fact.parts if isinstance(fact, And) else (fact,)
