"""Rules. A rule binds `e`, the class it is about, and either rewrites it or states a fact.

Patterns are egglog's: `(Add a b t)` is a sum of a and b of type t, `(type x)` the type of x. An op
with an optional operand has its name too: `(FusedConv_residual x w bias residual ...)`.
"""

from dataclasses import dataclass
from functools import cached_property

from meganeura_dsl.transforms.egraph.rules.rule_text import typed

STACKED = "products of stacked matrices"
"""The word of graphs that have these."""


def rank_word(rank: int, of: str = "tensor") -> str:
    """The word of graphs that have a tensor of this rank, or one that this op makes."""
    return f"{of} of rank {rank}"


@dataclass(frozen=True)
class Rewrite:
    """Where `when` holds, `e` is also `becomes`.

    A rule that is `late` runs only when no other has anything new to say. It is left out
    of graphs that lack one of the words `given`, or one in its pattern (`reach.py`).
    """

    name: str
    formula: str
    when: str
    becomes: str
    late: bool = False
    given: tuple[str, ...] = ()

    @property
    def constructor(self) -> str | None:
        """The constructor that the rule puts into its class; None if it names a part of it."""
        return self.becomes[1:].split()[0] if self.becomes.startswith("(") else None

    @cached_property
    def text(self) -> str:
        """The rule in egglog's language."""
        actions = typed(f'(union e {self.becomes}) (why e "{self.name}")')
        stage = "late" if self.late else "rewriting"
        return f'(rule ({self.when}) ({actions}) :ruleset {stage} :name "{self.name}")'


@dataclass(frozen=True)
class Fact:
    """Where `when` holds, so does `then`: a view of the graph that rewrites read.

    What it says of the class `about`, a report tells; without one it is bookkeeping. It is left
    out as a rewrite is.
    """

    name: str
    formula: str
    when: str
    then: str
    about: str = ""
    given: tuple[str, ...] = ()

    @cached_property
    def text(self) -> str:
        """The rule in egglog's language."""
        report = f' (why {self.about} "{self.name}")' if self.about else ""
        then = f"{typed(self.then)}{report}"
        return f'(rule ({self.when}) ({then}) :ruleset reading :name "{self.name}")'


Rule = Rewrite | Fact


@dataclass(frozen=True)
class RuleSet:
    """Rules that belong together, and the tables they keep their facts in."""

    name: str
    rules: tuple[Rule, ...]
    tables: tuple[str, ...] = ()

    @cached_property
    def table_names(self) -> frozenset[str]:
        """The names of the tables."""
        return frozenset(table.split()[1] for table in self.tables)
