"""The time of a check in a process: each program of the library, without any cache.

    python -m benchmarks.checking [--jobs N] [--cold] [NAME ...]

Each program has its own process, which has checked all others before, so that what is known of
the standard library is there and nothing of this file; with `--cold` one that has checked
`digits_mlp` alone. Milliseconds: the first check, and the least of three more. Disk caches are off.
"""

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from time import perf_counter

from meganeura_dsl.pipeline import check_file
from meganeura_dsl.resources import standard_model_names, standard_models

SMALL = "digits_mlp"


def _path(name: str) -> str:
    return str(standard_models() / f"{name}.mgn")


def _timed(name: str) -> float:
    """Milliseconds of a check."""
    begin = perf_counter()
    result = check_file(_path(name))
    took = (perf_counter() - begin) * 1e3
    assert result.fine, name
    return took


def _measure(name: str, *, cold: bool) -> tuple[float, float]:
    for other in [SMALL] if cold else standard_model_names():
        if other != name:
            check_file(_path(other))
    first, *again = (_timed(name) for _ in range(4))
    return first, min(again)


def _in_process(name: str, *, cold: bool) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.checking", "--measure", name]
    environment = {**os.environ, "MEGANEURA_CACHE": "off"}
    done = subprocess.run(
        [*command, "--cold"] if cold else command,
        capture_output=True, check=True, text=True, env=environment,
    )  # fmt: skip
    first, again = json.loads(done.stdout)
    return first, again


def main() -> None:
    """Measure programs side by side, and print what each takes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(_measure(given.measure, cold=given.cold)))
        return
    names = given.names or list(standard_model_names())
    with ThreadPoolExecutor(given.jobs) as pool:
        found = list(pool.map(lambda name: _in_process(name, cold=given.cold), names))
    for name, (first, again) in zip(names, found, strict=True):
        print(f"{name:20} {first:7.1f} {again:7.1f}")
    firsts = [first for first, _ in found]
    print(f"{'median':20} {median(firsts):7.1f}; below 60: {sum(f < 60 for f in firsts)}")


if __name__ == "__main__":
    main()
