"""Mutation testing: a test has to notice each small mistake, by default in gradients and prover.

    python scripts/mutation.py [PART ...] [--of FILE ...] [--tests FILE ...] [--fast]
                               [--sample COUNT] [--seed SEED] [--jobs COUNT] [--budget SECONDS]
                               [--baseline FILE]

All mutants of the files of `TARGETS`, or of others, or those whose title has a PART in it, or a
sample of them.
The tests are collected once; each mutant is put into a fork of that process, by giving its function
other code, and the tests that run its line are run, the quickest and the most telling first, until
one fails. A survivor is a gap in the tests, or changes nothing anyone could notice: those stand in
`docs/mutation.md` with the reason. The exit code says whether fewer than 90 % were killed, or any
survivor is not explained.
"""

import argparse
import contextlib
import gc
import importlib
import os
import pickle
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import _lru_cache_wrapper  # pyright: ignore[reportPrivateUsage]
from pathlib import Path
from types import CodeType, FunctionType
from typing import cast

import coverage
import pytest
from _pytest.runner import runtestprotocol
from mutants import Mutant, compiled, mutants

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("meganeura_dsl/transforms/autodiff.py", "meganeura_dsl/symbolic", "meganeura_dsl/ir/ops")
TESTS = (
    "tests/dsl/symbolic", "tests/dsl/ir", "tests/dsl/transforms/test_autodiff.py",
    "tests/dsl/transforms/test_training_step.py", "tests/dsl/gradcheck", "tests/dsl/elaborate",
    "tests/parity/test_ops.py", "tests/test_spec.py",
)  # fmt: skip
EXPLAINED = ROOT / "docs" / "mutation.md"
LEAST_SCORE = 0.9
BUDGET = 60.0
"""Seconds of tests for a mutant, if nothing else is said; what none of them kills survives."""
PATIENCE = 10
"""A test that takes so many times as long as it did, and some seconds, does not end."""
MEMORY = 3 << 30
"""More than that is no result either."""


@dataclass
class Baseline:
    """What the tests do without a mutant: the seconds of each, and who runs which line."""

    seconds: dict[int, float] = field(default_factory=dict[int, float])
    readers: dict[str, dict[int, set[int]]] = field(default_factory=dict[str, dict[int, set[int]]])
    """Of each file, of each line, the tests that run it."""
    failing: set[int] = field(default_factory=set[int])
    names: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Fate:
    """What became of a mutant; the test that killed it, if it was not time that did."""

    mutant: Mutant
    word: str
    killer: int | None = None


class Mutation:
    """A pytest plugin that runs the collected tests for each mutant, instead of once."""

    def __init__(
        self, files: Sequence[str], chosen: Sequence[Mutant], arguments: argparse.Namespace
    ) -> None:
        self.files = files
        self.chosen = chosen
        self.jobs: int = arguments.jobs
        self.budget: float = arguments.budget
        self.known: Path | None = arguments.baseline and arguments.baseline.resolve()
        """Where the baseline of the same sources is, or is to be kept."""
        self.fates: list[Fate] = []
        self.items: list[pytest.Item] = []
        self.kills: dict[str, Counter[int]] = defaultdict(Counter)
        """How many mutants of a file a test has killed."""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Called by pytest once the tests are collected."""
        self.items = session.items
        gc.unfreeze()  # tests/conftest.py sets aside what was imported, where nobody finds it
        self.field = Field(self.files)
        gc.collect()
        gc.freeze()
        started = time.perf_counter()
        baseline = self._known() or self._baseline()
        for index in sorted(baseline.failing):
            print(f"left out, for it fails without any mutant: {self.items[index].nodeid}")
        seconds = time.perf_counter() - started
        passing = len(self.items) - len(baseline.failing)
        print(f"{passing:,} tests pass in {seconds:.0f} s", flush=True)
        for count, fate in enumerate(self._fates(baseline), 1):
            self.fates.append(fate)
            if fate.word != "killed":
                print(f"{fate.word}: {fate.mutant.line} {fate.mutant.title}", flush=True)
            if count % 100 == 0:
                print(f"  {count:,} of {len(self.chosen):,}", flush=True)
        return True

    def _known(self) -> Baseline | None:
        """The baseline of an earlier run, if the tests are the same."""
        if self.known is None or not self.known.exists():
            return None
        baseline: Baseline = pickle.loads(self.known.read_bytes())  # noqa: S301 - our own
        return baseline if baseline.names == [item.nodeid for item in self.items] else None

    def _baseline(self) -> Baseline:
        """All tests once, in a fork, under the eyes of coverage."""
        with tempfile.TemporaryDirectory() as folder:
            path = self.known or Path(folder) / "baseline"
            pid = os.fork()
            if not pid:
                _in_child(lambda: self._measure(path))
            _, status = os.waitpid(pid, 0)
            if status:
                sys.exit("the tests did not come to their end")
            return pickle.loads(path.read_bytes())  # noqa: S301 - written just now

    def _measure(self, path: Path) -> int:
        watched = coverage.Coverage(
            config_file=False,
            data_file=None,
            include=[str(ROOT / file) for file in self.files],
            branch=False,
        )
        baseline = Baseline(names=[item.nodeid for item in self.items])
        with watched.collect():
            for index, item in enumerate(self.items):
                watched.switch_context(str(index))
                if not index or item.path != self.items[index - 1].path:
                    self.field.forget()  # what one file of tests has cached, the next one runs
                before = time.process_time()
                if not self._passes(item, self.items[index + 1 : index + 2]):
                    baseline.failing.add(index)
                baseline.seconds[index] = time.process_time() - before
        data = watched.get_data()
        for file in data.measured_files():
            lines = data.contexts_by_lineno(file)
            name = str(Path(file).relative_to(ROOT))
            baseline.readers[name] = {
                line: {int(each) for each in contexts if each} for line, contexts in lines.items()
            }
        path.write_bytes(pickle.dumps(baseline))
        return 0

    def _passes(self, item: pytest.Item, following: Sequence[pytest.Item]) -> bool:
        upcoming = following[0] if following else None
        reports = runtestprotocol(item, log=False, nextitem=upcoming)
        for report in reports:
            if report.failed and os.environ.get("MUTATION_VERBOSE"):
                print(report.longreprtext, flush=True)
        return not any(report.failed for report in reports)

    # --- mutants ---------------------------------------------------------------------------------

    def _fates(self, baseline: Baseline) -> Iterator[Fate]:
        """Of all mutants, several at a time."""
        running: dict[int, tuple[Mutant, int]] = {}
        for mutant in self.chosen:
            if len(running) == self.jobs:
                yield self._ended(running)
            tests = self._tests(mutant, baseline)
            reading, writing = os.pipe()
            pid = os.fork()
            if not pid:
                _in_child(lambda m=mutant, t=tests, w=writing: self._try(m, t, baseline, w))
            os.close(writing)
            running[pid] = (mutant, reading)
        while running:
            yield self._ended(running)

    def _ended(self, running: dict[int, tuple[Mutant, int]]) -> Fate:
        pid, status = os.waitpid(-1, 0)
        mutant, reading = running.pop(pid)
        with os.fdopen(reading) as pipe:
            killer = pipe.read()
        if status == 0:
            return Fate(mutant, "SURVIVED")
        if not killer:
            return Fate(mutant, "killed by time" if os.WIFSIGNALED(status) else "not planted")
        self.kills[mutant.file][int(killer)] += 1
        return Fate(mutant, "killed", int(killer))

    def _tests(self, mutant: Mutant, baseline: Baseline) -> list[int]:
        """The tests that run its line, then those beside them, which may read what they cached.

        Those that killed many in little time come first.
        """
        lines = baseline.readers.get(mutant.file, {})
        kills = self.kills[mutant.file]

        def promise(test: int) -> float:
            return -(kills[test] + 0.1) / (baseline.seconds[test] + 0.005)

        chosen: list[int] = []
        left = self.budget
        running = lines.get(mutant.line, set())
        paths = {self.items[test].path for test in running}
        beside = {test for test, item in enumerate(self.items) if item.path in paths} - running
        for group in (running, beside):
            for test in sorted(group - baseline.failing, key=promise):
                left -= baseline.seconds[test]
                if left < 0:
                    return chosen
                chosen.append(test)
        return chosen

    def _try(self, mutant: Mutant, tests: Sequence[int], baseline: Baseline, pipe: int) -> int:
        """Whether a test fails with the mutant in place; its number goes into the pipe."""
        if not self.field.plant(mutant):
            return 2
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        for position, test in enumerate(tests):
            following = [self.items[each] for each in tests[position + 1 : position + 2]]
            signal.setitimer(signal.ITIMER_PROF, PATIENCE * baseline.seconds[test] + 5)
            if not self._passes(self.items[test], following):
                os.write(pipe, str(test).encode())
                return 1
        return 0


def _in_child(work: Callable[[], int]) -> None:
    """Run in a fork that says nothing, and ends here."""
    code = 3
    try:
        if not os.environ.get("MUTATION_VERBOSE"):
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
        code = work()
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)


class Field:
    """The live functions of the targets, where mutants are planted, and all caches."""

    def __init__(self, files: Sequence[str]) -> None:
        self.functions: dict[str, list[FunctionType]] = defaultdict(list)
        self.caches: list[_lru_cache_wrapper[object]] = []
        paths = {str(ROOT / file): file for file in files}
        for file in files:
            with contextlib.suppress(ImportError):  # of an adapter, or of a package of PyTorch's
                importlib.import_module(_module(file))
        for each in gc.get_objects():
            if type(each) is FunctionType and each.__code__.co_filename in paths:
                self.functions[paths[each.__code__.co_filename]].append(each)
            elif type(each) is _lru_cache_wrapper and each.__module__.startswith("meganeura"):
                self.caches.append(cast("_lru_cache_wrapper[object]", each))

    def plant(self, mutant: Mutant) -> bool:
        """Give a function the code of the mutant, and forget what was computed before."""
        tree = compiled(ROOT, mutant)
        codes = {
            (code.co_qualname, code.co_firstlineno): code
            for code in _codes(compile(tree, str(ROOT / mutant.file), "exec"))
        }
        planted = False
        for function in self.functions[mutant.file]:
            place = function.__code__.co_qualname, function.__code__.co_firstlineno
            if place[0] == mutant.function and place in codes:
                function.__code__ = codes[place]
                planted = True
        self.forget()
        return planted

    def forget(self) -> None:
        """Empty the caches of the targets, and of what is computed with them."""
        for cache in self.caches:
            cache.cache_clear()


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


# --- what is tried, and what is told --------------------------------------------------------------


def main() -> int:
    """Try the mutants of the command line and tell what became of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("parts", nargs="*", help="parts of titles; without any, all mutants")
    parser.add_argument("--of", nargs="+", help="files and folders that are changed")
    parser.add_argument("--tests", nargs="+", help="tests that have to notice")
    parser.add_argument("--fast", action="store_true", help="of these the fast tier alone")
    parser.add_argument("--sample", type=int, help="no more mutants than these")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of tests for each")
    parser.add_argument("--baseline", type=Path, help="keep what the tests do here; reuse it")
    arguments = parser.parse_args()
    files = _files(arguments.of or TARGETS)
    every = [each for file in files for each in mutants(ROOT, file)]
    chosen = [m for m in every if not arguments.parts or any(p in m.title for p in arguments.parts)]
    random.Random(arguments.seed).shuffle(chosen)
    mutation = Mutation(files, chosen[: arguments.sample], arguments)
    os.chdir(ROOT)
    options = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", *(arguments.tests or TESTS)]
    options += ["--fast"] * arguments.fast
    outcome = pytest.main(options, plugins=[mutation])
    if outcome is not pytest.ExitCode.OK:
        print(f"the tests were not collected: {outcome!r}")
        return 1
    return tell(mutation.fates)


def _module(file: str) -> str:
    parts = Path(file).with_suffix("").parts
    return ".".join(part for part in parts if part not in ("runtime", "__init__", "__main__"))


def _files(targets: Sequence[str]) -> list[str]:
    found = [ROOT / target for target in targets]
    files = [f for each in found for f in (sorted(each.rglob("*.py")) if each.is_dir() else [each])]
    return [str(file.relative_to(ROOT)) for file in files]


def tell(fates: Sequence[Fate]) -> int:
    """The table by file, and the survivors that nobody explained."""
    explained = EXPLAINED.read_text(encoding="utf-8") if EXPLAINED.exists() else ""
    total: Counter[str] = Counter()
    dead: Counter[str] = Counter()
    for fate in fates:
        for name in (fate.mutant.file, "all"):
            total[name] += 1
            dead[name] += fate.word.startswith("killed")
    print("| file | mutants | killed | |\n|---|---|---|---|")
    for name in sorted(total):
        print(f"| `{name}` | {total[name]:,} | {dead[name]:,} | {dead[name] / total[name]:.1%} |")
    alive = [fate.mutant for fate in fates if not fate.word.startswith("killed")]
    new = sorted((each for each in alive if each.title not in explained), key=lambda m: m.title)
    for mutant in new:
        print(f"not explained: line {mutant.line} of {mutant.title}")
    print(
        f"{len(alive) - len(new)} survivors are explained in docs/mutation.md, {len(new)} are not"
    )
    return 1 if new or dead["all"] < LEAST_SCORE * total["all"] else 0


if __name__ == "__main__":
    sys.exit(main())
