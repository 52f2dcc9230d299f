"""Hold many random programs to PyTorch: outputs and gradients, on each device, optimized or not.

    python scripts/random_parity.py COUNT [FIRST_SEED] [--device wgpu:0]

COUNT is that of programs which were accepted and compared. Of each one block is run, in a random
configuration: in double precision against PyTorch's, to 1e-9, and in single precision on the CPU
and the device. What is wrong is printed with its seed; the exit code says whether there was any.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_runtime.backends.webgpu.config.limits import Style
from meganeura_runtime.backends.webgpu.device.device import open_device
from tests.parity.programs import Tally, examine
from tests.runtime.running import run

EVERY = 50
"""Programs between two lines of progress."""


def main() -> int:
    """Run the programs of as many seeds as it takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("--device", default="wgpu:0")
    given = parser.parse_args()
    device = open_device(given.device)

    def on_cpu(graph: Graph, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        return evaluate(graph, feeds).outputs

    def on_device(graph: Graph, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        return run(graph, feeds, device, Style.SOFTWARE_VULKAN).outputs

    tally, started, seed, told = Tally(), time.perf_counter(), given.first, 0
    while tally.seen["programs"] < given.count:
        before = tally.seen["programs"]
        examine(seed, {"cpu": on_cpu, given.device: on_device}, tally)
        seed += 1
        for fault in tally.wrong[told:]:
            print(fault, flush=True)
        told = len(tally.wrong)
        if before != tally.seen["programs"] and tally.seen["programs"] % EVERY == 0:
            seconds = time.perf_counter() - started
            print(f"{seconds:,.0f} s: {dict(tally.seen)}, {told} wrong", flush=True)
    device.close()
    print(f"{seed - given.first:,} seeds: {dict(tally.seen)}, {told} wrong")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
