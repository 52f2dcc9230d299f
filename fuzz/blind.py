"""Random mutants of one reader's inputs, spread over worker processes that are watched.

Worker `w` of `n` takes the seeds `first + w`, `first + w + n` and so on, and reports each. One that
dies, or that is silent for `LIMIT` seconds, is a failure of the seed after its last; a new worker
goes on behind it. So every seed is counted once, whatever it does.
"""

import argparse
import faulthandler
import gc
import multiprocessing
import resource
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from fuzz.corpus import fuzzing_corpus
from fuzz.mutants import mutant
from fuzz.readers import READERS

LIMIT = 30.0
"""Seconds that one input may take."""
EVERY = 20.0
"""Seconds between two lines that say how far it is."""
SHOWN = 400
"""Bytes of an input that failed."""
MEMORY = 1 << 12
"""MiB that one input may take beyond what its worker ever had."""
BOUND = 12 << 30
"""Bytes that a worker may have: one that asks for more gets none, and the machine lives on."""

Found = tuple[int, float, float, str, str]
"""A seed, the seconds and the MiB it took, what became of it, and what was wrong with that."""


@dataclass
class Worker:
    """A process that tries its share of the seeds."""

    process: BaseProcess
    reports: "Connection"
    seed: int
    """The one that it is at."""
    since: float = field(default_factory=time.monotonic)
    """The time of its last message."""


@dataclass
class Tally:
    """The outcomes of the inputs so far."""

    outcomes: Counter[str] = field(default_factory=Counter[str])
    failures: int = 0
    slowest: tuple[float, int] = (0.0, -1)
    """Seconds, and the seed."""
    largest: tuple[float, int] = (0.0, -1)
    """MiB by which a worker grew, and the seed."""

    def add(self, seed: int, seconds: float, outcome: str, memory: float = 0.0) -> None:
        """One more input."""
        self.outcomes[outcome] += 1
        self.slowest = max(self.slowest, (seconds, seed))
        self.largest = max(self.largest, (memory, seed))


def fuzz_blindly(reader: str, options: Sequence[str]) -> int:
    """Try the mutants of some seeds; the exit code says whether one ended otherwise than it may."""
    parser = argparse.ArgumentParser(prog=f"python -m fuzz.fuzz {reader}")
    parser.add_argument("--blind", type=int, required=True, metavar="COUNT")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="for inputs that fail")
    given = parser.parse_args(options)
    inputs = fuzzing_corpus(reader)
    print(f"{reader}: {len(inputs):,} inputs to start from", flush=True)
    started = time.monotonic()
    end = given.first + given.blind
    run = Run(reader, inputs, end, given.workers, started + given.seconds, given.keep)
    tally = run.all_from(given.first)
    seconds = time.monotonic() - started
    count = tally.outcomes.total()
    print(f"{reader}: {count:,} mutants in {seconds:.0f} s, {count / seconds:.0f} a second")
    for outcome, number in tally.outcomes.most_common():
        print(f"  {outcome}: {number:,} ({number / count:.2%})")
    print(f"  the largest process had {_peak(resource.RUSAGE_CHILDREN):.0f} MiB")
    print(f"  the largest took {tally.largest[0]:.0f} MiB: seed {tally.largest[1]}")
    print(f"  the slowest took {tally.slowest[0]:.2f} s: seed {tally.slowest[1]}")
    print(f"{tally.failures} ended otherwise than they may")
    return 1 if tally.failures else 0


def _peak(who: int) -> float:
    """MiB that a process, or the largest of the children, had at most."""
    return resource.getrusage(who).ru_maxrss / 1024


@dataclass(frozen=True)
class Run:
    """Workers over the seeds up to an end."""

    reader: str
    inputs: list[bytes]
    end: int
    workers: int
    deadline: float
    kept: Path | None = None
    """The folder for inputs that fail."""

    def all_from(self, first: int) -> Tally:
        """Try all seeds from one on, or as many as there is time for."""
        tally = Tally()
        running = [self._started(first + index) for index in range(self.workers)]
        said = time.monotonic()
        while running:
            ready = wait([each.reports for each in running], timeout=1.0)
            for worker in list(running):
                is_over = worker.reports in ready and self._heard(worker, tally)
                if not is_over and time.monotonic() - worker.since > LIMIT + 5:
                    worker.process.kill()  # what hangs outside of Python hears nothing else
                if is_over:
                    running.remove(worker)
                    running += self._ended(worker, tally)
            if time.monotonic() - said > EVERY:
                said = time.monotonic()
                print(f"  {tally.outcomes.total():,}, {tally.failures} failures", flush=True)
        return tally

    def _started(self, seed: int) -> Worker:
        here, there = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(target=self._work, args=(seed, there))
        process.start()
        there.close()
        return Worker(process, here, seed)

    def _work(self, seed: int, reports: "Connection") -> None:
        """Runs a worker, which sends one report for each seed."""
        faulthandler.enable()
        gc.freeze()  # what is there lives on
        warnings.simplefilter("error", RuntimeWarning)  # it would reach the user too
        resource.setrlimit(resource.RLIMIT_DATA, (BOUND, resource.RLIM_INFINITY))
        read = READERS[self.reader]
        for each in range(seed, self.end, self.workers):
            if time.monotonic() > self.deadline:
                break
            faulthandler.dump_traceback_later(LIMIT, exit=True)
            started, before = time.perf_counter(), _peak(resource.RUSAGE_SELF)
            escaped = ""
            try:
                data = mutant(self.reader, each, self.inputs)
                outcome = read(data)
            except Exception as error:  # noqa: BLE001 - whatever escapes is what is looked for
                outcome, escaped = type(error).__name__, traceback.format_exc(limit=-6)
            seconds = time.perf_counter() - started
            faulthandler.cancel_dump_traceback_later()
            memory = _peak(resource.RUSAGE_SELF) - before
            if memory > MEMORY and not escaped:
                escaped = f"it took {memory:.0f} MiB"
            reports.send((each, seconds, memory, outcome, escaped))
        reports.send(None)

    def _heard(self, worker: Worker, tally: Tally) -> bool:
        """Take what a worker says; whether it is over, done or dead."""
        while worker.reports.poll():
            try:
                found: Found | None = worker.reports.recv()
            except EOFError:
                return True
            if found is None:
                worker.seed = self.end
                return True
            seed, seconds, memory, outcome, escaped = found
            worker.seed, worker.since = seed + self.workers, time.monotonic()
            tally.add(seed, seconds, outcome, memory)
            if escaped:
                self._failed(seed, escaped, tally)
        return False

    def _ended(self, worker: Worker, tally: Tally) -> list[Worker]:
        """The worker that goes on behind one that died, if one did."""
        worker.process.join()
        if worker.seed >= self.end:
            return []
        seconds = time.monotonic() - worker.since
        tally.add(worker.seed, seconds, "died")
        self._failed(worker.seed, f"its worker ended with {worker.process.exitcode}", tally)
        return [self._started(worker.seed + self.workers)]

    def _failed(self, seed: int, what: str, tally: Tally) -> None:
        tally.failures += 1
        data = mutant(self.reader, seed, self.inputs)
        print(f"seed {seed}: {data[:SHOWN]!r}\n{what}", file=sys.stderr, flush=True)
        if self.kept:
            self.kept.mkdir(parents=True, exist_ok=True)
            (self.kept / f"{self.reader}-{seed}").write_bytes(data)
