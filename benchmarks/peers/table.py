"""The numbers of a comparison as tables for people, and as JSON."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.peers.contender import RESIDENT
from benchmarks.peers.kernel_kinds import ALL_KINDS
from benchmarks.peers.processes import Job

RATIO = "ours / best other"


def column_of(job: Job, way: str = RESIDENT, *, precisions: int = 1) -> str:
    """Returns the name of a contender's column, with its precision if there are several."""
    parts = [job.mode.name, *([job.precision] if precisions > 1 else ()), *([way] if way else ())]
    return ", ".join(parts)


@dataclass
class Table:
    """Times by case and column, and why some are missing."""

    ours: frozenset[str]
    """The columns that are compared with the best of the others."""
    order: Sequence[str]
    """Of the columns."""
    times: dict[str, dict[str, list[float]]] = field(
        default_factory=dict[str, dict[str, list[float]]]
    )
    differences: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    figures: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    profiles: dict[str, dict[str, Mapping[str, object]]] = field(
        default_factory=dict[str, dict[str, Mapping[str, object]]]
    )
    reasons: dict[str, dict[str, list[str]]] = field(
        default_factory=dict[str, dict[str, list[str]]]
    )
    """The cases without a number, by column and reason."""

    def expect(self, cases: Iterable[str]) -> None:
        """The order of the rows."""
        for case in cases:
            self.times.setdefault(case, {})

    def add(self, case: str, column: str, times: Iterable[float]) -> None:
        """Milliseconds of more rounds."""
        self.times.setdefault(case, {}).setdefault(column, []).extend(times)

    def miss(self, case: str, column: str, reason: str) -> None:
        """Writes the reason why there is no number."""
        self.times.setdefault(case, {})
        self.reasons.setdefault(column, {}).setdefault(reason, []).append(case)

    def medians(self, case: str) -> dict[str, float]:
        """The median of all rounds, by column."""
        return {column: statistics.median(times) for column, times in self.times[case].items()}

    def best(self, case: str, *, ours: bool) -> str | None:
        """The column of the fastest of ours, or of the others; `None` where there is none."""
        found = {
            column: time
            for column, time in self.medians(case).items()
            if (column in self.ours) == ours and column in self.order
        }
        return min(found, key=found.__getitem__, default=None)

    def ratio(self, case: str) -> float | None:
        """The time of the fastest of ours, of that of the fastest of all others."""
        ours, other = self.best(case, ours=True), self.best(case, ours=False)
        medians = self.medians(case)
        return None if ours is None or other is None else medians[ours] / medians[other]

    def markdown(self) -> str:
        """Times, what else a step takes, how far outputs are apart, and what is missing."""
        rows: dict[str, dict[str, str]] = {}
        for case in self.times:
            medians = self.medians(case)
            rows[case] = {column: f"{time:.3g}" for column, time in medians.items()}
            ratio, other = self.ratio(case), self.best(case, ours=False)
            if ratio is not None and other is not None:
                rows[case][other] = f"*{rows[case][other]}*"
                rows[case][RATIO] = f"**{ratio:.2f}**"
        others = [column for row in rows.values() for column in row]
        columns = list(dict.fromkeys([*self.order, *others]))
        columns = [*(each for each in columns if each != RATIO), RATIO]
        parts = [
            _markdown("median milliseconds of a step", columns, rows),
            _markdown("of a step", None, _shown(self.figures, "{:.4g}")),
            _markdown(
                "difference of outputs or losses", columns, _shown(self.differences, "{:.1e}")
            ),
            *(self._profile(case) for case in self.profiles),
            self._notes(),
        ]
        return "\n\n".join(filter(None, parts))

    def _profile(self, case: str) -> str | None:
        """Returns the times of each profiled contender by kind of kernel."""
        found = self.profiles[case]
        rows: dict[str, dict[str, str]] = {
            kind: {
                column: f"{kinds[kind]:.3f}"
                for column, each in found.items()
                if kind in (kinds := _kinds(each))
            }
            for kind in ALL_KINDS
        }
        rows["kernels of a step"] = {
            column: f"{each['launches']:.0f}" for column, each in found.items()
        }
        table = _markdown(f"{case}: milliseconds by kind", list(found), rows)
        lists = [
            f"{case}, {column}, its longest kernels (of a step: how many, milliseconds):\n\n{lines}"
            for column, each in found.items()
            if (lines := "\n".join(_longest(each)))
        ]
        return "\n\n".join(filter(None, [table, *lists]))

    def _notes(self) -> str:
        return "\n".join(
            f"- {column} has no number for {_cases(missing, self.times)}: {reason}"
            for column, reasons in self.reasons.items()
            for reason, missing in reasons.items()
        )

    def document(self) -> Mapping[str, object]:
        """All of it, for programs."""
        cases = {
            case: {"milliseconds": self.medians(case), "ratio": self.ratio(case)}
            for case in self.times
        }
        return {
            "cases": cases,
            "differences": self.differences,
            "figures": self.figures,
            "profiles": self.profiles,
            "missing": self.reasons,
        }


def _shown(cells: Mapping[str, Mapping[str, float]], form: str) -> dict[str, dict[str, str]]:
    return {
        case: {column: form.format(value) for column, value in row.items()}
        for case, row in cells.items()
    }


def _kinds(profile: Mapping[str, object]) -> Mapping[str, float]:
    kinds = profile["kinds"]
    assert isinstance(kinds, dict)
    return kinds


def _longest(profile: Mapping[str, object]) -> Iterable[str]:
    longest = profile["longest"]
    assert isinstance(longest, list | tuple)
    for name, count, milliseconds in longest:
        yield f"- {milliseconds:.3f} in {count:g} of `{name}`"


def _cases(some: Sequence[str], everything: Mapping[str, object]) -> str:
    return "any case" if len(some) == len(everything) else ", ".join(some)


def _markdown(
    title: str, columns: Sequence[str] | None, rows: Mapping[str, Mapping[str, str]]
) -> str | None:
    """A table of the columns and rows that have something in them."""
    wanted = columns or list(dict.fromkeys(name for row in rows.values() for name in row))
    filled = [name for name in wanted if any(name in row for row in rows.values())]
    if not filled:
        return None
    lines = [f"| {title} | {' | '.join(filled)} |", f"|{'---|' * (1 + len(filled))}"]
    for case, row in rows.items():
        if any(name in row for name in filled):
            cells = [row.get(name, "-") for name in filled]
            lines.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(lines)
