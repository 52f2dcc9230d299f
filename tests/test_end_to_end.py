"""From a .mgn file to trained weights, on every device there is."""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
os.environ.setdefault("LP_NUM_THREADS", "0")

import meganeura
from tests.effort import effort

STEPS = effort(8, 50)
LAST = effort(24, 88)
WARMUP = effort(4, 44)
SCHEDULE = f"cosine(warmup={WARMUP})"
WHOLE = {"steps": LAST, "log_every": 1, "seed": 0, "schedule": SCHEDULE}
"""At night two epochs, with the schedule of the program."""
BEGINNING = {**WHOLE, "steps": STEPS, "schedule": f"cosine(warmup={WARMUP}, steps={LAST})"}
"""The same run, given up before its end."""


def losses(device: str, out: Path, settings: dict[str, Any]) -> np.ndarray:
    """The losses of a short run of the digits network, one for each step."""
    run = meganeura.load("digits_cnn").train(device=device, out=out, settings=settings)
    return np.array([loss for _, loss in run.losses])


@pytest.fixture(scope="module")
def cpu(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """The losses of a run on the reference."""
    return losses("cpu", tmp_path_factory.mktemp("reference") / "cpu", WHOLE)


@pytest.mark.adapter
def test_two_devices_stay_together(cpu: np.ndarray, tmp_path: Path) -> None:
    gpu = losses("wgpu", tmp_path / "gpu", BEGINNING)
    assert cpu[-4:].mean() < cpu[0] / 2
    np.testing.assert_allclose(gpu, cpu[:STEPS], rtol=1e-3)


def test_a_seed_repeats_a_run_bit_for_bit(cpu: np.ndarray, tmp_path: Path) -> None:
    again = losses("cpu", tmp_path / "again", BEGINNING)
    np.testing.assert_array_equal(again, cpu[:STEPS])
