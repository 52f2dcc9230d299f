"""The gain of each start-up trick: a command with it and without it, in turns.

    python -m benchmarks.startup [--runs 21] [--device wgpu:0] [TRICK ...]

Milliseconds: the median, over pairs of processes that follow one another, of the processor time
(user and system) and of the wall time that the one without the trick takes longer. Caches are warm,
except for tricks of the graph optimizer, which runs only where there is no entry.
"""

import os
import resource
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from meganeura_dsl.startup.tricks import PLAIN, VARIABLE, Trick

CHECK = ("check", "resnet18")
TRAIN = ("train", "digits_mlp", "--set", "epochs=0")
OPTIMIZE = ("explain-opt", "digits_mlp")
COMMANDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    Trick.CFFI: (TRAIN,),
    Trick.EGGLOG: (OPTIMIZE,),
    Trick.GC: (CHECK, TRAIN, OPTIMIZE),
    Trick.NUMPY: (CHECK,),
    Trick.PREFETCH: (TRAIN,),
    Trick.PRUNING: (OPTIMIZE,),
    PLAIN: (CHECK, TRAIN, OPTIMIZE),
}
"""The commands that a trick is for; `plain` is all tricks together."""


@dataclass(frozen=True)
class Cost:
    """Seconds of one process."""

    processor: float
    wall: float


def measure(command: Sequence[str], disabled: str, folder: Path) -> Cost:
    """Run a command in its own process; raises `CalledProcessError` where it fails."""
    environment = {**os.environ, VARIABLE: disabled, "MEGANEURA_CACHE": str(folder / "cache")}
    with TemporaryDirectory(dir=folder) as runs:
        out = ("--out", f"{runs}/run") if command[0] == "train" else ()
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
        subprocess.run(
            [sys.executable, "-m", "meganeura", *command, *out],
            check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wall, after = perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(used, wall)


def gain(command: Sequence[str], trick: str, runs: int, folder: Path) -> str:
    """A row of the table: with and without a trick in turns, after one run of each."""
    costs = {disabled: list[Cost]() for disabled in ("", trick)}
    for number in range(runs + 1):
        for disabled, found in costs.items():
            cost = measure(command, disabled, folder)
            if number:
                found.append(cost)
    pairs = tuple(zip(costs[trick], costs[""], strict=True))
    processor = 1e3 * median(off.processor - on.processor for off, on in pairs)
    wall = 1e3 * median(off.wall - on.wall for off, on in pairs)
    whole = 1e3 * median(on.processor for _, on in pairs)
    text = " ".join(command)
    return f"| `{trick}` | `{text}` | {processor:.0f} | {wall:.0f} | {whole:.0f} |"


def main() -> None:
    """Print the table."""
    parser = ArgumentParser(description="what each start-up trick gains")
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--device", default="auto")
    parser.add_argument("tricks", nargs="*", metavar="TRICK")
    chosen = parser.parse_args()
    print("| trick | command | processor time saved, ms | wall time saved, ms | of |")
    print("|---|---|---|---|---|")
    with TemporaryDirectory() as folder:
        for trick in chosen.tricks or COMMANDS:
            for command in COMMANDS[trick]:
                device = ("--device", chosen.device) if command == TRAIN else ()
                row = gain((*command, *device), trick, chosen.runs, Path(folder))
                print(row, flush=True)


if __name__ == "__main__":
    main()
