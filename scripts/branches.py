"""Demands that a share of the branches was taken, in percent; lines do not count.

coverage json -o - | python scripts/branches.py 95
"""

import json
import sys
from typing import TypedDict, cast


class Totals(TypedDict):
    """The part that is read of `coverage json`'s totals of all files together."""

    num_branches: int
    covered_branches: int


def main() -> None:
    """Print the share; fail where it is too low."""
    least = float(sys.argv[1])
    report = cast("dict[str, Totals]", json.load(sys.stdin))
    every, taken = report["totals"]["num_branches"], report["totals"]["covered_branches"]
    percent = 100 * taken / every
    print(f"of the branches alone: {taken:,} of {every:,}, which is {percent:.1f} %")
    if percent < least:
        sys.exit(f"at least {least:g} % are demanded")


if __name__ == "__main__":
    main()
