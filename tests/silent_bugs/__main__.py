"""Silent bugs of compilers as programs of the language, on backends, against double precision.

    python -m tests.silent_bugs [PART_OF_A_NAME] [--device wgpu]

Prints what is wrong and the tables of docs/yardsticks.md; the exit code says whether something is
wrong. Without --device the devices are `cpu`, `xla` and `wgpu`.
"""

import argparse
import sys

from tests.silent_bugs.run import faults, opened_on
from tests.silent_bugs.table import COMPILERS, ZOO, tables


def main() -> int:
    """Runs all cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("--device", action="append", default=[])
    asked = parser.parse_args()
    cases = [each for each in (*COMPILERS, *ZOO) if asked.part in each.name]
    if not cases:
        parser.error(f"no case has `{asked.part}` in its name")
    devices = {name: opened_on(name) for name in asked.device or ("cpu", "xla", "wgpu")}
    wrong = [fault for case in cases for fault in faults(case, devices)]
    lines = [*(f"WRONG {each}" for each in wrong), *tables(), f"{len(cases)} cases"]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
