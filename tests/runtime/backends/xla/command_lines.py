"""Runs command lines one after another in one process, as JSON lists on the command line.

    JAX_NUM_CPU_DEVICES=8 python -m tests.runtime.backends.xla.command_lines '[["train", ...], ...]'

It is a separate process because JAX decides how many devices there are when it starts. What XLA
optimizes beyond the graph is left out: programs are compiled many times, and run a few steps.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.shared_entries import cache_of_processes

ROOT = Path(__file__).parents[4]
SHOWN = "$ meganeura"
"""Begins the line that shows a command line before what it says."""
HEARTBEAT = "TESTED_HEARTBEAT"
"""Variable with the seconds without a sign of life after which a process counts as dead."""


def main() -> None:
    """Run them, and end with the code of the first that fails."""
    from meganeura.cli.app import run  # noqa: PLC0415 - after the environment of JAX is set

    if HEARTBEAT in os.environ:
        from meganeura_runtime.backends.xla.device import hosts  # noqa: PLC0415

        hosts.HEARTBEAT = int(os.environ[HEARTBEAT])
    for arguments in json.loads(sys.argv[1]):
        sys.stdout.write(f"{SHOWN} {' '.join(arguments)}\n")
        code = run(arguments)
        if code:
            sys.exit(code)


def process(devices: int, commands: Sequence[Sequence[str]], folder: Path) -> subprocess.Popen[str]:
    """A process with so many simulated devices that runs these command lines in a folder."""
    environment = {
        **os.environ,
        "JAX_NUM_CPU_DEVICES": str(devices),
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "MEGANEURA_CACHE": cache_of_processes(),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runtime"))),
        "NO_COLOR": "1",
    }
    module = "tests.runtime.backends.xla.command_lines"
    return subprocess.Popen(
        [sys.executable, "-m", module, json.dumps(commands)],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


if __name__ == "__main__":
    main()
