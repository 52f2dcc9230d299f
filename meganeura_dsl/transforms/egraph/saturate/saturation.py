"""Rules run on an e-graph until nothing is new, with a bound that ends in an error."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from meganeura_dsl.transforms.egraph.encoding.egglog_engine import Engine, Progress
from meganeura_dsl.transforms.egraph.rules.rule import Rule

STAGES = tuple(f"(run-schedule (run {stage}))" for stage in ("reading", "rewriting", "late"))
GROWTH = 40
"""Entries for each value of a graph before saturation gives up: rules that do not end grow on."""
LEAST_LIMIT = 20_000
"""Entries that a small graph may have, as constants and tables do not grow with it."""


class OptimizerError(Exception):
    """The optimizer gave up rather than guess; the message names the rule or the value."""


@dataclass
class Saturation:
    """Statistics of a saturation: iterations, and the matches of each rule, also repeated ones."""

    iterations: int = 0
    matches: Counter[str] = field(default_factory=Counter[str])


def rule_program(rules: Iterable[Rule]) -> list[str]:
    """The commands that declare the rules, whose tables are known."""
    texts = [rule.text for rule in rules]
    return ["(ruleset reading)", "(ruleset rewriting)", "(ruleset late)", *texts]


def saturate(engine: Engine, size: int, limit: int | None = None) -> Saturation:
    """Run all rules to their fixpoint on a graph of `size` values.

    Raises `OptimizerError` if the e-graph grows past `limit` entries.
    """
    limit = max(LEAST_LIMIT, GROWTH * size) if limit is None else limit
    done = Saturation()
    stage = 0
    while stage < len(STAGES):
        progress = engine.run(STAGES[stage])
        done.iterations += stage > 0
        done.matches.update(progress.matches)
        # Facts first, then rewrites, then what waits for both; anything new starts over.
        stage = 0 if progress.updated else stage + 1
        if progress.updated and engine.entries() > limit:
            raise _growth(size, limit, engine.entries(), progress)
    return done


def _growth(size: int, limit: int, entries: int, progress: Progress) -> OptimizerError:
    name, times = Counter(progress.matches).most_common(1)[0]
    return OptimizerError(
        f"the e-graph of {size} values has {entries} entries, which is more than {limit};"
        f" in its last iteration rule `{name}` matched most often, {times} times: optimize"
        " without it"
    )
