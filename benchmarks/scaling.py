"""Scaling of training steps over the devices of one machine.

    python -m benchmarks.scaling [--device xla:gpu] [--counts 1,2,4]
        [--models gpt2,resnet50,ghost_resnet50,vit] [--precision bf16] [--shardings data,fsdp]
        [--scalings weak,strong] [--batch N] [--steps 20] [--together] [--small] [--json FILE]

Writes a line of JSON for each cell, and a table; `benchmarks.scaling_figure` draws it. Weak
scaling gives every device as many examples as one had alone, strong scaling divides those of one.
Efficiency is the throughput over that of as many single devices. A step is forward, backward and
AdamW; its inputs lie on the devices already, so that nothing but the step is timed: the median of
several rounds of `--steps` steps. Memory is what XLA has laid out for a device. What a step
communicates is read from its HLO: the number of collectives, and the bytes that each device sends
by the ring algorithms of NCCL. `ghost_resnet50` has a group of examples for each device.
`--together` compiles all steps at once, and then measures one after the other.

`--small` runs models that simulated devices can compute: JAX_NUM_CPU_DEVICES=8 and
`--device xla:cpu --counts 1,2,4,8 --small --precision f32`.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter

from benchmarks.collectives import collectives
from meganeura_dsl import pipeline
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_runtime.backends.backend import OpenDevice, Spread
from meganeura_runtime.backends.base import Session
from meganeura_runtime.backends.registry import choose_device, model_of
from meganeura_runtime.backends.timing.example_inputs import example_of
from meganeura_runtime.backends.xla.session import XlaSession
from meganeura_runtime.train.spec.step_graphs import step_of
from meganeura_runtime.train.spec.train_spec import settings_of

ROUNDS = 5
WARM_UP = 3


@dataclass(frozen=True)
class Workload:
    """A model to train: its input, the call that gives logits, and examples for one device.

    The number of devices stands for `{devices}` in the arguments.
    """

    module: str
    model: str
    arguments: str
    shape: tuple[int, ...]
    batch: int

    def program(self, batch: int, devices: int) -> str:
        """A program that trains it on so many examples."""
        arguments = self.arguments.format(devices=devices)
        sizes = ", ".join(map(str, self.shape))
        if self.module == "gpt2":
            (length,) = self.shape
            inputs = f"ids: i32[batch, {length + 1}]"
            logits, target = f"ids[:, :{length}]", "ids[:, 1:]"
        else:
            inputs = f"image: [batch, {sizes}], label: i32[batch]"
            logits, target = "image", "label"
        return (
            f"from {self.module} import {self.model}\n\n"
            f"train fit({inputs})\n    where batch >= 2, batch % {devices} == 0:\n"
            f"  logits = {logits} |> {self.model}{arguments}\n"
            f"  minimize cross_entropy(logits, {target})\n"
            f'  run:\n    data = "none"\n    batch = {batch}\n    optimizer = adamw(lr=1e-4)\n'
        )


MODELS = {
    "gpt2": Workload("gpt2", "gpt2", "", (1024,), 16),
    "resnet18": Workload("resnet", "resnet18", "", (3, 224, 224), 128),
    "resnet50": Workload("resnet", "resnet50", "", (3, 224, 224), 128),
    "ghost_resnet50": Workload(
        "ghost_resnet", "ghost_resnet50", "(groups={devices})", (3, 224, 224), 128
    ),
    "vit": Workload("vit", "vit_small_patch16_224", "", (3, 224, 224), 128),
}
SMALL = {
    "gpt2": Workload("gpt2", "gpt2_tiny", "", (64,), 4),
    "resnet18": Workload("resnet", "resnet18", "(width=8, classes=10)", (3, 32, 32), 8),
    "resnet50": Workload("resnet", "resnet50", "(width=8, classes=10)", (3, 32, 32), 8),
    "ghost_resnet50": Workload(
        "ghost_resnet", "ghost_resnet50", "(groups={devices}, width=8, classes=10)", (3, 32, 32), 8
    ),
    "vit": Workload(
        "vit",
        "vit_tiny_patch16_224",
        "(d=64, layers=2, heads=4, image=32, patch=8, classes=10)",
        (3, 32, 32),
        8,
    ),
}


@dataclass(frozen=True)
class Cell:
    """One measurement."""

    model: str
    scaling: str
    sharding: str
    devices: int
    batch: int
    ms: float
    """Milliseconds of a step."""
    examples_per_second: float
    efficiency: float
    """Of the throughput of as many single devices."""
    gib: float
    """The memory that a device holds, in GiB."""
    collectives: int
    """The number of collectives in a step."""
    sent_mb: float
    """Megabytes that each device sends in a step."""
    precision: str
    device: str


@dataclass(frozen=True)
class Step:
    """A step of a model, and where it is to run."""

    model: str
    scaling: str
    sharding: str
    devices: int
    batch: int
    graph: Graph
    device: OpenDevice


def main() -> None:
    """Measure every cell."""
    arguments = _parsed()
    device = choose_device(arguments.device).at(ComputePrecision(arguments.precision))
    steps = [*_steps(device, arguments)]
    cells: list[Cell] = []
    alone: Cell | None = None
    for step, session in zip(steps, _sessions(steps, arguments), strict=True):
        cell = _measured(step, session, arguments)
        if alone is None or alone.model != cell.model:
            alone = cell
        ideal = alone.examples_per_second * cell.devices
        cells.append(replace(cell, efficiency=round(cell.examples_per_second / ideal, 3)))
        print(json.dumps(asdict(cells[-1])), flush=True)
    if arguments.json:
        arguments.json.write_text("".join(f"{json.dumps(asdict(cell))}\n" for cell in cells))
    print()
    print(_table(cells))


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How training steps scale over devices.")
    parser.add_argument("--device", default="xla:gpu")
    parser.add_argument("--counts", default="1,2")
    parser.add_argument("--models", default="gpt2,resnet50,ghost_resnet50,vit")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--shardings", default="data,fsdp")
    parser.add_argument("--scalings", default="weak,strong")
    parser.add_argument("--batch", type=int, default=0, help="examples of one device alone")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", type=Path, help="write the cells here, a line each")
    return parser.parse_args()


def _steps(device: OpenDevice, arguments: argparse.Namespace) -> Iterator[Step]:
    """Of each model one device, then each number of them under each scaling and sharding."""
    counts = [count for each in arguments.counts.split(",") if (count := int(each)) > 1]
    places = [
        (scaling, sharding, count)
        for scaling in arguments.scalings.split(",")
        for sharding in arguments.shardings.split(",")
        for count in counts
    ]
    workloads = SMALL if arguments.small else MODELS
    for name in arguments.models.split(","):
        workload = workloads[name]
        workload = replace(workload, batch=arguments.batch or workload.batch)
        for place in (("weak", "data", 1), *places):
            yield _step(name, workload, device, place, arguments.device)


def _step(
    name: str, workload: Workload, device: OpenDevice, place: tuple[str, str, int], named: str
) -> Step:
    scaling, sharding, devices = place
    batch = workload.batch * (devices if scaling == "weak" else 1)
    if devices > 1:
        rows = {"image": 1, "label": 1, "ids": 1}
        device = device.spread(Spread(devices, DeviceSharding(sharding), rows))
    graph = step_graph(workload, batch, named, devices)
    return Step(name, scaling, sharding, devices, batch, graph, device)


def _sessions(steps: Sequence[Step], arguments: argparse.Namespace) -> Iterable[Session]:
    """A session of each step, opened in its turn, or all of them compiled before the first."""
    sessions = (each.device.open(each.graph) for each in steps)
    if not arguments.together:
        return sessions
    opened = [*sessions]
    for each in opened:
        each.ready()
    return opened


def _measured(step: Step, session: Session, arguments: argparse.Namespace) -> Cell:
    ms, held, hlo = _milliseconds(step.graph, session, arguments.steps)
    devices, batch = step.devices, step.batch
    sent = collectives(hlo, devices)
    return Cell(
        model=step.model,
        scaling=step.scaling,
        sharding=step.sharding,
        devices=devices,
        batch=batch,
        ms=round(ms, 3),
        examples_per_second=round(1000 * batch / ms, 1),
        efficiency=1.0,
        gib=round(held / (1 << 30), 3),
        collectives=sum(each.count for each in sent.values()),
        sent_mb=round(sum(each.traffic(kind, devices) for kind, each in sent.items()) / 1e6, 1),
        precision=arguments.precision,
        device=step.device.short_name,
    )


def step_graph(workload: Workload, batch: int, device: str, devices: int = 1) -> Graph:
    """The optimized graph of a training step."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fit.mgn"
        path.write_text(workload.program(batch, devices))
        program = pipeline.load(str(path))
        settings = settings_of(program, "fit")
        return step_of(program, "fit", settings, model_of(device)).optimized.graph


def _milliseconds(graph: Graph, session: Session, steps: int) -> tuple[float, int, str]:
    """The time of a step, what a device holds, and the HLO: of one compilation."""
    example = example_of(graph)
    with session, session.upload(example.feeds) as inputs:
        assert isinstance(session, XlaSession)
        session.load(example.persistent)
        for _ in range(WARM_UP):
            session.step(inputs)
        session.wait()
        rounds: list[float] = []
        for _ in range(ROUNDS):
            start = perf_counter()
            for _ in range(steps):
                session.step(inputs)
            session.wait()
            rounds.append((perf_counter() - start) / steps)
        held = sum((session.memory() or {}).values())
        hlo = session.compiled.as_text()
    return 1000 * statistics.median(rounds), held, hlo


def _table(cells: Sequence[Cell]) -> str:
    head = (
        *("model", "scaling", "sharding", "devices", "batch", "ms", "examples/s", "eff.", "GiB"),
        *("collectives", "MB sent"),
    )
    rows = [head] + [
        (
            each.model,
            each.scaling,
            each.sharding,
            str(each.devices),
            str(each.batch),
            f"{each.ms:.2f}",
            f"{each.examples_per_second:,.0f}",
            f"{each.efficiency:.2f}",
            f"{each.gib:.2f}",
            str(each.collectives),
            f"{each.sent_mb:,.0f}",
        )
        for each in cells
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(entry.rjust(width) for entry, width in zip(row, widths, strict=True))
        for row in rows
    )


if __name__ == "__main__":
    main()
