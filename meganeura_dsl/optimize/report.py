"""What the optimizer did, for people and for machines."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

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

    def to_json(self) -> str:
        """All of it, as one JSON object."""
        return json.dumps(asdict(self))


def explain_text(report: Report) -> str:
    """The report as people read it."""
    before, after = report.cost_before, report.cost_after
    total = sum(report.seconds.values())
    phases = ", ".join(f"{name} {1e3 * time:.0f}" for name, time in report.seconds.items())
    lines = [
        (
            f"{report.mode}: {report.nodes_before} nodes -> {report.nodes_after}"
            f" ({report.enodes} e-nodes in {report.eclasses} classes,"
            f" {report.iterations} rounds, {1e3 * total:.0f} ms: {phases})"
        ),
        f"  launches  {before.launches:>14,} -> {after.launches:,}",
        f"  bytes     {before.bytes:>14,} -> {after.bytes:,}",
        f"  flops     {before.flops:>14,} -> {after.flops:,}",
    ]
    counts = Counter(chosen.rule for chosen in report.chosen)
    for rule, count in counts.most_common():
        lines.append(f"{rule}: chosen {count} times of {report.matches.get(rule, 0)} matches")
        lines += [f"    {_line(chosen)}" for chosen in report.chosen if chosen.rule == rule]
    return "\n".join(lines) + "\n"


def _line(chosen: Chosen) -> str:
    words = (chosen.op, chosen.path, f"({chosen.place})" if chosen.place else "")
    return " ".join(word for word in words if word)
