"""Gradients whose squares are no f32 move the weights by as much as the clipped norm says.

The norm of the gradient (1, 2, 2, 4) s is 5 s.
"""

from pathlib import Path

import numpy as np
import pytest

import meganeura

DEVICES = ("cpu", "xla:cpu", pytest.param("wgpu", marks=pytest.mark.adapter))
SLOPES = np.array([1, 2, 2, 4], np.float32)
PROGRAM = """\
block Sloped()() -> []:
  param p: [4] = {initial}
  return sum(p * constant([1.0, 2.0, 2.0, 4.0]))

model sloped = m: Sloped()

train fit(s: whole [1]):
  minimize sum(s) * sloped()
  run:
    optimizer     = {optimizer}
    gradient_norm = true
{more}"""


def trainer(
    folder: Path, device: str, optimizer: str, more: str, initial: str = "zeros"
) -> meganeura.Trainer:
    text = PROGRAM.format(optimizer=optimizer, more=more, initial=initial)
    (folder / "sloped.mgn").write_text(text)
    return meganeura.load(str(folder / "sloped.mgn")).trainer(device=device)


def moved(trained: meganeura.Trainer) -> list[float]:
    return [float(each) for each in trained.weights["m.p"]]


@pytest.mark.parametrize("device", DEVICES)
def test_a_clipped_update_is_as_long_as_the_limit(tmp_path: Path, device: str) -> None:
    with trainer(tmp_path, device, "sgd(lr=1.0)", "    clip_norm     = 1.0\n") as trained:
        for scale in (1.0, 1e19, 1e30, 1e37, 1e-18, 1e-30):
            trained.weights["m.p"] = np.zeros(4)
            result = trained.step({"s": np.array([scale], np.float32)})
            assert result.metrics["gradient_norm"] == pytest.approx(5 * scale, rel=1e-5)
            expected = -SLOPES * (scale if scale < 1 else 0.2)
            assert moved(trained) == pytest.approx(list(expected), rel=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_a_trust_ratio_of_extreme_weights_is_their_norm(tmp_path: Path, device: str) -> None:
    """The first step of `lamb` is of length lr |p|, along the signs of the gradient."""
    with trainer(tmp_path, device, "lamb(lr=0.1, eps=1e-30)", "", "ones") as trained:
        for size in (1.0, 1e25, 1e-25):
            trained.weights["m.p"] = np.full(4, size)
            for moment in ("exp_avg", "exp_avg_sq"):
                trained.states[f"optimizer.m.p.{moment}"] = np.zeros(4)
            trained.states["optimizer.step"] = np.array(0)
            trained.step({"s": np.ones(1, np.float32)})
            assert moved(trained) == pytest.approx([0.9 * size] * 4, rel=1e-4)
