"""Ask the prover many random questions, and hold its answers against all small sizes.

    python scripts/prove_by_force.py COUNT [FIRST_SEED]

What is proved has to hold at every place of the grid that satisfies the facts; what is refuted has
to be false at its example, which has to satisfy the facts. A failure prints its question and is
counted; the exit code says whether there was any. `tests/dsl/symbolic/test_by_force.py` asks a few
hundred.
"""

import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.dsl.symbolic.questions import fault, question

EVERY = 1000
"""Questions between two lines of progress."""


def main() -> int:
    """Ask the questions of COUNT seeds."""
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    seen: Counter[str] = Counter()
    slowest = (0.0, 0)
    started = time.perf_counter()
    for seed in range(first, first + count):
        asked = question(seed)
        before = time.process_time()
        verdict = asked.ask()
        slowest = max(slowest, (time.process_time() - before, seed))
        seen[type(verdict).__name__.lower()] += 1
        wrong = fault(asked, verdict)
        if wrong is not None:
            seen["WRONG"] += 1
            print(f"seed {seed}: {wrong}\n  {asked}", flush=True)
        if (seed + 1 - first) % EVERY == 0:
            print(f"{seed + 1 - first:,}: {dict(seen)}, slowest {slowest}", flush=True)
    seconds = time.perf_counter() - started
    print(f"{count:,} questions in {seconds:,.0f} s: {dict(seen)}, slowest {slowest}")
    return 1 if seen["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
