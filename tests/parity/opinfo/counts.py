"""Counts of what became of samples, and the table of docs/yardsticks.md."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.parity.opinfo.compare import Outcome, RunGraph, outcome, told
from tests.parity.opinfo.lacks import KINDS, kind_of
from tests.parity.opinfo.samples import mistakes, samples
from tests.parity.opinfo.saying import Row
from tests.parity.opinfo.table import ROWS, WITHOUT

Outcomes = Counter[tuple[str, str]]
"""Numbers of outcomes, by kind and reason."""
Names = tuple[str, str]
"""A function and its counterpart."""


@dataclass
class Counts:
    """Outcomes of samples and of mistakes by row, with their reasons, and what is wrong."""

    by_row: dict[Names, tuple[Outcomes, Outcomes]] = field(
        default_factory=dict[Names, tuple[Outcomes, Outcomes]]
    )
    wrong: list[str] = field(default_factory=list[str])

    def add(self, row: Row, found: Outcome, *, is_mistake: bool) -> None:
        """Counts one outcome."""
        of = self.by_row.setdefault((row.ours, row.theirs), (Counter(), Counter()))[is_mistake]
        of[found.kind, found.reason if found.kind != "wrong" else ""] += 1
        if found.kind == "wrong":
            self.wrong.append(f"{row}: {found.reason}\n{found.text}")

    @property
    def samples(self) -> Outcomes:
        """Outcomes of the samples of all rows."""
        return sum((of for of, _ in self.by_row.values()), Outcomes())

    @property
    def mistakes(self) -> Outcomes:
        """Outcomes of the mistakes of all rows."""
        return sum((of for _, of in self.by_row.values()), Outcomes())


def counted(
    rows: tuple[Row, ...] = ROWS,
    devices: Mapping[str, RunGraph] = {},
    every: int = 1,
    note: Callable[[str], object] = lambda _: None,
) -> Counts:
    """Compares all samples and all mistakes; of those that agree every n-th on the devices too."""
    counts = Counts()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in rows:
            before = len(counts.wrong)
            for dtype in row.dtypes:
                agreed = 0
                for sample in samples(row.theirs, dtype):
                    found = outcome(row, sample, {} if agreed % every else devices)
                    counts.add(row, found, is_mistake=False)
                    agreed += found.kind == "agrees"
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


def by_function(counts: Counts) -> Iterator[str]:
    """Lines of Markdown: a row for each function and its counterpart, and those without one."""
    yield "| ours | PyTorch's | samples | agree | refused, or without a form, and why | mistakes |"
    yield "|---|---|---|---|---|---|"
    for (ours, theirs), (samples_, mistakes_) in sorted(counts.by_row.items()):
        whys = ", ".join(
            f"{reason} ({count:,})"
            for (kind, reason), count in samples_.most_common()
            if kind != "agrees"
        )
        numbers = f"{samples_.total():,} | {_total(samples_, 'agrees'):,} | {whys}"
        told_ = f"{_total(mistakes_, 'told')} of {mistakes_.total()}" if mistakes_ else ""
        name, _, variant = theirs.partition("/")
        counterpart = f"`{name}` {variant}".rstrip()
        yield f"| `{ours}` | {counterpart} | {numbers} | {told_} |"
    yield ""
    yield "| without a counterpart | why |"
    yield "|---|---|"
    for reason in dict.fromkeys(WITHOUT.values()):
        names = ", ".join(f"`{name}`" for name, why in WITHOUT.items() if why == reason)
        yield f"| {names} | {reason} |"


def _total(of: Outcomes, kind: str) -> int:
    return sum(count for (outcome_, _), count in of.items() if outcome_ == kind)
