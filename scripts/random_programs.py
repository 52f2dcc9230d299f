"""Hold many random programs, and mutants of them and of the standard ones, to what is promised.

    python scripts/random_programs.py COUNT [FIRST_SEED]

Each program is determined by its seed. A failure prints the seed and the program and is counted;
the exit code says whether there was any. `tests/properties/test_programs.py` runs a few hundred.
"""

import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.properties.candidates import candidate
from tests.properties.soundness import examine

EVERY = 1000
"""Programs between two lines of progress."""
SHOWN = 20
"""Failures that are printed whole."""


def main() -> int:
    """Run the programs of COUNT seeds."""
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    seen: Counter[str] = Counter()
    started = time.perf_counter()
    slowest = (0.0, 0)
    for seed in range(first, first + count):
        before = time.perf_counter()
        text = candidate(seed)
        try:
            tally = examine(text, Random(seed))
            seen[tally.outcome.value] += 1
            seen["runs"] += tally.runs
            seen["slopes"] += tally.slopes
        except Exception:  # noqa: BLE001 - whatever escapes is what is looked for
            seen["WRONG"] += 1
            if seen["WRONG"] <= SHOWN:
                print(f"seed {seed}\n{text}\n{traceback.format_exc(limit=-4)}", flush=True)
        slowest = max(slowest, (time.perf_counter() - before, seed))
        if (seed + 1 - first) % EVERY == 0:
            print(f"{seed + 1 - first:,}: {dict(seen)}, slowest {slowest}", flush=True)
    seconds = time.perf_counter() - started
    print(f"{count:,} programs in {seconds:,.0f} s: {dict(seen)}, slowest {slowest}")
    return 1 if seen["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
