"""The rewrites of a graph, as data."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property

from meganeura_dsl.ir.cost_model import Cost


@dataclass(frozen=True)
class AppliedRule:
    """A rule that had a part in the optimized graph, and where in the program that is."""

    rule: str
    op: str
    path: str
    location: str


@dataclass(frozen=True)
class Findings:
    """Findings that take time to compute: the rules behind the graph, and the costs."""

    chosen: tuple[AppliedRule, ...]
    cost_before: Cost
    cost_after: Cost


@dataclass(frozen=True, eq=False)
class RewriteReport:
    """Sizes, times and choices of one optimization.

    `matches` counts how often a rule's pattern was found, whether or not that led to anything.
    """

    mode: str
    nodes_before: int
    nodes_after: int
    enodes: int
    eclasses: int
    iterations: int
    seconds: Mapping[str, float]
    matches: Mapping[str, int]
    look: Callable[[], Findings] = field(repr=False)
    trace: Callable[[], tuple[AppliedRule, ...] | None] = field(repr=False)

    @cached_property
    def findings(self) -> Findings:
        """The findings, computed at the first use."""
        return self.look()

    @property
    def chosen(self) -> tuple[AppliedRule, ...]:
        """The rewrites whose results the cheapest graph is made of."""
        return self.findings.chosen

    @cached_property
    def traced(self) -> tuple[AppliedRule, ...] | None:
        """The other rules of the chain that leads to the graph; `None` if no chain was found.

        To find the chain takes seconds for a large model.
        """
        return self.trace()

    @property
    def contributed(self) -> tuple[AppliedRule, ...]:
        """The rules of `traced`, once for each application."""
        return self.traced or ()

    @property
    def cost_before(self) -> Cost:
        """The cost of the graph that was given, by the model of a plan."""
        return self.findings.cost_before

    @property
    def cost_after(self) -> Cost:
        """The cost of the cheapest graph."""
        return self.findings.cost_after

    def data(self) -> dict[str, object]:
        """All of it, for programs."""
        sizes = {
            name: getattr(self, name)
            for name in ("mode", "nodes_before", "nodes_after", "enodes", "eclasses", "iterations")
        }
        known = {"seconds": dict(self.seconds), "matches": dict(self.matches)}
        contributed = [asdict(each) for each in self.contributed]
        return {**sizes, **known, **asdict(self.findings), "contributed": contributed}
