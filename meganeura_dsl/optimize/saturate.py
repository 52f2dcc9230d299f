"""Rules run on an e-graph until nothing is new, with a bound that ends in an error."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from meganeura_dsl.optimize.engine import Engine
from meganeura_dsl.optimize.rules.rule import Rule, RuleSet

STEP = "(run-schedule (seq (saturate (run reading)) (run rewriting)))"
LATE_STEP = "(run-schedule (run late))"
GROWTH = 40
LEAST_LIMIT = 20_000


class OptimizerError(Exception):
    """The optimizer gave up rather than guess; the message names the rule or the value."""


@dataclass
class Saturation:
    """What it took: rounds, and how often each rule matched, repeated matches counted again."""

    iterations: int = 0
    matches: Counter[str] = field(default_factory=Counter[str])


def rule_program(rule_sets: Iterable[RuleSet], rules: Iterable[Rule]) -> list[str]:
    """The commands that declare the tables of the rule sets, and the rules."""
    tables = [table for each in rule_sets for table in each.tables]
    texts = [rule.text() for rule in rules]
    return ["(ruleset reading)", "(ruleset rewriting)", "(ruleset late)", *tables, *texts]


def saturate(engine: Engine, size: int, limit: int | None = None) -> Saturation:
    """Run all rules to their fixpoint on a graph of `size` values.

    Raises `OptimizerError` if the e-graph grows past `limit` entries.
    """
    limit = max(LEAST_LIMIT, GROWTH * size) if limit is None else limit
    done = Saturation()
    while True:
        progress = engine.run(STEP)
        if not progress.updated:
            progress = engine.run(LATE_STEP)
        done.iterations += 1
        done.matches.update(progress.matches)
        if not progress.updated:
            return done
        entries = engine.entries()
        if entries > limit:
            name, times = Counter(progress.matches).most_common(1)[0]
            raise OptimizerError(
                f"the e-graph of {size} values has {entries} entries after"
                f" {done.iterations} rounds, which is more than {limit};"
                f" in the last round rule `{name}` matched most often, {times} times:"
                f" optimize without it"
            )
