"""Steps of a network with batch norm on one simulated device and on two, as JSON.

    JAX_NUM_CPU_DEVICES=2 python -m tests.runtime.backends.xla.spread_steps

It is a separate process because JAX decides how many devices there are when it starts.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import TypedDict

from benchmarks.collectives import collectives
from meganeura_dsl import pipeline
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_runtime.backends.backend import Spread
from meganeura_runtime.backends.registry import choose_device, model_of
from meganeura_runtime.backends.timing.example_inputs import example_of
from meganeura_runtime.backends.xla.session import XlaSession
from meganeura_runtime.train.spec.step_graphs import step_of
from meganeura_runtime.train.spec.train_spec import settings_of

DEVICE = "xla:cpu"
NORMS = ("batch_norm", "ghost_batch_norm(2)", "ghost_batch_norm(4)")
PROGRAM = """\
train fit(image: [batch, 3, 6, 6], label: i32[batch]) where batch % 4 == 0:
  x = image |> conv1: conv2d(8, 3, pad=1, bias=false) |> bn1: {norm} |> relu
            |> conv2: conv2d(8, 3, 2, pad=1, bias=false) |> bn2: {norm} |> relu
  minimize cross_entropy(x |> mean(2, 3) |> fc: linear(5), label)
  run:
    data      = "none"
    batch     = 8
    optimizer = sgd(lr=0.5)
"""
STEPS = 3


class Numbers(TypedDict):
    """The results of steps."""

    losses: list[float]
    running: dict[str, list[float]]
    """Statistics behind the last step, by name."""
    collectives: dict[str, int]
    """The number of each kind in a step."""


def main() -> None:
    """Print what each norm gives on one device and on two."""
    found = {norm: [steps(norm, devices) for devices in (1, 2)] for norm in NORMS}
    sys.stdout.write(json.dumps(found))


def steps(norm: str, devices: int) -> Numbers:
    """Those of a norm on so many devices."""
    graph = graph_of(norm)
    device = choose_device(DEVICE)
    if devices > 1:
        device = device.spread(Spread(devices, DeviceSharding.DATA, {"image": 1, "label": 1}))
    example = example_of(graph)
    with device.open(graph) as session:
        assert isinstance(session, XlaSession)
        session.load(example.persistent)
        losses = [float(session.step(example.feeds)["loss"]) for _ in range(STEPS)]
        states = {name: session.read(name) for name in graph.updates if "running" in name}
        found = collectives(session.compiled.as_text(), devices)
    return {
        "losses": losses,
        "running": {name: each.tolist() for name, each in states.items()},
        "collectives": {kind: each.count for kind, each in found.items()},
    }


def graph_of(norm: str) -> Graph:
    """The optimized graph of a training step."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fit.mgn"
        path.write_text(PROGRAM.format(norm=norm))
        program = pipeline.load(str(path))
        return step_of(
            program, "fit", settings_of(program, "fit"), model_of(DEVICE)
        ).optimized.graph


if __name__ == "__main__":
    main()
