"""Statistics of the values that a program shows: in the records of a run, on each device."""

import json
from pathlib import Path

import numpy as np
import pytest

import meganeura
from meganeura_dsl.ir.outputs import Statistic
from meganeura_dsl.transforms.step_part import StepPart
from tests.effort import effort

TEXT = """\
block Net()(x: [n, 3]) -> [n, 2]:
  h = relu(x |> fc: linear(4)) |> show("after relu")
  return h |> head: linear(2)

model net = Net()
train fit(x: [batch, 3], y: [batch, 2]):
  minimize mse(x |> net, y)
  run:
    data      = "data.npz"
    batch     = 4
    epochs    = 1
    log_every = 2
    optimizer = sgd(lr=0.1)
"""
KINDS = ("mean", "deviation", "from", "to", "not finite")
DEVICES = ["cpu", "xla:cpu", pytest.param("wgpu", marks=pytest.mark.adapter)]


def records(folder: Path, device: str, **settings: object) -> list[dict[str, float]]:
    """The logged steps of a run."""
    (folder / "net.mgn").write_text(TEXT)
    x = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)
    np.savez(folder / "data.npz", x=x, y=x[:, :2])
    program = meganeura.load(folder / "net.mgn")
    run = program.train(device=device, settings=settings, out=folder / "run")
    lines = (run.folder / "metrics.jsonl").read_text().splitlines()
    return [each for each in map(json.loads, lines) if each["kind"] == "step"]


@pytest.mark.parametrize("device", effort(DEVICES[::2], DEVICES))
def test_a_logged_step_has_statistics_of_what_is_shown(tmp_path: Path, device: str) -> None:
    first, *others = records(tmp_path, device, batch=12, shuffle=False, epochs=4)
    assert [each["step"] for each in others] == [2, 4]
    start = meganeura.load(tmp_path / "net.mgn").model(seed=0)
    x = np.load(tmp_path / "data.npz")["x"]
    h = start.run({"x": x}, values=["h"], device="cpu")["h"]
    wanted = (h.mean(), h.std(), h.min(), h.max(), 0)
    found = [first[f"value after relu: {kind}"] for kind in KINDS]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)
    assert others[1]["value after relu: mean"] != first["value after relu: mean"]


@pytest.mark.parametrize(("log_every", "count"), [(0, 0), (2, len(KINDS))])
def test_a_run_that_logs_nothing_computes_nothing_of_it(
    tmp_path: Path, log_every: int, count: int
) -> None:
    assert bool(records(tmp_path, "cpu", log_every=log_every)) == bool(count)
    program = meganeura.load(tmp_path / "net.mgn")
    with program.trainer(device="cpu", settings={"log_every": log_every}) as trainer:
        step = trainer.trained.spec.graphs.sized({}, StepPart.WHOLE).optimized
    assert sum(isinstance(name, Statistic) for name in step.outputs) == count


def test_parts_of_an_update_have_them_too(tmp_path: Path) -> None:
    first, *_ = records(tmp_path, "cpu", accumulate=3, epochs=3, not_finite="skip")
    assert first["value after relu: to"] > 0
