"""Hold many random programs, and mutants of them and of the standard ones, to what is promised.

    python scripts/random_programs.py COUNT [FIRST_SEED] [--processes N] [--seconds S]

Each program is determined by its seed. A failure prints the seed and the program and is counted;
the exit code says whether there was any. With `--seconds` no more are begun after that time.
`tests/properties/test_programs.py` runs a hundred.
"""

import sys
import time
import traceback
from argparse import ArgumentParser
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.properties.candidates import candidate, is_mutant
from tests.properties.soundness import examine

EVERY = 1000
"""Programs between two lines of progress."""
SHOWN = 20
"""Failures that are printed whole."""
SHARE = 10
"""Programs that a process takes at a time."""


@dataclass(frozen=True)
class Seen:
    """The outcome of one program."""

    seed: int
    counts: Counter[str]
    seconds: float
    failure: str = ""


def main() -> int:
    """Run the programs of COUNT seeds."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    given = parser.parse_args()
    seen: Counter[str] = Counter()
    started = time.perf_counter()
    slowest = (0.0, 0)
    done = 0
    seeds = _until(started + given.seconds, given.first, given.first + given.count)
    for each in _results(seeds, given.processes):
        done += 1
        seen.update(each.counts)
        slowest = max(slowest, (each.seconds, each.seed))
        if each.failure and seen["WRONG"] <= SHOWN:
            print(f"seed {each.seed}\n{candidate(each.seed)}\n{each.failure}", flush=True)
        if done % EVERY == 0:
            print(f"{done:,}: {dict(seen)}, slowest {slowest}", flush=True)
    seconds = time.perf_counter() - started
    print(f"{done:,} programs in {seconds:,.0f} s: {dict(seen)}, slowest {slowest}")
    return 1 if seen["WRONG"] else 0


def _until(end: float, first: int, stop: int) -> Iterator[range]:
    """The seeds, some at a time, as long as there is time."""
    for start in range(first, stop, SHARE):
        if time.perf_counter() > end:
            return
        yield range(start, min(start + SHARE, stop))


def _results(shares: Iterator[range], processes: int) -> Iterator[Seen]:
    """Yields the outcomes of the programs of all seeds, those of a share together."""
    if processes == 1:
        for share in shares:
            yield from run(share)
        return
    with get_context("spawn").Pool(processes) as pool:
        # Shares are drawn when they are begun: the time is looked at for each.
        waiting = deque(pool.apply_async(run, (share,)) for share in islice(shares, 2 * processes))
        while waiting:
            yield from waiting.popleft().get()
            waiting.extend(pool.apply_async(run, (share,)) for share in islice(shares, 1))


def run(seeds: range) -> list[Seen]:
    """Run the programs of some seeds."""
    return [_run(seed) for seed in seeds]


def _run(seed: int) -> Seen:
    before = time.perf_counter()
    failure, counts = "", Counter[str]()
    try:
        tally = examine(candidate(seed), Random(seed), is_mutant=is_mutant(seed))
        counts[tally.outcome.value] += 1
        counts["runs"] += tally.runs
        counts["slopes"] += tally.slopes
        counts["repeats"] += tally.repeats
        counts["readings"] += tally.readings
    except Exception:  # noqa: BLE001 - whatever escapes is what is looked for
        counts["WRONG"] += 1
        failure = traceback.format_exc(limit=-4)
    return Seen(seed, counts, time.perf_counter() - before, failure)


if __name__ == "__main__":
    sys.exit(main())
