"""The speed of a machine without a GPU: software Vulkan and the CPU, beside PyTorch and NumPy.

    python benchmarks/software.py [--rounds N] [--one-thread]

Prints three bars. Both sides of a bar are measured in turns, each in its own process, so that
whatever else the machine does meets both; a number is the median of the rounds. The side that does
not run waits long enough for the threads of its libraries to stop waiting busily.
"""

import argparse
import multiprocessing
import os
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, sleep

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Leaf
from meganeura_dsl.ir.ops import MatMul, Parameter
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.pipeline import Elaboration, elaborate_train, load
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, optimized_training_step
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.registry import model_of
from meganeura_runtime.backends.webgpu.device.device import open_device
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.io.weights import initial_values

SIZE = 512
PAUSE_SECONDS = 0.4
STEPS_SECONDS = 0.3
TOLERANCE = 1e-4
Step = Callable[[], object]

DIGITS = """from digits_cnn import digits_cnn

train fit(image: [batch, 1, 8, 8], label: i32[batch]):
  minimize cross_entropy(image |> digits_cnn, label)
"""
SMALL_CNN = """block Net()(x: [n, 3, h, w]) -> [n, 10]:
  x = x |> conv1: conv2d(32, 3, pad=1) |> relu |> conv2: conv2d(64, 3, 2, pad=1) |> relu
  return x |> conv3: conv2d(64, 3, pad=1) |> relu |> mean(2, 3) |> fc: linear(10)

model net = Net()

train fit(image: [batch, 3, 32, 32], label: i32[batch]):
  minimize cross_entropy(image |> net, label)
"""


@dataclass(frozen=True)
class Training:
    """A training step that both sides make."""

    program: str
    batch: int
    image: tuple[int, ...]
    settings: Sgd

    def inputs(self) -> Mapping[str, Array]:
        """A random batch."""
        generator = np.random.default_rng(0)
        return {
            "image": generator.standard_normal((self.batch, *self.image), np.float32),
            "label": generator.integers(0, 10, self.batch).astype(np.int32),
        }


TRAININGS: Mapping[str, Training] = {
    "digits_cnn": Training(
        DIGITS, 32, (1, 8, 8), Sgd(lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
    ),
    "small CNN": Training(SMALL_CNN, 16, (3, 32, 32), Sgd(lr=0.01)),
}


@dataclass(frozen=True)
class Side:
    """Functions that start a step, wait for it, and return its results."""

    step: Step
    result: Callable[[], Array]


def elaborated(one: Training) -> Elaboration:
    """The training as a graph."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "software.mgn"
        path.write_text(one.program)
        return elaborate_train(load(str(path)), "fit", sizes={"batch": one.batch}, training=True)


def our_training(training: str, device: str) -> Side:
    """A step that feeds a batch and reads the loss."""
    one = TRAININGS[training]
    found = elaborated(one)
    rules = RewriteOptions(device=model_of(device))
    graph = optimized_training_step(found.graph, TrainingSettings(one.settings), rules).graph
    if device == "cpu":
        session = ReferenceSession(graph)
    else:
        opened = open_device(device)
        session = WebGpuSession(plan_graph(graph, opened.limits, opened.style), opened)
    values = initial_values(found.parameters, 0)
    velocity = {
        leaf.name: np.zeros(concrete_shape(value.type.shape), np.float32)
        for value in graph.values
        if isinstance(leaf := value.op, Leaf) and leaf.is_persistent and leaf.name not in values
    }
    session.load({**velocity, **values})
    inputs, loss = one.inputs(), next(iter(graph.outputs))
    return Side(lambda: np.asarray(session.step(inputs)[loss]), lambda: session.outputs()[loss])


def their_training(training: str) -> Side:
    """The same in PyTorch, from the same weights."""
    import torch  # noqa: PLC0415  large, and needed in one process
    from torch import nn  # noqa: PLC0415

    class Residual(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                *conv_bn(channels, channels), nn.SiLU(), *conv_bn(channels, channels)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.silu(x + self.body(x))

    def conv_bn(inputs: int, outputs: int, stride: int = 1) -> tuple[nn.Module, nn.Module]:
        conv = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        return conv, nn.BatchNorm2d(outputs)

    pool = (nn.AdaptiveAvgPool2d(1), nn.Flatten())
    digits = (*conv_bn(1, 16), nn.SiLU(), Residual(16), *conv_bn(16, 32, 2), nn.SiLU())
    small = (nn.Conv2d(3, 32, 3, 1, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU())
    model = {
        "digits_cnn": nn.Sequential(*digits, Residual(32), *pool, nn.Linear(32, 10)),
        "small CNN": nn.Sequential(
            *small, nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU(), *pool, nn.Linear(64, 10)
        ),
    }[training]
    divisor = 16 if training == "digits_cnn" else 1
    one = TRAININGS[training]
    settings = one.settings
    values = initial_values(elaborated(one).parameters, 0).values()
    names = model.state_dict()
    model.load_state_dict(
        {name: torch.tensor(value) for name, value in zip(names, values, strict=True)}
    )
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=settings.lr,
        momentum=settings.momentum,
        nesterov=settings.nesterov,
        weight_decay=settings.weight_decay,
    )
    image, label = (torch.tensor(array) for array in one.inputs().values())
    last = [torch.zeros(())]

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        last[0] = nn.functional.cross_entropy(model(image / divisor), label.long())
        last[0].backward()
        optimizer.step()
        return last[0].item()

    return Side(step, lambda: last[0].detach().numpy())


def factors() -> tuple[Array, Array]:
    """Two square matrices."""
    generator = np.random.default_rng(0)
    left, right = generator.standard_normal((2, SIZE, SIZE), np.float32)
    return left, right


def their_product() -> Side:
    """A product by NumPy."""
    left, right = factors()
    return Side(lambda: left @ right, lambda: left @ right)


def our_product(device: str) -> Side:
    """A product on an adapter, whose factors lie there already."""
    build = Builder()
    shape = (SIZE, SIZE)
    left, right = (build.add(Parameter(name, DType.F32, shape, "frozen")) for name in "ab")
    graph = build.graph({"product": build.add(MatMul(), left, right)})
    opened = open_device(device)
    session = WebGpuSession(plan_graph(graph, opened.limits, opened.style), opened)
    session.load(dict(zip("ab", factors(), strict=True)))
    return Side(lambda: session.step({}), lambda: session.outputs()["product"])


@dataclass(frozen=True)
class Bar:
    """A comparison: our sides, theirs, and the bound they are held to."""

    name: str
    bound: str
    ours: Mapping[str, Callable[[], Side]]
    theirs: Mapping[str, Callable[[], Side]]


BARS = (
    Bar(
        "a training step of digits_cnn, batch 32",
        "at most 3 times PyTorch's time",
        {
            "cpu": partial(our_training, "digits_cnn", "cpu"),
            "adapter": partial(our_training, "digits_cnn", "wgpu"),
        },
        {"PyTorch": partial(their_training, "digits_cnn")},
    ),
    Bar(
        f"a product of {SIZE} x {SIZE} matrices",
        "at most 4 times NumPy's time",
        {"adapter": partial(our_product, "wgpu")},
        {"NumPy": their_product},
    ),
    Bar(
        "a training step of 3-32-64(s2)-64-10, 16 x 3 x 32 x 32",
        "at most 35 ms",
        {"adapter": partial(our_training, "small CNN", "wgpu")},
        {"PyTorch": partial(their_training, "small CNN")},
    ),
)


ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "LP_NUM_THREADS": "0"}
"""Variables of PyTorch, NumPy and llvmpipe; the last runs in the thread that submits."""


def serve(connection: Connection, make: Callable[[], Side]) -> None:
    """In a process of its own: take the first step, then measure by the clock it is sent."""
    side = make()
    side.step()
    connection.send(side.result())
    while (clock := connection.recv()) is not None:
        connection.send(milliseconds(side, clock))


def milliseconds(side: Side, clock: Callable[[], float]) -> float:
    """The mean time of a step, among as many as fit."""
    start, count = clock(), 0
    while clock() - start < STEPS_SECONDS:
        side.step()
        count += 1
    side.result()
    return 1e3 * (clock() - start) / count


class Process:
    """One side, at work in its own process."""

    def __init__(self, make: Callable[[], Side]) -> None:
        self._connection, child = multiprocessing.Pipe()
        spawn = multiprocessing.get_context("spawn")
        self._process = spawn.Process(target=serve, args=(child, make), daemon=True)
        self._process.start()
        child.close()
        self.first: Array = self._connection.recv()

    def measure(self, clock: Callable[[], float]) -> float:
        """The time of a step, after others have come to rest."""
        sleep(PAUSE_SECONDS)
        self._connection.send(clock)
        return self._connection.recv()

    def close(self) -> None:
        """End it."""
        self._connection.send(None)
        self._process.join()


def measured(bar: Bar, rounds: int, clock: Callable[[], float]) -> Mapping[str, float]:
    """The median time of each side, once all are known to compute the same."""
    processes = {name: Process(make) for name, make in {**bar.ours, **bar.theirs}.items()}
    expected = next(iter(processes.values())).first
    for name, process in processes.items():
        if not np.abs(process.first - expected).max() <= TOLERANCE * np.abs(expected).max():
            raise AssertionError(f"{bar.name}: {name} computes something else")
    for process in processes.values():
        process.measure(clock)
    times = {name: [] for name in processes}
    for _ in range(rounds):
        for name, process in processes.items():
            times[name].append(process.measure(clock))
    for process in processes.values():
        process.close()
    return {name: statistics.median(some) for name, some in times.items()}


def main() -> None:
    """Print the bars."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", default="", help="bars whose name contains this")
    parser.add_argument("--one-thread", action="store_true", help="the processor's time of one")
    options = parser.parse_args()
    os.environ.update(ONE_THREAD if options.one_thread else {})
    clock = process_time if options.one_thread else perf_counter
    print("| milliseconds | bound | ours | theirs | best of ours / theirs |")
    print("|---|---|---|---|---|")
    for bar in BARS:
        if options.only in bar.name:
            times = measured(bar, options.rounds, clock)
            ours = ", ".join(f"{name} {times[name]:.3g}" for name in bar.ours)
            theirs = ", ".join(f"{name} {times[name]:.3g}" for name in bar.theirs)
            ratio = min(times[name] for name in bar.ours) / min(times[name] for name in bar.theirs)
            print(f"| {bar.name} | {bar.bound} | {ours} | {theirs} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
