"""The parameters and optimizer states that each of several devices holds, to the byte."""

import json
import os
import subprocess
import sys

from tests.runtime.backends.xla.command_lines import ROOT
from tests.shared_entries import cache_of_processes

DEVICES = 8
WORDS = "--device xla:cpu --gib 0 --small --precision f32 --steps 1 --sharding fsdp"


def test_under_fsdp_each_device_holds_its_share_and_what_is_listed() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "benchmarks.fsdp_capacity", *WORDS.split(), "--devices", "8"],
        cwd=ROOT,
        env={
            **os.environ,
            "JAX_NUM_CPU_DEVICES": str(DEVICES),
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
            "MEGANEURA_CACHE": cache_of_processes(),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    cell = json.loads(found.stdout.splitlines()[-1])
    # 15,200 parameters of float32 with two moments each, and the number of the step.
    state, whole = 3 * 4 * 15_200 + 4, 4
    assert (cell["state_bytes"], cell["whole_bytes"]) == (state, whole)
    assert cell["whole"] == ["optimizer.step"]
    share = (state - whole) // DEVICES + whole
    assert [*cell["held_bytes"].values()] == DEVICES * [share]
    # What XLA gives the compiled step on each device: that, a row of 17 tokens, and little else.
    assert share + 4 * 17 <= cell["argument_bytes"] < share + 4 * 17 + 64
    assert cell["temporary_bytes"] > 0
    # Each gradient is summed once, that of the table too, whose two parts each device has added;
    # beside them the loss. XLA for the CPU takes a device's share of a sum that all have.
    table = 4 * 60 * 32
    assert cell["shared_bytes"]["reduce-scatter"] == table
    assert cell["shared_bytes"]["all-reduce"] == 4 * 15_200 - table + 4
    first, last = cell["losses"]
    assert last < first, "the next step begins with what this one has learned"
