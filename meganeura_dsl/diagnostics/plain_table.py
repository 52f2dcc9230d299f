"""Numbers and rows as plain text: columns for a terminal, and counts with their nouns."""

from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Rows in columns as wide as their widest entry; the columns in `right` end together."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            entry.rjust(width) if column in right else entry.ljust(width)
            for column, (entry, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
    return "\n".join(lines)


def count(number: int, what: str) -> str:
    """`1 error`, `2 errors`, `11,689,512 weights`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
