"""Steps of whole models beside other frameworks, on the same machine in one run.

    python -m benchmarks.peers [--device cuda|cpu] [--precision f32 tf32 bf16]
        [--cells PATTERN ...] [--contenders NAME ...] [--profile] [-o FILE] [--json FILE]

A cell is MODEL-bBATCH-train or MODEL-bBATCH-infer, such as gpt2-b4-train; patterns are those of a
shell. Every contender gets the same weights and inputs and has its own process. Its outputs,
of a training the first losses, are compared with those of the first of ours before it is timed; one
that is too far away is not timed. All contenders of a cell are timed in turn, five times around, in
rounds of a quarter of a second after 50 ms of warming up; a time is the median of the rounds.
Meanwhile the processes that still compile other cells stand still.

A contender that is missing, or fails, is a dash in the table, with its reason below. The tables are
written to `-o` after each cell, so that a run that is stopped leaves what it has.

`--profile` adds where the time goes, by kind of kernel, of the fastest of ours and of the others.
"""

import argparse
import json
import platform
import shlex
import signal
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import cast

import numpy as np

from benchmarks.peers.case import Case, cases
from benchmarks.peers.contender import PRECISIONS, TOLERANCE, difference
from benchmarks.peers.processes import Job, Message, Worker
from benchmarks.peers.roster import MODES
from benchmarks.peers.table import Table, column_of
from benchmarks.peers.worker import arguments

WINDOW = 4
"""Cells that are prepared at a time: processes that wait hold memory of the device."""
VISITS = 5
"""So often each contender of a case is timed, in turn."""
POLL_SECONDS = 0.1
LEAST_SECONDS = 20.0
"""Seconds before the end that are left for cells with contenders that are not ready yet."""


def jobs(chosen: Sequence[Case], options: argparse.Namespace) -> Iterator[Job]:
    """Yields the contenders of each case."""
    for case in chosen:
        for name in options.contenders:
            for precision in options.precision:
                if MODES[name].takes(case, precision):
                    yield Job(MODES[name], precision, case)


class Comparison:
    """A run: who still has to prepare, who is ready, and what came of it."""

    def __init__(self, options: argparse.Namespace, chosen: Sequence[Case], folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._words = ["--device", options.device, "--ways", *options.ways]
        self._words += ["--small"] if options.small else []
        self._begin = monotonic()
        self._cases = deque(chosen)
        self._waiting = deque(jobs(chosen, options))
        self._preparing: list[Worker] = []
        self._ready: list[Worker] = []
        self._machines: dict[str, str] = {}
        columns = {self._column(job): job for job in self._waiting}
        ours = frozenset(name for name, job in columns.items() if job.mode.is_ours)
        self.table = Table(ours, list(columns))
        self.table.expect(case.name for case in chosen)
        self.written = self.text()

    def _column(self, job: Job, way: str = "") -> str:
        return column_of(job, way, precisions=len(self._options.precision))

    def run(self) -> None:
        """Start processes as others become ready, and time each case once all of its are."""
        try:
            while self._cases:
                self._start()
                self._listen()
                is_over = self._left() < LEAST_SECONDS
                for case in [*self._cases]:
                    if is_over or not self._is_awaited(case):
                        self._cases.remove(case)
                        self._close(case)
                sleep(POLL_SECONDS)
        finally:
            for worker in (*self._preparing, *self._ready):
                worker.end()

    def _left(self) -> float:
        return self._begin + self._options.seconds - monotonic()

    def _is_awaited(self, case: Case) -> bool:
        """True if a contender of a case is not ready yet."""
        workers = [worker.job for worker in self._preparing]
        return any(job.case == case for job in (*self._waiting, *workers))

    def _has_room(self) -> bool:
        return len(self._preparing) < self._options.jobs

    def _start(self) -> None:
        """Begin what comes next; not too many that time kernels while they compile."""
        window = [*self._cases][:WINDOW]
        for job in [each for each in self._waiting if each.case in window]:
            if not self._has_room():
                return
            timing = sum(worker.job.mode.by_xla for worker in self._preparing)
            if job.mode.by_xla and timing >= self._options.xla_jobs:
                continue
            self._waiting.remove(job)
            outputs = self._folder / f"{job.case.name} {self._column(job)}.npy"
            self._preparing.append(Worker(job, outputs, self._words))

    def _listen(self) -> None:
        for worker in [*self._preparing]:
            message = worker.answer(0)
            if message is None and monotonic() - worker.began > self._options.setup_seconds:
                message = {"failed": f"not ready in {self._options.setup_seconds:.0f} s"}
            if message is None:
                continue
            self._preparing.remove(worker)
            if "ready" in message:
                self._say(f"{worker.job.case.name}: {self._column(worker.job)} is ready")
                self._machines.setdefault(str(message["ready"]), worker.job.mode.name)
                self._ready.append(worker)
            else:
                self._fail(worker, message)

    def _fail(self, worker: Worker, message: Message) -> None:
        worker.end()
        self._miss(worker.job, str(message.get("failed")))

    def _miss(self, job: Job, reason: str) -> None:
        self._say(f"{job.case.name}: {self._column(job)}: {reason}")
        self.table.miss(job.case.name, self._column(job), reason)

    def _say(self, text: str) -> None:
        print(f"{monotonic() - self._begin:6.1f} s  {text}", flush=True)

    def _close(self, case: Case) -> None:
        """Give up who is not ready, time the others, and let go of them."""
        for worker in [each for each in self._preparing if each.job.case == case]:
            self._preparing.remove(worker)
            self._fail(worker, {"failed": "no time was left"})
        for job in [each for each in self._waiting if each.case == case]:
            self._waiting.remove(job)
            self._miss(job, "no time was left")
        there = [worker for worker in self._ready if worker.job.case == case]
        there.sort(key=lambda worker: self.table.order.index(self._column(worker.job)))
        if there and self._left() > 0:
            for worker in self._preparing:
                worker.pause()
            try:
                self._measure(case, self._alike(case, there))
            finally:
                for worker in self._preparing:
                    worker.go_on()
        for worker in there:
            self._ready.remove(worker)
            worker.end()
        self.write()

    def _alike(self, case: Case, there: Sequence[Worker]) -> list[Worker]:
        """Those whose outputs are those of the first."""
        first = np.load(there[0].outputs)
        found = [there[0]]
        for worker in there[1:]:
            apart = difference(np.load(worker.outputs), first)
            self.table.differences.setdefault(case.name, {})[self._column(worker.job)] = apart
            pair = (worker.job.precision, there[0].job.precision)
            if apart <= max(TOLERANCE[each] for each in pair):
                found.append(worker)
            else:
                self._miss(worker.job, f"{apart:.1e} away from {self._column(there[0].job)}")
        return found

    def _measure(self, case: Case, there: Sequence[Worker]) -> None:
        """Visit each in turn."""
        left = [*there]
        for _ in range(1 if self._options.small else VISITS):
            for worker in [*left]:
                answer = worker.ask("measure")
                if "times" not in answer:
                    left.remove(worker)
                    self._miss(worker.job, str(answer.get("failed")))
                    continue
                times = cast("dict[str, list[float]]", answer["times"])
                for way, some in times.items():
                    self.table.add(case.name, self._column(worker.job, way), some)
        for column, median in self.table.medians(case.name).items():
            self._say(f"{case.name}: {column} {median:.4g} ms")
        for worker in left:
            self._note_figures(case, worker)
        if self._options.profile:
            best = {self.table.best(case.name, ours=ours) for ours in (True, False)}
            for worker in left:
                if self._column(worker.job) in best:
                    self._note_profile(case, worker)

    def _note_figures(self, case: Case, worker: Worker) -> None:
        figures = worker.ask("figures").get("figures")
        if isinstance(figures, dict):
            row = self.table.figures.setdefault(case.name, {})
            for name, value in cast("dict[str, float]", figures).items():
                row[f"{self._column(worker.job)}: {name}"] = value

    def _note_profile(self, case: Case, worker: Worker) -> None:
        profile = worker.ask("profile").get("profile")
        if isinstance(profile, dict):
            row = self.table.profiles.setdefault(case.name, {})
            row[self._column(worker.job)] = cast("dict[str, object]", profile)

    def write(self) -> None:
        """The tables so far, to where they were asked for."""
        self.written = self.text()
        if self._options.output:
            self._options.output.write_text(self.written)
        if self._options.json:
            content = {"machines": self._machines, **self.table.document()}
            self._options.json.write_text(json.dumps(content, indent=1))

    def text(self) -> str:
        """The tables, and of what."""
        day = datetime.now(tz=UTC).date()
        seconds = f"{monotonic() - self._begin:.0f} s"
        command = f"`python -m benchmarks.peers {shlex.join(sys.argv[1:])}`"
        python = f"Python {platform.python_version()}"
        head = [f"{command}, {day}, {seconds}, {python}", *sorted(self._machines)]
        return "\n".join([*(f"- {line}" for line in head), "", self.table.markdown(), ""])


def main(words: Sequence[str] | None = None) -> None:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, parents=[arguments()], formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--precision", nargs="+", default=["f32"], choices=PRECISIONS)
    parser.add_argument("--cells", nargs="+", default=["*"], help="patterns of names")
    parser.add_argument("--contenders", nargs="+", default=list(MODES), choices=MODES)
    parser.add_argument("--profile", action="store_true", help="also where the time goes")
    parser.add_argument("-o", "--output", type=Path, help="write the tables here")
    parser.add_argument("--json", type=Path, help="also here, for programs")
    parser.add_argument("--jobs", type=int, default=14, help="processes that prepare side by side")
    parser.add_argument("--xla-jobs", type=int, default=6, help="of these, compiled by XLA")
    parser.add_argument("--seconds", type=float, default=86400, help="stop after so long")
    parser.add_argument("--setup-seconds", type=float, default=3600, help="the most to prepare in")
    options = parser.parse_args(words)
    chosen = cases(small=options.small, wanted=options.cells)
    if not chosen:
        names = " ".join(case.name for case in cases(small=options.small))
        parser.error(f"no cell is called so; there are {names}")
    # What was started is ended too, where a time limit ends this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with TemporaryDirectory() as folder:
        comparison = Comparison(options, chosen, Path(folder))
        comparison.run()
    print(f"\n{comparison.written}")


if __name__ == "__main__":
    main()
