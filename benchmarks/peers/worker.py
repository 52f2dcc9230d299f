"""One process of the comparison: a contender on a case, which it loads, compiles and times.

    python -m benchmarks.peers.worker MODE PRECISION CASE --device DEVICE --outputs FILE [--small]

A framework that crashes so takes only itself along, several may compile side by side, and memory is
no common good. It writes its outputs to a file, says `ready`, and then does what the lines of its
input say: `measure`, `figures` or `profile`. What it says are lines of JSON.
"""

import argparse
import json
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.peers.case import Case, cases, material
from benchmarks.peers.contender import (
    PRECISIONS,
    QUICK,
    Absent,
    Effort,
    Running,
    rounds_ms,
    sampled,
)
from benchmarks.peers.kernel_kinds import Shares, shares
from benchmarks.peers.roster import MODES

MARK = "@"
"""Begins a line that is meant for the parent, as libraries print too."""
PROFILED = 10
"""Steps of a profile."""


def tell(**message: object) -> None:
    """Say something to the parent."""
    print(MARK + json.dumps(message), flush=True)


def reason(error: Exception) -> str:
    """Returns the reason why there is no number, in a line."""
    if isinstance(error, Absent):
        return str(error)
    if isinstance(error, ImportError):
        return f"cannot be imported: {error}"
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first[:200]}"


def orders() -> Iterator[str]:
    """Yields the lines of the parent until it has no more."""
    while line := sys.stdin.readline():
        yield line.strip()


def serve(running: Running, ways: list[str], effort: Effort) -> None:
    """Do what the parent says."""
    for order in orders():
        match order:
            case "measure":
                tell(
                    times={
                        way: rounds_ms(step, running.wait, effort)
                        for way, step in running.steps.items()
                        if way in ways
                    }
                )
            case "figures":
                tell(figures={name: figure() for name, figure in running.figures.items()})
            case "profile":
                found = profiled(running)
                tell(profile=None if found is None else found.document())
            case _:
                raise AssertionError(order)


def profiled(running: Running) -> Shares | None:
    """Returns the time of a step by kind of kernel; `None` without a profiler."""
    if running.profile is None:
        return None
    step = next(iter(running.steps.values()))

    def some() -> None:
        for _ in range(PROFILED):
            step()
        running.wait()

    some()
    # The first trace of a process begins with the profiler's own work.
    running.profile(some)
    return shares(running.profile(some), PROFILED)


def case_of(name: str, *, small: bool) -> Case:
    """The case of that name."""
    (found,) = cases(small=small, wanted=(name,))
    return found


def run(options: argparse.Namespace) -> None:
    """Start, write the outputs, and serve."""
    one = material(case_of(options.case, small=options.small))
    contender = MODES[options.mode].make(options.device, options.precision)
    with contender.run(one) as running:
        np.save(options.outputs, sampled(running.outputs))
        tell(ready=str(contender))
        serve(running, options.ways, QUICK if options.small else Effort())


def arguments() -> argparse.ArgumentParser:
    """Returns the parser of the parent's arguments, most of which are on its own command line."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true", help="small models and one round")
    parser.add_argument("--ways", nargs="+", default=[""], help="also `fed`, `there and back`")
    return parser


def main() -> None:
    """Run, or say why that cannot be."""
    parser = argparse.ArgumentParser(parents=[arguments()])
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("precision", choices=PRECISIONS)
    parser.add_argument("case")
    parser.add_argument("--outputs", type=Path, required=True)
    try:
        run(parser.parse_args())
    except Exception as error:  # noqa: BLE001  whatever it is, the others go on
        traceback.print_exc()
        tell(failed=reason(error))
    # Libraries may take seconds to let go of what the process ends with.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
