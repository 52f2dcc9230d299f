"""States that trade places through a name: in training steps, in checkpoints, on every device."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from meganeura_dsl.ir.graph import Graph
from meganeura_runtime.backends.base import OpenSession, Session
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.train.events import Logged
from tests.runtime.runs import STEPS, Workspace

ROTATING = """\
block Rotate()(x: [n, 6]) -> [n, 6], [6]:
  param w: [6] = ones
  state a: [6] = 1.0
  state b: [6] = 5.0
  state c: [6] = 7.0
  first = a
  if training:
    update a = b
    update b = c
    update c = first
  return x * w - first, first

train fit(x: [batch, 6]):
  y, first = x |> m: Rotate()
  minimize mean(y * y)
  metric seen = mean(first)
  metric gone_by = mean(y - x)
  run:
    data      = "points.safetensors"
    batch     = 4
    epochs    = 4
    optimizer = sgd(lr=1e-9)
    log_every = 1
"""


def assert_rotated(workspace: Workspace, open_session: OpenSession, optimize: str) -> None:
    workspace.write(ROTATING)
    rotated = np.roll([1.0, 5.0, 7.0], -7)
    folder = workspace.start("run", optimize, steps=7, open_session=open_session)
    assert states(folder.checkpoint) == list(rotated)
    folder = workspace.resume("run", steps=None, open_session=open_session)
    assert states(folder.weights) == list(np.roll(rotated, 7 - STEPS))
    logged = [event for event in workspace.events if isinstance(event, Logged)]
    assert [each.step for each in logged] == list(range(1, STEPS + 1))
    for each in logged:
        before = (1.0, 5.0, 7.0)[(each.step - 1) % 3]
        assert each.metrics["seen"] == before
        assert each.metrics["gone_by"] == pytest.approx(-before, rel=1e-5)


def states(path: Path) -> list[float]:
    tensors = load_file(path)
    return [float(tensors[f"m.{name}"].min()) for name in "abc"]


@pytest.mark.parametrize("optimize", ["optimize=true", "optimize=false"])
def test_states_rotate(workspace: Workspace, optimize: str) -> None:
    assert_rotated(workspace, ReferenceSession, optimize)


@pytest.mark.adapter
@pytest.mark.parametrize("optimize", ["optimize=true", "optimize=false"])
def test_states_rotate_on_an_adapter(workspace: Workspace, device: Device, optimize: str) -> None:
    def on_adapter(graph: Graph) -> Session:
        return WebGpuSession(plan_graph(graph, device.limits, device.style), device)

    assert_rotated(workspace, on_adapter, optimize)
