"""Rule pruning: which rules can match, those whose features a graph has or other rules add.

egglog compiles every rule it is given, which takes longer than a small graph does. The features of
a graph are its ops, the texts among their attributes, and the ranks of its tensors; those of a
rule are the constructors, tables and texts in its pattern and in what it adds.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache

from meganeura_dsl.ir.ops import MatMul
from meganeura_dsl.ir.types import DType
from meganeura_dsl.startup.tricks import Trick, is_enabled
from meganeura_dsl.transforms.egraph.encoding.encode import Encoding, Use
from meganeura_dsl.transforms.egraph.encoding.schema import OPAQUE, constructors
from meganeura_dsl.transforms.egraph.rules.constant_analysis import CONSTANTS, KNOWN
from meganeura_dsl.transforms.egraph.rules.rule import STACKED, Fact, Rewrite, Rule, rank_word
from meganeura_dsl.transforms.egraph.rules.rule_sets import rule_sets, rules_by_name

ALWAYS = frozenset(
    (
        *(OPAQUE, KNOWN, "copies", "nested", "corner", "outputs", "swap"),
        *(dtype.value for dtype in DType),
        rank_word(0),
    )
)
"""Tables that every graph may have beside its features: numbers, and those filled without rules."""


def features_of(encoding: Encoding) -> frozenset[str]:
    """The features of a graph."""
    ranks = frozenset(rank_word(of.rank) for of in encoding.types)
    return ranks.union(*map(_features_of_use, encoding.uses))


def _features_of_use(use: Use) -> Iterator[str]:
    name = use.constructor
    yield name
    yield rank_word(use.of.rank, name)
    if isinstance(use.op, MatMul) and use.of.rank > 2:
        yield STACKED
    for field, sort in constructors()[name].fields:
        if sort == "String":
            yield str(getattr(use.op, field))


def reachable_rules(rules: Iterable[Rule], features: Iterable[str]) -> list[Rule]:
    """The rules that can match in a graph of these features, but for facts that none reads."""
    if not is_enabled(Trick.PRUNING):
        return list(rules)
    present = ALWAYS.union(features)
    waiting = list(rules)
    found: list[Rule] = []
    while True:
        ready = [rule for rule in waiting if _features(rule)[0] <= present]
        if not ready:
            return _read(found)
        found += ready
        waiting = [rule for rule in waiting if not _features(rule)[0] <= present]
        present = present.union(*(_features(rule)[1] for rule in ready))


def _read(rules: list[Rule]) -> list[Rule]:
    while True:
        read = frozenset[str]().union(*(_features(rule)[0] for rule in rules))
        kept = [
            rule
            for rule in rules
            if isinstance(rule, Rewrite) or not read.isdisjoint(_features(rule)[1] & _tables())
        ]
        if len(kept) == len(rules):
            return kept
        rules = kept


def answers(name: str, asking: frozenset[str]) -> bool:
    """True if a rule states what one of some others looks for."""
    states = _heads(rules_by_name()[name])[1]
    return any(not states.isdisjoint(_asks(each)) for each in asking)


@cache
def _asks(name: str) -> frozenset[str]:
    """Returns the facts that a rule matches, also through facts that no report lists."""
    found = _heads(rules_by_name()[name])[0]
    rules = [rule for each in rule_sets("infer") if each is not CONSTANTS for rule in each.rules]
    views = [_heads(rule) for rule in rules if isinstance(rule, Fact) and not rule.about]
    while True:
        more = found.union(*(looks for looks, states in views if not states.isdisjoint(found)))
        if more == found:
            return found
        found = more


def names_of(rules: Iterable[Rule]) -> frozenset[str]:
    """The constructors and tables that rules speak of."""
    return frozenset[str]().union(*(names for rule in rules for names in _heads(rule)))


@cache
def _features(rule: Rule) -> tuple[frozenset[str], frozenset[str]]:
    """The features that a rule looks for, and those that it adds."""
    looks, states = _heads(rule)
    return looks.union(rule.given, _texts_in(rule.when)), states | _texts_in(_action(rule))


@cache
def _heads(rule: Rule) -> tuple[frozenset[str], frozenset[str]]:
    """The constructors and tables that a rule looks for, and those that it fills."""
    return _names_in(rule.when), _names_in(_action(rule))


def _action(rule: Rule) -> str:
    return rule.becomes if isinstance(rule, Rewrite) else rule.then


def _names_in(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\(([A-Za-z]\w*)", text)) & _names()


@cache
def _names() -> frozenset[str]:
    return _tables().union(constructors())


def _texts_in(text: str) -> frozenset[str]:
    return frozenset(re.findall(r'"(\w+)"', text))


@cache
def _tables() -> frozenset[str]:
    return frozenset((OPAQUE,)).union(*(each.table_names for each in rule_sets("infer")))
