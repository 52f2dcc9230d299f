"""Counts of what became of samples, and the table of docs/yardsticks.md."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from tests.parity.opinfo.compare import Outcome, RunGraph, outcome, told
from tests.parity.opinfo.lacks import KINDS, kind_of
from tests.parity.opinfo.samples import mistakes, samples
from tests.parity.opinfo.saying import Row
from tests.parity.opinfo.table import ROWS


@dataclass
class Counts:
    """Outcomes of samples and of mistakes, with their reasons, and texts about what is wrong."""

    samples: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    mistakes: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    wrong: list[str] = field(default_factory=list[str])

    def add(self, row: Row, found: Outcome, *, is_mistake: bool) -> None:
        """Counts one outcome."""
        of = self.mistakes if is_mistake else self.samples
        of[found.kind, found.reason if found.kind != "wrong" else ""] += 1
        if found.kind == "wrong":
            self.wrong.append(f"{row}: {found.reason}\n{found.text}")


def counted(
    rows: tuple[Row, ...] = ROWS,
    devices: Mapping[str, RunGraph] = {},
    every: int = 1,
    note: Callable[[str], object] = lambda _: None,
) -> Counts:
    """Compares every n-th sample of each row, and all mistakes."""
    counts = Counts()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in rows:
            before = len(counts.wrong)
            for dtype in row.dtypes:
                for sample in islice(samples(row.theirs, dtype), 0, None, every):
                    counts.add(row, outcome(row, sample, devices), is_mistake=False)
            for each in mistakes(row.theirs):
                counts.add(row, told(row, each), is_mistake=True)
            for each in counts.wrong[before:]:
                note(f"WRONG {each}")
    return counts


def tables(counts: Counts) -> Iterator[str]:
    """Lines of Markdown."""
    yield "| outcome | samples | mistakes |"
    yield "|---|---|---|"
    said = (
        ("agrees", "values and gradients agree; a mistake is refused", "told"),
        ("refused", "refused with a reason", ""),
        ("accepted", "accepted, because it means something here", "accepted"),
        ("not said", "no form here", "not said"),
        ("wrong", "wrong", "wrong"),
    )
    for kind, text, of_mistakes in said:
        numbers = (_total(counts.samples, kind), _total(counts.mistakes, of_mistakes))
        yield f"| {text} | {numbers[0]:,} | {numbers[1]:,} |"
    yield ""
    yield "| why there is no form | samples | mistakes |"
    yield "|---|---|---|"
    for kind in KINDS:
        numbers = [
            sum(
                count
                for (outcome_, reason), count in of.items()
                if outcome_ == "not said" and kind_of(reason) == kind
            )
            for of in (counts.samples, counts.mistakes)
        ]
        if any(numbers):
            yield f"| {kind} | {numbers[0]:,} | {numbers[1]:,} |"
    yield ""
    yield "| why it is refused | samples |"
    yield "|---|---|"
    for (outcome_, reason), count in counts.samples.most_common():
        if outcome_ == "refused":
            yield f"| {reason} | {count:,} |"


def _total(of: Counter[tuple[str, str]], kind: str) -> int:
    return sum(count for (outcome_, _), count in of.items() if outcome_ == kind)
