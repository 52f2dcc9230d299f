"""`meganeura tune`: what it finds is kept for an adapter, told, and left unused on request."""

import json
from pathlib import Path

import numpy as np
import pytest

from meganeura_runtime.backends.webgpu.config.kernel_config import KernelConfig
from meganeura_runtime.backends.webgpu.config.tuned_configs import (
    TuningDatabase,
    TuningRecord,
    content_of,
)
from meganeura_runtime.backends.webgpu.tuning import autotuner
from tests.cli.command import Command

pytestmark = pytest.mark.adapter

ARGUMENTS = ("digits_mlp", "--size", "n=4", "--device", "wgpu")
PRODUCT = "MatMul(transpose_left=False, transpose_right=True) f32[4, 64] f32[64, 64]"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tuned"


@pytest.fixture
def favoured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any way in two parts seems best, and helps."""
    honest = autotuner._Race._note

    def note(race: autotuner._Race, turns: list[dict[KernelConfig, float]]) -> None:
        honest(race, turns)
        for config in race.seconds:
            race.seconds[config] = 1.0 if config.split_k == 2 else 2.0

    monkeypatch.setattr(autotuner._Race, "_note", note)
    monkeypatch.setattr(autotuner, "_steps_of", lambda *given: [2.0, *([1.0] * len(given[2][1:]))])


@pytest.mark.usefixtures("favoured")
def test_what_gains_is_kept_and_used_until_it_is_left(meganeura: Command, cache: Path) -> None:
    shown = meganeura("tune", *ARGUMENTS)
    assert (shown.code, shown.err) == (0, "")
    (kept,) = cache.iterdir()
    lines = shown.out.splitlines()
    assert lines[0].startswith("digits_mlp: inference, n = 4; on wgpu:")
    assert lines[1] == "  matmul 4x64x64  digits_mlp.mgn:5"
    assert lines[2].startswith("    1 x 2 s -> 1 s  ")
    assert "shuffled rows, 2 parts  (" in lines[2]
    assert lines[-2].endswith("step: 2 s before, 1 s with what was found")
    assert lines[-1] == f"kept: {kept}"
    assert PRODUCT in json.loads(kept.read_text())["found"]

    plan = ("build", "digits_mlp", "--mode", "infer", "--size", "n=4", "--device", "wgpu")
    tuned, plain = meganeura(*plan), meganeura(*plan, "--no-tuned")
    assert f"kernels as in {kept.name} (" in tuned.out
    assert "matmul 4x64x64 in 2 parts" in tuned.out
    assert "kernels as in" not in plain.out
    assert "in 2 parts" not in plain.out


@pytest.mark.usefixtures("favoured")
def test_a_run_says_in_one_line_that_it_is_tuned(
    meganeura: Command, cache: Path, tmp_path: Path
) -> None:
    assert meganeura("tune", *ARGUMENTS, "--json").code == 0
    (kept,) = cache.iterdir()
    np.save(tmp_path / "image.npy", np.ones((4, 1, 8, 8), np.float32))
    given = ("--input", str(tmp_path / "image.npy"), "--random-weights", "0", "--device", "wgpu")
    tuned = meganeura("run", "digits_mlp", *given)
    plain = meganeura("run", "digits_mlp", *given, "--no-tuned")
    assert (tuned.code, plain.code) == (0, 0)
    assert f"kernels as tuned: {kept}" in tuned.out.splitlines()
    assert "tuned" not in plain.out


def test_a_file_that_cannot_be_used_is_told_and_left(
    meganeura: Command, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autotuner, "_steps_of", lambda *given: [1.0, *([2.0] * len(given[2][1:]))])
    shown = meganeura("tune", *ARGUMENTS)
    assert shown.out.endswith("the step gains nothing, so nothing is kept\n")
    assert not cache.exists()
    np.save(tmp_path / "image.npy", np.ones((1, 1, 8, 8), np.float32))
    given = ("--input", str(tmp_path / "image.npy"), "--random-weights", "0", "--device", "wgpu")
    assert "tuned" not in meganeura("run", "digits_mlp", *given).out
    _foreign(cache)
    told = meganeura("run", "digits_mlp", *given)
    assert (told.code, told.err) == (0, "")
    assert "kernels not as tuned: " in told.out


def _foreign(cache: Path) -> None:
    """A file where the adapter's should be, of another adapter."""
    from meganeura_runtime.backends.webgpu.device.device import open_device  # noqa: PLC0415
    from meganeura_runtime.backends.webgpu.tuning_cache import tuning_key_of  # noqa: PLC0415

    device = open_device("wgpu")
    here = tuning_key_of(device.info)
    device.close()
    other = type(here)("another", here.driver)
    cache.mkdir(parents=True)
    (cache / here.file_name).write_text(
        content_of(other, TuningDatabase({"a": TuningRecord(KernelConfig(2), 1, 2)}))
    )


def test_nothing_is_tuned_on_the_reference_device(meganeura: Command) -> None:
    shown = meganeura("tune", "digits_mlp", "--device", "cpu")
    assert shown.code == 2
    assert "there is nothing to tune on cpu (as asked)" in shown.err.replace("\n", " ")
