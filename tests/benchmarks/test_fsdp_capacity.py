"""What each of several devices holds of the parameters and the optimizer's states, to the byte."""

import json
from pathlib import Path

import pytest

from tests.runtime.backends.xla.command_lines import module

DEVICES = 8


@pytest.mark.timeout(600)
def test_under_fsdp_each_device_holds_its_share_and_what_is_listed(tmp_path: Path) -> None:
    written = tmp_path / "cells.json"
    words = ["--device", "xla:cpu", "--devices", str(DEVICES), "--gib", "0", "--small"]
    words += ["--precision", "f32", "--steps", "1", "--json", str(written)]
    module(DEVICES, "benchmarks.fsdp_capacity", words)
    data, fsdp = json.loads(written.read_text())
    assert [each["sharding"] for each in (data, fsdp)] == ["data", "fsdp"]
    # 15,200 parameters of float32 with two moments each, and the number of the step.
    state = data["state_bytes"]
    assert state == fsdp["state_bytes"] == 3 * 4 * 15_200 + 4
    assert [*data["held_bytes"].values()] == DEVICES * [state]
    assert fsdp["whole"] == ["optimizer.step"]
    assert fsdp["whole_bytes"] == 4
    share = (state - 4) // DEVICES + 4
    assert [*fsdp["held_bytes"].values()] == DEVICES * [share]
    # What the compiled step is given on each device: that, and its inputs.
    inputs = data["argument_bytes"] - state
    assert fsdp["argument_bytes"] == share + inputs
    assert fsdp["losses"] == pytest.approx(data["losses"], abs=1e-5)
