"""The numbers of a comparison as tables for people, and as JSON."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.peers.ours import FED, RESIDENT, ROUND_TRIP

STRICT = ("eager", "compiled")
TOLERANCE = 5e-3
"""A framework further from ours computes something else, or in another arithmetic."""
COLUMNS: Mapping[str, Sequence[str]] = {
    "milliseconds": (
        RESIDENT,
        FED,
        *STRICT,
        "JAX",
        "TF32 compiled",
        "bf16 compiled",
        "ours / best strict",
        "ours / compiled",
        "ours / JAX",
    ),
    "inference there and back, milliseconds": (
        ROUND_TRIP,
        "ORT WebGPU, there and back",
        "ORT WebGPU",
        "ORT / ours, there and back",
        "ORT / ours",
    ),
    "of a step": (
        "ours: dispatches",
        "ours: kernels",
        "ours: host",
        "compiled: host",
        "ours: MiB",
        "eager: MiB",
        "compiled: MiB",
        "JAX: MiB",
        "MiB, ours / compiled",
    ),
    "largest difference from ours": tuple(
        f"{name}: difference"
        for name in (*STRICT, "JAX", "ORT WebGPU", "TF32 compiled", "bf16 compiled")
    ),
}


@dataclass
class Table:
    """Numbers by case and column, and why some are missing."""

    cells: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    reasons: dict[str, dict[str, list[str]]] = field(
        default_factory=dict[str, dict[str, list[str]]]
    )
    """The cases without a number, by contender and reason."""

    def expect(self, cases: Iterable[str]) -> None:
        """The order of the rows."""
        for case in cases:
            self.cells.setdefault(case, {})

    def put(self, case: str, column: str, value: float) -> None:
        """A number."""
        self.cells.setdefault(case, {})[column] = value

    def miss(self, case: str, contender: str, reason: str) -> None:
        """Why a contender has none."""
        self.cells.setdefault(case, {})
        self.reasons.setdefault(contender, {}).setdefault(reason, []).append(case)

    def row(self, case: str) -> Mapping[str, float]:
        """The numbers of a case, and their ratios."""
        cells = self.cells[case]
        ratios = {name: ratio(cells) for name, ratio in RATIOS.items()}
        return {**cells, **{name: value for name, value in ratios.items() if value is not None}}

    def markdown(self) -> str:
        """Tables without empty columns, then the reasons for missing numbers."""
        rows = {case: self.row(case) for case in self.cells}
        parts = [_markdown(title, columns, rows) for title, columns in COLUMNS.items()]
        return "\n\n".join([*filter(None, parts), *self._notes()])

    def _notes(self) -> list[str]:
        notes = [
            f"- {contender} has no number for {_cases(missing, self.cells)}: {reason}"
            for contender, reasons in self.reasons.items()
            for reason, missing in reasons.items()
        ]
        notes += [
            f"- {case}: {column.removesuffix(': difference')} is {value:.1e} away from ours"
            for case, cells in self.cells.items()
            for column, value in cells.items()
            if column.endswith(": difference")
            and not column.startswith(("TF32", "bf16"))
            and not value <= TOLERANCE
        ]
        return ["\n".join(notes)] if notes else []

    def document(self) -> Mapping[str, object]:
        """All of it, for programs."""
        return {"cells": {case: self.row(case) for case in self.cells}, "missing": self.reasons}


def _cases(some: Sequence[str], everything: Mapping[str, object]) -> str:
    return "any case" if len(some) == len(everything) else "; ".join(some)


def _markdown(
    title: str, columns: Sequence[str], rows: Mapping[str, Mapping[str, float]]
) -> str | None:
    filled = [name for name in columns if any(name in row for row in rows.values())]
    if not filled:
        return None
    lines = [f"| {title} | {' | '.join(filled)} |", f"|{'---|' * (1 + len(filled))}"]
    for case, row in rows.items():
        if any(name in row for name in filled):
            cells = [f"{row[name]:.3g}" if name in row else "-" for name in filled]
            lines.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(lines)


Ratio = Callable[[Mapping[str, float]], float | None]


def _ratio(above: str, *below: str) -> Ratio:
    """One column in units of the least of others; nothing where one is missing."""

    def compute(cells: Mapping[str, float]) -> float | None:
        if any(name not in cells for name in (above, *below)):
            return None
        return cells[above] / min(cells[name] for name in below)

    return compute


RATIOS: Mapping[str, Ratio] = {
    "ours / best strict": _ratio(RESIDENT, *STRICT),
    "ours / compiled": _ratio(RESIDENT, "compiled"),
    "ours / JAX": _ratio(RESIDENT, "JAX"),
    "ORT / ours": _ratio("ORT WebGPU", RESIDENT),
    "ORT / ours, there and back": _ratio("ORT WebGPU, there and back", ROUND_TRIP),
    "MiB, ours / compiled": _ratio("ours: MiB", "compiled: MiB"),
}
