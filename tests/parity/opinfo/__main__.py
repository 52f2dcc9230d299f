"""The samples of PyTorch's OpInfo, in the language.

    python -m tests.parity.opinfo [PART_OF_A_NAME] [--device wgpu] [--every N]

Prints what is wrong and the tables of docs/yardsticks.md; the exit code says whether something is
wrong.
"""

import argparse
import sys

from tests.parity.opinfo.counts import by_function, counted, tables
from tests.parity.opinfo.devices import opened
from tests.parity.opinfo.table import ROWS


def main() -> int:
    """Compares all samples."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("--device", action="append", default=[])
    parser.add_argument("--every", type=int, default=12, help="of so many one runs on the devices")
    asked = parser.parse_args()
    rows = tuple(each for each in ROWS if asked.part in str(each))
    if not rows:
        parser.error(f"no row has `{asked.part}` in its name")
    with opened(asked.device) as devices:
        counts = counted(rows, devices, asked.every, _say)
    for line in (*tables(counts), "", *by_function(counts)):
        _say(line)
    return int(bool(counts.wrong))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
