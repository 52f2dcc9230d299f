"""A device that there is not is refused by every command that takes one, before anything else."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.cli.command import Command

PROGRAM = """\
block Net(d)(x: [n, 4]) -> [n, d]:
  return x |> fc: linear(d)

model net = Net(d=3)

train fit(x: [batch, 4], y: i32[batch]):
  minimize cross_entropy(x |> net, y)
  run:
    data      = "rows.safetensors"
    batch     = 4
    optimizer = sgd(lr=0.1)
"""
COMMANDS = {
    "build": "net.mgn:net --device",
    "check": "net.mgn --limits",
    "explain-opt": "net.mgn:net --device",
    "fit": "net.mgn --device",
    "generate": "gpt2_tiny --random-weights 0 --prompt x --device",
    "gradcheck": "net.mgn --device",
    "profile": "net.mgn --device",
    "run": "net.mgn:net --random-weights 1 --input rows.npy --device",
    "train": "net.mgn --out run --device",
    "tune": "net.mgn --device",
}
"""Each command that takes a device, up to its name."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a program with its data, which is the current one."""
    (tmp_path / "net.mgn").write_text(PROGRAM)
    rows = np.ones((8, 4), np.float32)
    np.save(tmp_path / "rows.npy", rows)
    save_file({"x": rows, "y": np.zeros(8, np.int32)}, tmp_path / "rows.safetensors")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("device", ["abacus", "cpu:1", "wgpu:x"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_of_no_device_is_refused(
    meganeura: Command, here: Path, command: str, device: str
) -> None:
    before = sorted(here.iterdir())
    shown = meganeura(command, *COMMANDS[command].split(), device)
    assert shown.code == 2
    assert "error[E0551]" in shown.err or "error[E0513]: `device` must be" in shown.err
    assert sorted(here.iterdir()) == before


@pytest.mark.adapter
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("here")
def test_an_adapter_beyond_the_last_is_refused(meganeura: Command, command: str) -> None:
    shown = meganeura(command, *COMMANDS[command].split(), "wgpu:99")
    assert shown.code == 2
    assert "error[E0551]: there is no adapter 99; there are: wgpu:0: " in shown.err
