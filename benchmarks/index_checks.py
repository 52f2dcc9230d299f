"""The cost of checking the indices that a step computes.

    python benchmarks/index_checks.py [--device D] [--rows N] [--ids N] [--width N] [--rounds N]

An embedding is looked up with ids that are computed, and its mean is trained: once with ids that
are proved to be in range, and once with ids that are looked at in each step. Both add the same
number to the ids. Times are those of whole steps, whose losses are not read, in turns; a number is
the median of the rounds. Dispatches are those of the step on the adapter, if there is one.
"""

import argparse
import statistics
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Graph, Value
from meganeura_dsl.ir.index_checks import checks_of, with_checks
from meganeura_dsl.ir.ops import Add, Div, Gather, Input, Maximum, Minimum, Mul, Parameter, Sum
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import LOSS, TrainingSettings, training_step
from meganeura_runtime.backends.backend import OpenDevice
from meganeura_runtime.backends.base import Session
from meganeura_runtime.backends.index_checks import with_indices_checked
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.webgpu.open_adapter import OpenAdapter
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph

STEPS = 30
WARM_STEPS = 5


@dataclass(frozen=True)
class Sizes:
    """Rows of the table, ids of a step, and the width of a row."""

    rows: int
    ids: int
    width: int


def step(sizes: Sizes, *, proved: bool) -> Graph:
    """A training step that looks `ids + 1` up; kept in range if that is to be proved."""
    build = Builder()
    table = build.add(Parameter("table", DType.F32, (sizes.rows, sizes.width), "param"))
    ids = build.add(Input("ids", DType.I32, (sizes.ids,)))
    moved = build.add(Add(), ids, full(build, ids.type, 1))
    if proved:
        moved = _within(build, moved, sizes.rows)
    found = build.add(Gather(0), table, moved)
    total = build.add(Sum((0, 1)), build.add(Mul(), found, found))
    count = full(build, TensorType(DType.F32, ()), sizes.ids * sizes.width)
    graph = with_checks(build.graph({LOSS: build.add(Div(), total, count)}))
    assert bool(checks_of(graph)) is not proved
    return training_step(graph, TrainingSettings(Sgd(1e-3)))


def _within(build: Builder, ids: Value, rows: int) -> Value:
    below = build.add(Minimum(), ids, full(build, ids.type, rows - 1))
    return build.add(Maximum(), below, full(build, ids.type, 0))


def opened(graph: Graph, session: Session, sizes: Sizes) -> Session:
    """A session that looks at its indices, as a training run has it."""
    checked = with_indices_checked(graph, session, {})
    checked.write("table", np.ones((sizes.rows, sizes.width), np.float32))
    return checked


def milliseconds(session: Session, fed: dict[str, Array]) -> float:
    """The time of a step among many, until the last of them is done."""
    for _ in range(WARM_STEPS):
        dict(session.step(fed))
    start = perf_counter()
    for _ in range(STEPS - 1):
        session.step(fed)
    dict(session.step(fed))
    return (perf_counter() - start) / STEPS * 1e3


def dispatches(graph: Graph, device: OpenDevice) -> str:
    """Returns the number of a step's dispatches on an adapter."""
    if not isinstance(device, OpenAdapter):
        return "-"
    limits, style = device.device.limits, device.device.style
    return str(len(plan_graph(graph, limits, style).dispatches))


def main() -> None:
    """Measure both steps in turns, and print the two."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--device", default="auto")
    options.add_argument("--rows", type=int, default=50_000)
    options.add_argument("--ids", type=int, default=4096)
    options.add_argument("--width", type=int, default=64)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    sizes = Sizes(given.rows, given.ids, given.width)
    chosen = choose_device(given.device)
    print(f"{chosen.description}: {sizes}")
    generator = np.random.default_rng(0)
    fed: dict[str, Array] = {
        "ids": generator.integers(0, sizes.rows - 1, sizes.ids).astype(np.int32)
    }
    graphs = {name: step(sizes, proved=name == "proved") for name in ("proved", "looked at")}
    sessions = {name: opened(graph, chosen.open(graph), sizes) for name, graph in graphs.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(given.rounds):
        for name, session in sessions.items():
            times[name].append(milliseconds(session, fed))
    for name, graph in graphs.items():
        median = statistics.median(times[name])
        print(f"{name:10} {median:9.3f} ms a step, {dispatches(graph, chosen)} dispatches")


if __name__ == "__main__":
    main()
