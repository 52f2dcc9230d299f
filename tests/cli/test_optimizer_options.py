"""`--no-opt` and `--disable-rule`: a run is the same run, by other graphs."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from meganeura_runtime.backends.webgpu.device import adapters
from meganeura_runtime.backends.webgpu.device.adapters import DeviceInfo
from meganeura_runtime.io.checkpoint import read_checkpoint
from tests.cli.command import Command

SHORT = ("--device", "cpu", "--set", "epochs=1", "--set", "batch=256", "--set", "log_every=1")


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(meganeura: Command, out: Path, *options: str) -> Path:
    shown = meganeura("train", "digits_cnn", *SHORT, "--out", str(out), *options)
    assert (shown.code, shown.err) == (0, "")
    return out


def test_a_run_is_the_same_with_and_without(meganeura: Command, tmp_path: Path) -> None:
    fast = run(meganeura, tmp_path / "fast")
    plain = run(meganeura, tmp_path / "plain", "--no-opt")
    assert json.loads((plain / "settings.json").read_text())["optimize"] is False
    for name, array in load_file(plain / "weights.safetensors").items():
        found = load_file(fast / "weights.safetensors")[name]
        np.testing.assert_allclose(found, array, rtol=1e-3, atol=1e-4)
    programs = [
        read_checkpoint(each / "checkpoint.safetensors")[1].program for each in (fast, plain)
    ]
    assert programs[0] == programs[1]


def test_a_rule_is_left_out(meganeura: Command, tmp_path: Path) -> None:
    out = run(meganeura, tmp_path / "out", "--disable-rule", "norm", "--disable-rule", "relu")
    assert json.loads((out / "settings.json").read_text())["disabled_rules"] == ["norm", "relu"]


def test_a_rule_that_does_not_exist_is_refused(meganeura: Command, tmp_path: Path) -> None:
    shown = meganeura("train", "digits_cnn", *SHORT, "--disable-rule", "nrom")
    assert shown.code == 2
    assert "there is no rule `nrom` to disable" in shown.err
    assert "did you mean `norm`?" in shown.err
    assert not (tmp_path / "runs").exists()


def test_rules_are_a_list_of_texts(meganeura: Command) -> None:
    shown = meganeura("train", "digits_cnn", *SHORT, "--set", "disabled_rules=norm")
    assert shown.code == 2
    assert "`disabled_rules`" in shown.err
    assert "a list" in shown.err


WIDE = """\
block Wide()(image: [n, 64, 56, 56]) -> [n, 64, 56, 56]:
  return image |> conv: conv2d(64, 3, pad=1)

model wide = Wide()
"""


def test_what_is_explained_depends_on_the_device(
    meganeura: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = DeviceInfo("wgpu:0", "a card", "DiscreteGPU", "Vulkan", "1")
    monkeypatch.setattr(adapters, "list_devices", lambda *_: (card,))
    Path("wide.mgn").write_text(WIDE)
    for device, matches in (("cpu", False), ("wgpu", True)):
        shown = meganeura("explain-opt", "wide.mgn", "--set", "n=32", "--device", device)
        assert (shown.code, shown.err) == (0, "")
        assert ("winograd" in shown.out) == matches


@pytest.mark.parametrize("command", [("explain-opt",), ("build", "--emit", "optimized")])
@pytest.mark.parametrize("device", ["abacus", "wgpu:7"])
def test_a_device_that_there_is_not_is_refused(
    meganeura: Command, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], device: str
) -> None:
    card = DeviceInfo("wgpu:0", "a card", "DiscreteGPU", "Vulkan", "1")
    monkeypatch.setattr(adapters, "list_devices", lambda *_: (card,))
    shown = meganeura(*command, "digits_mlp", "--device", device)
    assert shown.code == 2
    assert "error[E0551]" in shown.err


def test_a_machine_without_adapters_is_told_apart(
    meganeura: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapters, "list_devices", lambda *_: ())
    shown = meganeura("explain-opt", "digits_mlp", "--device", "wgpu")
    assert shown.code == 2
    assert "no adapter was found" in shown.err
