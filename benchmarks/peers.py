"""Steps of whole models beside PyTorch on the same GPU, in the same arithmetic, in one run.

    python benchmarks/peers.py [--json FILE] [--only NAME] [--modes MODE ...]
                               [--prepare FILE | --prepared FILE]

Every model runs with the same weights and inputs on both sides; outputs are compared first. A time
is the median of `RUNS` rounds of steps, after the adapter has been kept busy for a while. Ours
includes the upload of the inputs in every step; PyTorch's inputs stay on the GPU. Both compute in
single precision throughout; the modes of PyTorch named TF32 are what it can do without that.

Where the optimizer is not installed, optimize elsewhere first: `--prepare` writes the optimized
graphs to a file and does nothing else, and `--prepared` reads them.
"""

import argparse
import json
import pickle
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from meganeura_dsl.graph.core import Array, Graph, Leaf
from meganeura_dsl.ops import Input
from meganeura_dsl.optimize.rewriting import Rewriting
from meganeura_dsl.pipeline import elaborate_model, elaborate_train, load
from meganeura_dsl.training import Sgd, TrainingSettings, optimized_training_step
from meganeura_runtime.device import Device, open_device
from meganeura_runtime.plan.plan import Role
from meganeura_runtime.plan.schedule import plan_graph
from meganeura_runtime.session import GpuSession
from meganeura_runtime.session.inference import Derivation
from meganeura_runtime.weights import initial_values

RUNS = 20
WARM_SECONDS = 0.2
ROUND_SECONDS = 0.05
LEAST_STEPS = 5
"""Steps of a round: so many that the host can prepare the next one while one runs."""
MODES = ("eager", "compiled", "TF32 eager", "TF32 compiled")
SETTINGS = TrainingSettings(Sgd(lr=0.001, momentum=0.9))

Values = Mapping[str, Array]
Step = Callable[[], object]


@dataclass(frozen=True)
class Model:
    """A model of the standard library, and a program that trains it."""

    name: str
    file: str
    sizes: Mapping[str, int]
    batches: tuple[int, int]
    program: str

    def training_program(self, folder: Path) -> Path:
        """The file that declares the training."""
        path = folder / f"{self.name}_benchmark.mgn"
        path.write_text(f"from {self.file} import {self.name}\n\ntrain fit{self.program}")
        return path


IMAGES = """(x: [batch, 3, 224, 224], label: i32[batch]):
  logits = x |> {}
  minimize cross_entropy(logits, label)
"""
SOUNDS = """(x: [batch, 80, 3000], y: [batch, 1500, 384]):
  z = x |> {}
  minimize mean((z - y) ** 2)
"""
PICTURE = {"h": 224, "w": 224}
MODELS = (
    Model("resnet18", "resnet", PICTURE, (1, 32), IMAGES.format("resnet18")),
    Model("repvgg_a0", "repvgg", PICTURE, (1, 32), IMAGES.format("repvgg_a0")),
    Model("whisper_tiny", "whisper", {"t": 3000}, (1, 8), SOUNDS.format("whisper_tiny")),
)


@dataclass(frozen=True)
class Case:
    """One way to run a model: the optimized graph, what it starts from, and what it is fed."""

    model: Model
    batch: int
    trains: bool
    graph: Graph
    values: Values
    """Of the parameters the program declares."""
    derived: Graph
    """How the parameters that the optimizer added follow from them."""

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.model.name}, {self.batch}, {'train' if self.trains else 'infer'}"

    def inputs(self) -> Values:
        """Random inputs, the same in every run."""
        generator = np.random.default_rng(0)
        found: dict[str, Array] = {}
        for value in self.graph.values:
            if isinstance(value.op, Input):
                shape = tuple(int(str(size)) for size in value.type.shape)
                if value.type.dtype.is_float:
                    found[value.op.name] = generator.standard_normal(shape, np.float32)
                else:
                    found[value.op.name] = generator.integers(0, 1000, shape).astype(np.int32)
        return found

    def kept(self) -> Values:
        """What the session is loaded with."""
        everything = {**self.values, **Derivation(self.derived)(self.values)}
        return {
            value.op.name: everything.get(value.op.name, _zeros(value.type.shape))
            for value in self.graph.values
            if isinstance(value.op, Leaf) and value.op.is_kept
        }


def _zeros(shape: tuple[object, ...]) -> Array:
    return np.zeros(tuple(int(str(size)) for size in shape), np.float32)


def cases(folder: Path, prepared: Mapping[str, tuple[Graph, Graph]] | None) -> Iterator[Case]:
    """All models at all batch sizes, in inference and in training."""
    for model in MODELS:
        for trains in (False, True):
            for batch in model.batches:
                yield _case(model, batch, folder, prepared, trains=trains)


def _case(
    model: Model,
    batch: int,
    folder: Path,
    prepared: Mapping[str, tuple[Graph, Graph]] | None,
    *,
    trains: bool,
) -> Case:
    if trains:
        program = load(str(model.training_program(folder)))
        found = elaborate_train(program, "fit", sizes={"batch": batch}, training=True)
    else:
        program = load(model.file)
        found = elaborate_model(program, model.name, sizes={"n": batch, **model.sizes})
    values = initial_values(found.parameters, 0)
    key = f"{model.name}, {batch}, {trains}"
    if prepared is not None:
        graph, derived = prepared[key]
    elif trains:
        nothing = Graph((), {}, {})
        graph, derived = optimized_training_step(found.graph, SETTINGS, Rewriting()).graph, nothing
    else:
        optimized = Rewriting().optimize(found.graph, "infer")
        graph, derived = optimized.graph, optimized.load
    return Case(model, batch, trains, graph, values, derived)


def median_ms(step: Step, wait: Callable[[], object]) -> float:
    """The time of a step while many follow each other."""
    start = perf_counter()
    count = 0
    while perf_counter() - start < WARM_SECONDS:
        step()
        wait()
        count += 1
    each = max(LEAST_STEPS, int(count * ROUND_SECONDS / WARM_SECONDS))
    times: list[float] = []
    for _ in range(RUNS):
        start = perf_counter()
        for _ in range(each):
            step()
        wait()
        times.append((perf_counter() - start) / each)
    return 1e3 * statistics.median(times)


def ours(case: Case, device: Device, expected: Array) -> Mapping[str, float]:
    """Our times, the memory taken, and how far the first output is from the expected one."""
    plan = plan_graph(case.graph, device.limits, device.style)
    inputs = case.inputs()
    with GpuSession(plan, device) as session:
        session.load(case.kept())
        first = next(iter(session.step(inputs).values()))
        error = float(np.abs(first - expected).max() / np.abs(expected).max())
        step = median_ms(
            lambda: session.step(inputs), lambda: next(iter(session.outputs().values()))
        )
        kernels = statistics.median(sum(session.profile(before=5)) for _ in range(5))
    return {
        "ours": step,
        "kernels alone": 1e3 * kernels,
        "dispatches": len(plan.dispatches),
        "MiB": sum(plan.bytes_for(role) for role in Role) / (1 << 20),
        "error": error,
    }


def rows(options: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Each case measured on both sides."""
    from torch_models import Peer  # noqa: PLC0415  needed here alone, and slow to load

    prepared = None
    if options.prepared:
        prepared = pickle.loads(options.prepared.read_bytes())  # noqa: S301  our own file
    device = open_device("wgpu")
    print(device)
    for case in cases(folder, prepared):
        if options.only and options.only not in case.name:
            continue
        peer = Peer(case.model.name, case.values, case.inputs(), trains=case.trains)
        mine = ours(case, device, peer.expected())
        theirs = {mode: median_ms(*peer.mode(mode)) for mode in options.modes}
        peer.close()
        best = min(time for mode, time in theirs.items() if "TF32" not in mode)
        yield case.name, {**mine, **theirs, "ours / best": mine["ours"] / best}


def prepare(path: Path, folder: Path) -> None:
    """Write the optimized graphs of all cases."""
    found = {
        f"{case.model.name}, {case.batch}, {case.trains}": (case.graph, case.derived)
        for case in cases(folder, None)
    }
    path.write_bytes(pickle.dumps(found))


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the table here")
    parser.add_argument("--only", help="cases whose name contains this")
    parser.add_argument("--modes", nargs="+", default=["eager", "compiled"], choices=MODES)
    parser.add_argument("--prepare", type=Path, help="write optimized graphs and stop")
    parser.add_argument("--prepared", type=Path, help="read optimized graphs")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        if options.prepare:
            prepare(options.prepare, Path(folder))
            return
        table: dict[str, Mapping[str, float]] = {}
        for name, row in rows(options, Path(folder)):
            if not table:
                print(f"| model, batch | {' | '.join(row)} |\n|{'---|' * (1 + len(row))}")
            table[name] = row
            print(
                f"| {name} | {' | '.join(f'{value:.3g}' for value in row.values())} |", flush=True
            )
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
