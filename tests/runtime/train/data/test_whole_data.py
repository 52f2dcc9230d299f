"""Runs without batches: all inputs are whole, so that an epoch is one step."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.events import EpochEnded, Evaluated
from tests.runtime.runs import Workspace, contents

PROGRAM = """\
train fit(x: whole [v, 3], source: whole i32[e]):
  z = gather(x, source) |> fc: linear(2)
  minimize mean(z * z)
  metric largest = max(z)
  run:
    data      = "graph.safetensors"
    v         = 5
    e         = 4
    epochs    = 6
    optimizer = sgd(lr=0.1)
    optimize  = false
"""
EPOCHS = 6
SOURCES = {"train": [0, 4, 2, 2], "test": [1, 3, 3, 0]}


def graphs() -> dict[str, Array]:
    """Returns data for training and evaluation."""
    generator = np.random.default_rng(0)
    held: dict[str, Array] = {}
    for split, source in SOURCES.items():
        held[f"{split}.x"] = generator.normal(size=(5, 3)).astype(np.float32)
        held[f"{split}.source"] = np.array(source, np.int32)
    return held


def by_hand(held: dict[str, Array], kept: dict[str, Array]) -> tuple[list[float], list[float]]:
    """The losses of the epochs and of what is held out, by gradient descent in NumPy."""
    x, other = (
        np.asarray(held[f"{each}.x"], np.float64)[SOURCES[each]] for each in ("train", "test")
    )
    weight, bias = (np.asarray(kept[name], np.float64) for name in ("fc.weight", "fc.bias"))
    losses: list[float] = []
    measured: list[float] = []
    for _ in range(EPOCHS):
        z = x @ weight.T + bias
        losses.append((z**2).mean())
        weight, bias = weight - 0.2 / z.size * z.T @ x, bias - 0.2 / z.size * z.sum(0)
        measured.append(((other @ weight.T + bias) ** 2).mean())
    return losses, measured


def test_an_epoch_is_one_step(workspace: Workspace) -> None:
    """With other data held out, and however often the run is left and gone on with."""
    workspace.write(PROGRAM)
    held = graphs()
    save_file(held, workspace.folder / "graph.safetensors")
    job = workspace.job()
    assert (job.steps_per_epoch, job.steps, job.left_out) == (1, EPOCHS, 0)
    whole = workspace.start("whole")
    losses, measured = by_hand(held, dict(job.spec.initial_values()))
    ended = [event.loss for event in workspace.events if isinstance(event, EpochEnded)]
    evaluated = [event.loss for event in workspace.events if isinstance(event, Evaluated)]
    assert ended == pytest.approx(losses, rel=1e-4)
    assert evaluated == pytest.approx(measured, rel=1e-4)
    parts = workspace.start("parts", steps=2)
    workspace.resume("parts", steps=2)
    workspace.resume("parts")
    for name in ("weights", "best", "checkpoint"):
        assert contents(getattr(parts, name)) == contents(getattr(whole, name))
