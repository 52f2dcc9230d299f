"""The table of proved pullbacks in the documents."""

from collections.abc import Iterable
from pathlib import Path

from tests.proofs.pullback_cases import Case

FILE = Path(__file__).resolve().parents[2] / "docs/proved_gradients.md"
HEAD = "| op | for all sizes | at sizes, for all values | at sizes, in every order |"
RULE = "|---|---|---|---|"
NOTHING_FLOWS = {
    "StopGradient": "nothing flows back through it, by its definition",
    "RandomBits": "its operand is no float",
}
"""Ops whose pullback gives nothing, and why."""


def rows(cases: Iterable[Case]) -> list[str]:
    """The rows of the table, an op each: its forms, and the shapes of operands at sizes."""
    found: dict[str, tuple[list[str], list[str], list[str]]] = {}
    for case in cases:
        op = type(case.op).__name__
        columns = found.setdefault(op, ([], [], []))
        form = case.name.removeprefix(op).strip()
        if case.is_general:
            columns[0].append(form or "yes")
        else:
            shapes = ", ".join(str(each).removeprefix("f32") for each in case.types)
            columns[2 if case.orders else 1].append(f"{form}: {shapes}" if form else shapes)
    lines = [
        f"| `{op}` | {' | '.join('; '.join(column) for column in columns)} |"
        for op, columns in sorted(found.items())
    ]
    return [*lines, *(f"| `{op}` | {why} | | |" for op, why in sorted(NOTHING_FLOWS.items()))]


def table_of(text: str) -> list[str]:
    """The rows of the table in a text."""
    return text.partition(f"{HEAD}\n{RULE}\n")[2].partition("\n\n")[0].splitlines()


def with_rows(text: str, lines: Iterable[str]) -> str:
    """The text with other rows in its table."""
    before, _, rest = text.partition(f"{HEAD}\n{RULE}\n")
    after = rest.partition("\n\n")[2]
    return "\n".join([f"{before}{HEAD}", RULE, *lines, "", after])
