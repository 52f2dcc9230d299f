"""Standard trainings whose steps draw, match and pick: every device has the same losses."""

from itertools import pairwise
from pathlib import Path

import pytest

import meganeura
from meganeura_runtime.train.events import Logged

TRAININGS = [("mae", "digits"), ("dit", "guided"), ("detr", "digits"), ("wav2vec2", "digits")]
STEPS = 5
DEVICES = ["xla:cpu", pytest.param("wgpu", marks=pytest.mark.adapter)]


def losses(file: str, train: str, device: str, folder: Path) -> list[float]:
    """The losses of the first steps of a training of a few digits."""
    found: list[float] = []

    def note(event: object) -> None:
        if isinstance(event, Logged):
            found.append(event.loss)

    settings = {
        "device": device, "batch": 8, "epochs": 1, "steps_per_epoch": STEPS, "log_every": 1,
        "schedule": "constant", "seed": 3,
    }  # fmt: skip
    program = meganeura.load(file)
    program.train(
        train, settings=settings, out=folder / device.partition(":")[0], watch=note, live=False
    )
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("file", "train"), TRAININGS)
def test_a_training_has_the_losses_of_the_reference(
    file: str, train: str, device: str, tmp_path: Path
) -> None:
    expected = losses(file, train, "cpu", tmp_path)
    found = losses(file, train, device, tmp_path)
    assert len(expected) == STEPS
    assert min(abs(a - b) for a, b in pairwise(expected)) > 1e-3
    assert found == pytest.approx(expected, rel=1e-4)
