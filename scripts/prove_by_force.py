"""Ask the prover many random questions, and hold its answers against all small sizes.

    python scripts/prove_by_force.py COUNT [FIRST_SEED] [numbers|headers]

With `numbers` they are blocks that read entries at computed places; what is proved has to be there
for small sizes. With `headers` they are signatures with choices. Otherwise they are facts and
claims about sizes.

What is proved has to hold at every
place of the grid that satisfies the facts; what is refuted has to be false at its example, which
has to satisfy the facts. A failure prints its question and is counted; the exit code says whether
there was any. `test_by_force.py` in `tests/dsl/symbolic`, `test_number_questions.py` and
`test_header_questions.py` in `tests/dsl/elaborate` ask a few hundred.
"""

import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from tests.dsl.elaborate.body.expressions import number_questions
from tests.dsl.elaborate.typecheck import header_questions
from tests.dsl.symbolic.questions import fault, question

EVERY = 1000
"""Questions between two lines of progress."""
PLACES = 2000
"""Places of the grid at which what a signature says is computed."""


def main() -> int:
    """Ask the questions of COUNT seeds."""
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if "numbers" in sys.argv[3:]:
        return _numbers(count, first)
    if "headers" in sys.argv[3:]:
        return _headers(count, first)
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


def _numbers(count: int, first: int) -> int:
    seen: Counter[str] = Counter()
    for seed in range(first, first + count):
        asked = number_questions.question(seed)
        result = pipeline.check(Source("asked.mgn", asked.text), lambda _: None)
        is_proved = "Use" in result.proved
        seen["proved" if is_proved else "not"] += 1
        wrong = number_questions.fault(asked, seed) if is_proved else None
        if wrong is not None:
            seen["WRONG"] += 1
            print(f"seed {seed}: {wrong}\n{asked.text}", flush=True)
    print(f"{count:,} blocks: {dict(seen)}")
    return 1 if seen["WRONG"] else 0


def _headers(count: int, first: int) -> int:
    seen: Counter[str] = Counter()
    for seed in range(first, first + count):
        asked = header_questions.question(seed)
        result = pipeline.check(Source("asked.mgn", asked.text), lambda _: None)
        seen.update(result.proved)
        wrong = header_questions.fault(asked, frozenset(result.proved), places=PLACES)
        if wrong is not None:
            seen["WRONG"] += 1
            print(f"seed {seed}: {wrong}\n{asked.text}", flush=True)
        if (seed + 1 - first) % EVERY == 0:
            print(f"{seed + 1 - first:,}: {dict(seen)}", flush=True)
    print(f"{count:,} files: {dict(seen)}")
    return 1 if seen["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
