"""Reports of the optimizer's rewrites, for people and for machines."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from meganeura_dsl.diagnostics.plain_table import count, table

if TYPE_CHECKING:
    from meganeura.cli.driver.stages import Compiled
    from meganeura_dsl.transforms.egraph.rewrite_report import AppliedRule, RewriteReport

MOST_PLACES = 6
"""The largest number of locations listed for one rule."""


def report_data(built: "Compiled") -> dict[str, object]:
    """All that is known, phase after phase, with the formula of every rule that matched."""
    from meganeura_dsl.transforms.egraph.rules.rule_sets import rules_by_name

    known = rules_by_name()
    return {
        "values_before": len(built.graph.values),
        "values_after": len(built.optimized.values),
        "derived": {name: str(value.type) for name, value in built.load.outputs.items()},
        "phases": [report.data() for report in built.reports],
        "formulas": {
            name: known[name].formula
            for report in built.reports
            for name, times in report.matches.items()
            if times
        },
    }


def report_text(built: "Compiled") -> str:
    """The same in tables."""
    if not built.reports:
        return "the optimizer is off"
    parts = [part for report in built.reports for part in _phase(report)]
    if built.load.outputs:
        derived = count(len(built.load.outputs), "parameter")
        parts.append(f"{derived} of it derived from those of the program, once")
    return "\n".join(parts)


def _phase(report: "RewriteReport") -> Iterator[str]:
    milliseconds = {name: f"{1e3 * each:.0f} ms" for name, each in report.seconds.items()}
    total = 1e3 * sum(report.seconds.values())
    times = ", ".join(f"{name} {time}" for name, time in milliseconds.items())
    yield f"{report.mode}: {report.nodes_before:,} values become {report.nodes_after:,}"
    yield (
        f"e-graph: {report.enodes:,} nodes in {report.eclasses:,} classes,"
        f" {count(report.iterations, 'round')}, {total:.0f} ms ({times})"
    )
    before, after = report.cost_before, report.cost_after
    yield table(
        [
            ("cost", "before", "after", ""),
            ("launches", *_change(before.launches, after.launches)),
            ("bytes", *_change(before.bytes, after.bytes)),
            ("flops", *_change(before.flops, after.flops)),
        ],
        right=(1, 2, 3),
    )
    yield from _rules(report)


def _change(before: int, after: int) -> tuple[str, str, str]:
    share = f"{100 * (after / before - 1):+.0f} %" if before else ""
    return f"{before:,}", f"{after:,}", share


def _rules(report: "RewriteReport") -> Iterator[str]:
    """The rules whose results are in the graph, those that led there, and those that are not."""
    yield from _listed("rule chosen", report, report.chosen)
    if report.traced is None:
        yield "no chain of rules was found: what led from one graph to the other is not listed"
    yield from _listed("rule that led there", report, report.contributed)
    used = {each.rule for each in (*report.chosen, *report.contributed)}
    others = [f"{name} {n}" for name, n in report.matches.items() if n and name not in used]
    if others:
        yield f"matched, and not chosen: {', '.join(others)}"


def _listed(title: str, report: "RewriteReport", rules: Sequence["AppliedRule"]) -> Iterator[str]:
    """A row for each rule: how often it counted, its formula, and its locations."""
    from meganeura_dsl.transforms.egraph.rules.rule_sets import rules_by_name

    known, times = rules_by_name(), Counter(each.rule for each in rules)
    rows = [(title, "times", "matches", "formula", "places")]
    for rule, number in times.most_common():
        matches = str(report.matches.get(rule, 0))
        rows.append((rule, str(number), matches, known[rule].formula, _locations(rules, rule)))
    if times:
        yield table(rows, right=(1, 2))


def _locations(rules: Sequence["AppliedRule"], rule: str) -> str:
    """`resnet.mgn:8,9,41`: the lines of a rule, in order, the file named once."""
    found = sorted({each.location for each in rules if each.rule == rule and each.location})
    split = sorted((name, int(line)) for name, _, line in (each.rpartition(":") for each in found))
    shown = [
        f"{name}:{','.join(str(line) for _, line in lines)}"
        for name, lines in groupby(split[:MOST_PLACES], key=lambda each: each[0])
    ]
    return " ".join([*shown, *(["..."] if len(split) > MOST_PLACES else [])])
