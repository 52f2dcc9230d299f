"""Growth of a training step with the batch, the width, the depth and the length of a sequence.

    python benchmarks/growth.py [--device wgpu] [--small] [--ours-only]
                                [--json FILE] [--figure FILE.svg]

Prints a row for each size: the time of a step, the memory of its plan, its dispatches, and the time
of PyTorch, on its GPU if it sees one. Steps follow each other, and a time
is the median of the rounds. The figure has a panel for each size that grows; what grows in
proportion is a line of slope one there.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import groupby, pairwise
from math import log10
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from meganeura_dsl.ir.graph import Array, Graph, Leaf
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.pipeline import Elaboration, elaborate_train, load
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, optimized_training_step
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.registry import model_of
from meganeura_runtime.backends.webgpu.device.device import Device, open_device
from meganeura_runtime.backends.webgpu.plan import Role
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.io.weights import initial_values

HEADS = 4
PICTURES = """block Layer(width)(x: [n, width, h, w]) -> [n, width, h, w]:
  return x + (x |> conv: conv2d(width, 3, pad=1, bias=false) |> bn: batch_norm |> relu)

block Net(width, depth)(x: [n, 3, h, w]) -> [n, 10]:
  x = x |> stem: conv2d(width, 3, pad=1)
  for i in 0..depth:
    x = x |> layers[i]: Layer(width)
  return x |> mean(2, 3) |> head: linear(10)

model net = Net(width={width}, depth={depth})

train fit(x: [batch, 3, 16, 16], label: i32[batch]):
  minimize cross_entropy(x |> net, label)
"""
SEQUENCES = """from whisper import EncoderLayer

block Net(width, depth)(x: [n, s, width]) -> [n, s, width]
    where width % 4 == 0:
  for i in 0..depth:
    x = x |> layers[i]: EncoderLayer(4, 4 * width)
  return x

model net = Net(width={width}, depth={depth})

train fit(x: [batch, {length}, {width}], y: [batch, {length}, {width}]):
  minimize mse(x |> net, y)
"""


@dataclass(frozen=True)
class Size:
    """A network and its batch; `length` is zero for pictures."""

    batch: int = 8
    width: int = 16
    depth: int = 4
    length: int = 0

    @property
    def program(self) -> str:
        """The network and its training."""
        text = SEQUENCES if self.length else PICTURES
        for name, value in asdict(self).items():
            text = text.replace(f"{{{name}}}", str(value))
        return text

    def elaborated(self) -> Elaboration:
        """The training as a graph."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "growth.mgn"
            path.write_text(self.program)
            return elaborate_train(load(str(path)), sizes={"batch": self.batch}, training=True)


@dataclass(frozen=True)
class Row:
    """The cost of a step of one size."""

    what: str
    value: int
    milliseconds: float
    mebibytes: float | None = None
    dispatches: int | None = None
    torch_milliseconds: float | None = None


def sizes(*, small: bool) -> Iterator[tuple[str, Size]]:
    """Yields the sizes, each from a common start."""
    pictures = Size() if small else Size(batch=16, width=32, depth=8)
    sequences = Size(2, 32, 2, 32) if small else Size(4, 128, 4, 256)
    factors = (1, 2) if small else (1, 2, 4, 8)
    for what, start in (
        ("batch", pictures),
        ("width", pictures),
        ("depth", pictures),
        ("length", sequences),
    ):
        for factor in factors:
            yield what, replace(start, **{what: getattr(start, what) * factor})


def inputs(graph: Graph) -> Mapping[str, Array]:
    """A random batch."""
    generator = np.random.default_rng(0)
    return {
        value.op.name: generator.standard_normal(concrete_shape(value.type.shape), np.float32)
        if value.type.dtype.is_float
        else generator.integers(0, 10, concrete_shape(value.type.shape)).astype(np.int32)
        for value in graph.values
        if isinstance(value.op, Input)
    }


@dataclass(frozen=True)
class Effort:
    """The length of measurements."""

    rounds: int = 7
    seconds: float = 0.2


def median_ms(step: Callable[[], object], effort: Effort) -> float:
    """The time of a step that waits for what it computed."""
    step()
    times: list[float] = []
    for _ in range(effort.rounds):
        start, count = perf_counter(), 0
        while count == 0 or perf_counter() - start < effort.seconds:
            step()
            count += 1
        times.append(1e3 * (perf_counter() - start) / count)
    return statistics.median(times)


@contextmanager
def our_session(
    found: Elaboration, device: Device | None, rewriting: RewriteOptions
) -> Iterator[ReferenceSession | WebGpuSession]:
    """A session with initial weights."""
    settings = TrainingSettings(Sgd(lr=1e-3))
    graph = optimized_training_step(found.graph, settings, rewriting).graph
    made: AbstractContextManager[ReferenceSession | WebGpuSession] = (
        ReferenceSession(graph)
        if device is None
        else WebGpuSession(plan_graph(graph, device.limits, device.style), device)
    )
    weights = initial_values(found.parameters, 0)
    zeros = {
        value.op.name: np.zeros(concrete_shape(value.type.shape), np.float32)
        for value in graph.values
        if isinstance(value.op, Leaf) and value.op.is_persistent
    }
    with made as session:
        session.load({name: weights.get(name, zero) for name, zero in zeros.items()})
        yield session


def ours(
    what: str, size: Size, device: Device | None, rewriting: RewriteOptions, effort: Effort
) -> Row:
    """One size."""
    found = size.elaborated()
    fed = inputs(found.graph)
    with our_session(found, device, rewriting) as session, session.upload(fed) as uploaded:
        # Reading the loss is waiting for the step.
        time = median_ms(lambda: next(iter(session.step(uploaded).values())), effort)
        row = Row(what, getattr(size, what), time)
        if not isinstance(session, WebGpuSession):
            return row
        memory = sum(map(session.plan.bytes_for, Role)) / 2**20
        return replace(row, mebibytes=memory, dispatches=len(session.plan.dispatches))


def their_step(size: Size, fed: Mapping[str, Array]) -> Callable[[], object]:
    """The same network in PyTorch, with its own weights; reads the loss too."""
    import torch  # noqa: PLC0415  may be missing
    from torch import nn  # noqa: PLC0415

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            conv = nn.Conv2d(size.width, size.width, 3, 1, 1, bias=False)
            self.body = nn.Sequential(conv, nn.BatchNorm2d(size.width), nn.ReLU())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.body(x)

    if size.length:
        model = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(
                size.width,
                HEADS,
                4 * size.width,
                0.0,
                "gelu",
                batch_first=True,
                norm_first=True,
            ),
            size.depth,
            enable_nested_tensor=False,
        )
    else:
        layers = [Layer() for _ in range(size.depth)]
        pool = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(size.width, 10))
        model = nn.Sequential(nn.Conv2d(3, size.width, 3, 1, 1), *layers, *pool)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, target = (torch.tensor(array, device=device) for array in fed.values())
    loss_of = nn.functional.mse_loss if size.length else nn.functional.cross_entropy

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(x), target if size.length else target.long())
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


PANEL, HEIGHT, MARGIN = 220, 200, 40
TEXT = 'font-family="sans-serif" font-size="11" fill="#222222"'
SERIES = (
    ("milliseconds", "#2a6fbb"),
    ("torch_milliseconds", "#d1495b"),
    ("mebibytes", "#3a9d5d"),
    ("dispatches", "#8a6fb0"),
)


def figure(rows: Sequence[Row]) -> str:
    """A panel for each size that grows, both scales logarithmic."""
    panels = [(what, list(some)) for what, some in groupby(rows, lambda row: row.what)]
    values = [value for row in rows for name, _ in SERIES if (value := getattr(row, name))]
    low, high = int(log10(min(values)) // 1), -int(-log10(max(values)) // 1)
    marks = [
        mark
        for place, (what, some) in enumerate(panels)
        for mark in _panel(what, some, place * PANEL, (low, high))
    ]
    for place, (name, colour) in enumerate(SERIES):
        at = f'x="{MARGIN + 150 * place}" y="{HEIGHT + 12}"'
        label = name.replace("torch_milliseconds", "milliseconds, PyTorch")
        marks.append(f"<text {at} {TEXT.replace('#222222', colour)}>{label}</text>")
    size = f'width="{PANEL * len(panels)}" height="{HEIGHT + 20}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} fill="none">'
    return "\n".join([opening, f'<rect {size} fill="white"/>', *marks, "</svg>", ""])


def _panel(what: str, rows: Sequence[Row], left: float, powers: tuple[int, int]) -> Iterator[str]:
    low, high = powers
    start, stop = log10(rows[0].value), log10(rows[-1].value)

    def at(row: Row, value: float) -> tuple[float, float]:
        across = (log10(row.value) - start) / (stop - start) * (PANEL - MARGIN - 12)
        down = (high - log10(value)) / (high - low) * (HEIGHT - 2 * MARGIN)
        return left + MARGIN + across, MARGIN + down

    yield f'<text x="{left + MARGIN}" y="20" {TEXT}>{what}</text>'
    for power in range(low, high + 1):
        _, y = at(rows[0], 10.0**power)
        yield f'<path d="M{left + MARGIN} {y:.1f}h{PANEL - MARGIN - 12}" stroke="#dddddd"/>'
        label = f'x="{left + MARGIN - 4}" y="{y + 4:.1f}" text-anchor="end" {TEXT}'
        yield f"<text {label}>{10.0**power:g}</text>"
    for row in rows:
        x, _ = at(row, 1.0)
        middle = f'x="{x:.1f}" y="{HEIGHT - MARGIN + 16}" text-anchor="middle" {TEXT}'
        yield f"<text {middle}>{row.value}</text>"
    for name, colour in SERIES:
        points = [at(row, value) for row in rows if (value := getattr(row, name))]
        for (x, y), (u, v) in pairwise(points):
            yield f'<path d="M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}" stroke="{colour}"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{colour}"/>' for x, y in points)


def main() -> None:
    """Print the table, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="wgpu", help="an adapter, or cpu")
    parser.add_argument("--small", action="store_true", help="two small sizes of each, quickly")
    parser.add_argument("--json", type=Path, help="also write the table here")
    parser.add_argument("--figure", type=Path, help="draw it here")
    parser.add_argument("--ours-only", action="store_true", help="do without PyTorch")
    options = parser.parse_args()
    effort = Effort(rounds=1, seconds=0.0) if options.small else Effort()
    rewriting = RewriteOptions(device=model_of(options.device))
    device = None if options.device == "cpu" else open_device(options.device)
    print(device or "cpu")
    print("| | milliseconds | MiB | dispatches | PyTorch, milliseconds |\n|---|---|---|---|---|")
    rows: list[Row] = []
    for what, size in sizes(small=options.small):
        row = ours(what, size, device, rewriting, effort)
        if not options.ours_only:
            theirs = median_ms(their_step(size, inputs(size.elaborated().graph)), effort)
            row = replace(row, torch_milliseconds=theirs)
        rows.append(row)
        cells = (row.milliseconds, row.mebibytes, row.dispatches, row.torch_milliseconds)
        shown = " | ".join("-" if cell is None else f"{cell:.3g}" for cell in cells)
        print(f"| {what} {row.value} | {shown} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    if options.figure:
        options.figure.write_text(figure(rows))


if __name__ == "__main__":
    main()
