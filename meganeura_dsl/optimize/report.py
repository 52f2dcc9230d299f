"""What the optimizer did, as data."""

from collections.abc import Mapping
from dataclasses import dataclass

from meganeura_dsl.optimize.cost import Cost


@dataclass(frozen=True)
class Chosen:
    """A rewrite whose result is in the optimized graph, and where in the program it is."""

    rule: str
    op: str
    path: str
    place: str


@dataclass(frozen=True)
class Report:
    """Sizes, times and choices of one optimization.

    `matches` counts how often a rule's pattern was found, whether or not that led to anything;
    `chosen` is what the cheapest graph was made with.
    """

    mode: str
    nodes_before: int
    nodes_after: int
    enodes: int
    eclasses: int
    iterations: int
    seconds: Mapping[str, float]
    matches: Mapping[str, int]
    chosen: tuple[Chosen, ...]
    cost_before: Cost
    cost_after: Cost
