"""The WGSL of standard models under both compilers, and numerical edges of what kernels call.

    python -m tests.wgsl [PART_OF_A_NAME]

Compiles every kernel of the plans of every standard model and training, or of those whose name has
a part. Prints counts and what is refused or wrong; the exit code says whether something is.
"""

import argparse
import sys
from contextlib import ExitStack

from tests.wgsl.compilers import COMPILERS, refusal
from tests.wgsl.edges import EDGES, edge_faults
from tests.wgsl.plans import everything


def main() -> int:
    """Compiles all kernels, and computes all edges."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", default="")
    part = parser.parse_args().part
    seen: set[str] = set()
    wrong = models = results = 0
    with ExitStack() as stack:
        devices = {name: stack.enter_context(opened()) for name, opened in COMPILERS.items()}
        for name, kernels in everything(part):
            models += 1
            for text in sorted(kernels - seen):
                for compiler, device in devices.items():
                    fault = refusal(device, text)
                    wrong += bool(fault)
                    if fault:
                        _say(f"REFUSED by {compiler}, {name}: {fault}")
            _say(f"{name}: {len(kernels)} kernels, {len(kernels - seen)} of them new")
            seen |= kernels
        for compiler, device in devices.items():
            for edge in EDGES:
                results += len(edge.fed[0])
                faults = edge_faults(edge, device)
                wrong += len(faults)
                for fault in faults:
                    _say(f"WRONG by {compiler}: {fault}")
    _say(f"{models} models and trainings, {len(seen)} kernels, {results} edges, {wrong} wrong")
    return int(wrong > 0)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
