"""The shape bugs of public collections: what is said of each, and the figures of the page.

    python -m tests.shape_bugs [PART_OF_A_NAME]

Without a name it writes `outcomes.txt` anew, and prints the tables of docs/yardsticks.md; with one
it prints the messages about those cases. The exit code says whether a mistake is silent.
"""

import sys
from collections.abc import Sequence

from meganeura_dsl.diagnostics.terminal import render
from tests.shape_bugs.cases import Case, Outcome, cases, outcome, said
from tests.shape_bugs.figures import record, tables


def main() -> int:
    """Judges all cases, or those of a name."""
    part = " ".join(sys.argv[1:])
    chosen = [each for each in cases() if part in str(each)]
    if not chosen:
        sys.exit(f"no case has `{part}` in its name")
    outcomes = [outcome(each) for each in chosen]
    if part:
        _show(chosen, outcomes)
    else:
        record(outcomes)
        sys.stdout.write("\n".join(tables(outcomes)) + "\n")
    return int(any(each.code == "silent" for each in outcomes))


def _show(chosen: Sequence[Case], outcomes: Sequence[Outcome]) -> None:
    for case, found in zip(chosen, outcomes, strict=True):
        sys.stdout.write(f"{found}\n")
        report = None if case.is_right_alone else said(case)
        if report is not None:
            sys.stdout.write(f"{render(report)}\n\n")


if __name__ == "__main__":
    sys.exit(main())
