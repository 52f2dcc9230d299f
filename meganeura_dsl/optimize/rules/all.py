"""Which rule sets hold in which mode, and which of their rules a graph can meet."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Literal, assert_never

from meganeura_dsl.optimize.rules.algebra import (
    FOLDING,
    IDENTITIES,
    REDUCTIONS,
    VIEWS,
    WITHOUT_GRADIENT,
)
from meganeura_dsl.optimize.rules.analysis import CONSTANTS, KNOWN
from meganeura_dsl.optimize.rules.attention import ATTENTION, ROTATIONS
from meganeura_dsl.optimize.rules.fusion import ACTIVATIONS, EPILOGUES, NORMS, SOFTMAX
from meganeura_dsl.optimize.rules.inference import AFFINE, REPARAMETERISATION, SCALES
from meganeura_dsl.optimize.rules.movement import COPIES, MOVES, PRODUCTS
from meganeura_dsl.optimize.rules.projections import PROJECTIONS
from meganeura_dsl.optimize.rules.rule import Fact, Rewrite, Rule, RuleSet
from meganeura_dsl.optimize.rules.winograd import WINOGRAD
from meganeura_dsl.optimize.schema import OPAQUE, constructors

Mode = Literal["forward", "train", "infer"]

ALWAYS = (VIEWS, FOLDING, IDENTITIES, REDUCTIONS, MOVES, PRODUCTS, COPIES)
FUSED = (ACTIVATIONS, NORMS, SOFTMAX, ROTATIONS, ATTENTION)
AFTER_GRADIENT = (WITHOUT_GRADIENT, EPILOGUES, PROJECTIONS, WINOGRAD)
WITH_CONSTANTS = (CONSTANTS, AFFINE, REPARAMETERISATION, SCALES)


def rule_sets(mode: Mode) -> tuple[RuleSet, ...]:
    """The rule sets of a mode. Those of `forward` keep the gradient as well as the value."""
    match mode:
        case "forward":
            return (*ALWAYS, *FUSED)
        case "train":
            return (*ALWAYS, *FUSED, *AFTER_GRADIENT)
        case "infer":
            return (*ALWAYS, *FUSED, *AFTER_GRADIENT, *WITH_CONSTANTS)
        case _:
            assert_never(mode)


@cache
def rewrites() -> dict[str, Rewrite]:
    """Every rewrite by name: what may be disabled."""
    every = (rule for each in rule_sets("infer") for rule in each.rules)
    return {rule.name: rule for rule in every if isinstance(rule, Rewrite)}


GIVEN = frozenset((OPAQUE, KNOWN, "copies", "nested", "corner", "outputs", "swap"))
"""What a graph may be loaded with besides its ops: tables that not only rules fill."""


def reachable_rules(rules: Iterable[Rule], ops: Iterable[str]) -> list[Rule]:
    """The rules whose pattern can occur in a graph of these ops, or of ops that rules make of them.

    egglog compiles every rule it is given, which takes longer than a small graph does.
    """
    present = GIVEN.union(ops)
    waiting = list(rules)
    found: list[Rule] = []
    while True:
        ready = [rule for rule in waiting if _heads(rule)[0] <= present]
        if not ready:
            return found
        found += ready
        waiting = [rule for rule in waiting if rule not in ready]
        present = present.union(*(_heads(rule)[1] for rule in ready))


@cache
def told() -> dict[str, Rewrite | Fact]:
    """Every rule that is told of in a report, by name."""
    every = (rule for each in rule_sets("infer") for rule in each.rules)
    return {rule.name: rule for rule in every if isinstance(rule, Rewrite) or rule.about}


def answers(name: str, asking: frozenset[str]) -> bool:
    """Whether a rule states what one of some others looks for."""
    states = _heads(told()[name])[1]
    return any(not states.isdisjoint(_asks(each)) for each in asking)


@cache
def _asks(name: str) -> frozenset[str]:
    """What a rule looks for, be it through facts that no report tells of."""
    found = _heads(told()[name])[0]
    rules = [rule for each in rule_sets("infer") if each is not CONSTANTS for rule in each.rules]
    views = [_heads(rule) for rule in rules if isinstance(rule, Fact) and not rule.about]
    while True:
        more = found.union(*(looks for looks, states in views if not states.isdisjoint(found)))
        if more == found:
            return found
        found = more


@cache
def _heads(rule: Rule) -> tuple[frozenset[str], frozenset[str]]:
    """The constructors and tables that a rule looks for, and those that it fills."""
    action = rule.becomes if isinstance(rule, Rewrite) else rule.then
    return _names_in(rule.when), _names_in(action)


def _names_in(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\(([A-Za-z]\w*)", text)) & (constructors().keys() | _tables())


@cache
def _tables() -> frozenset[str]:
    tables = (table for each in rule_sets("infer") for table in each.tables)
    return frozenset({OPAQUE, *(table.split()[1] for table in tables)})
