"""The time of the compiler, which grows no faster than the program.

    python benchmarks/compile_time.py [--only MODEL] [--disable-rule NAME ...]

Prints three tables: the time to check standard models; the time to elaborate and differentiate
networks of about 1,000, 4,000 and 16,000 values; and what the optimizer and the planner make of
models and of their training steps: kernels, memory, and the least the temporaries could take. Every
time is the median of several runs. No adapter is needed. With --only, the last table has one model,
and the others are left out; rules that are disabled show what they are for.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from time import perf_counter

from meganeura_dsl.ir.cost_model import GPU
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.pipeline import check_file, elaborate_model, elaborate_train, load
from meganeura_dsl.transforms.egraph.cost.graph_cost import graph_cost
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import (
    TrainingSettings,
    optimized_training_step,
    training_step,
)
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.plan import Role
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph

RUNS = 7
CHAIN = """\
block Layer()(x: [n, 16]) -> [n, 16]:
  return x + (x |> fc: linear(16) |> silu)

block Chain(depth)(x: [n, 16]) -> [n, 16]:
  for i in 0..depth:
    x = x |> layers[i]: Layer()
  return x

model chain = Chain(depth={depth})

train fit(x: [batch, 16], y: [batch, 16]):
  minimize mse(x |> chain, y)
"""


def milliseconds(action: Callable[[], object]) -> float:
    """The median time of an action, after one run to warm up."""
    action()
    times: list[float] = []
    for _ in range(RUNS):
        start = perf_counter()
        action()
        times.append(1e3 * (perf_counter() - start))
    return statistics.median(times)


def print_checks() -> None:
    """The time to prove standard models, in this process and as a command."""
    print("| check | in process, ms | as a process, ms |\n|---|---|---|")
    for model in ("digits_cnn", "resnet18", "repvgg_b3g4", "whisper_tiny"):
        command = [sys.executable, "-m", "meganeura", "check", model]
        inside = milliseconds(lambda name=model: check_file(name))
        outside = milliseconds(
            lambda words=command: subprocess.run(words, capture_output=True, check=True)
        )
        print(f"| {model} | {inside:.0f} | {outside:.0f} |")


def print_growth() -> None:
    """The time to elaborate and differentiate deeper and deeper networks."""
    print("\n| values | elaborate, ms | differentiate and update, ms | microseconds a value |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for depth in (35, 140, 560):
            path = Path(folder) / f"chain_{depth}.mgn"
            path.write_text(CHAIN.replace("{depth}", str(depth)))
            program = load(str(path))
            forward = elaborate_train(program, sizes={"batch": 4}, training=True).graph
            settings = TrainingSettings(Sgd(lr=0.1))
            step = training_step(forward, settings)
            first = milliseconds(
                lambda p=program: elaborate_train(p, sizes={"batch": 4}, training=True)
            )
            second = milliseconds(lambda g=forward, s=settings: training_step(g, s))
            count = len(step.values)
            each = 1e3 * (first + second) / count
            print(f"| {count:,} | {first:.0f} | {second:.0f} | {each:.1f} |")


@dataclass(frozen=True)
class Subject:
    """A model, a loss for it, and sizes: of its inputs, and of a batch."""

    model: str
    file: str
    inputs: str
    loss: str
    sizes: Mapping[str, int]
    batch: int

    def step(self, folder: Path) -> Graph:
        """The loss of a batch, to be trained."""
        path = folder / f"{self.model}.mgn"
        path.write_text(
            f"from {self.file} import {self.model}\n\n"
            f"train fit({self.inputs}):\n  minimize {self.loss}\n"
        )
        return elaborate_train(load(str(path)), sizes={"batch": self.batch}, training=True).graph


PICTURES = "image: [batch, 3, 224, 224], label: i32[batch]"
SUBJECTS = (
    Subject(
        "resnet18",
        "resnet",
        PICTURES,
        "cross_entropy(image |> resnet18, label)",
        {"n": 32, "h": 224, "w": 224},
        32,
    ),
    Subject(
        "repvgg_a0",
        "repvgg",
        PICTURES,
        "cross_entropy(image |> repvgg_a0, label)",
        {"n": 32, "h": 224, "w": 224},
        32,
    ),
    Subject(
        "whisper_tiny",
        "whisper",
        "mel: [batch, 80, 3000], y: [batch, 1500, 384]",
        "mse(mel |> whisper_tiny, y)",
        {"n": 4, "t": 3000},
        4,
    ),
    Subject(
        "smollm2_135m",
        "lm",
        "ids: i32[batch, 513]",
        "cross_entropy(ids[:, :512] |> smollm2_135m, ids[:, 1:])",
        {"n": 1, "s": 512},
        1,
    ),
)
ROOMY = DeviceLimits(buffer_bytes=1 << 33, binding_bytes=1 << 32)


def print_optimizer(subjects: Sequence[Subject], rules: RewriteOptions) -> None:
    """Prints the optimizer's rewrites of models and training steps, and their time."""
    settings = TrainingSettings(Sgd(lr=0.1, momentum=0.9))
    names = [field.name.replace("_", " ") for field in fields(Figures)]
    print(f"\n| | {' | '.join(names)} | optimize, ms | plan, ms |")
    print(f"|{'---|' * (3 + len(names))}")
    with tempfile.TemporaryDirectory() as folder:
        for subject in subjects:
            model = elaborate_model(load(subject.model), sizes=subject.sizes).graph
            print_row(
                f"{subject.model}, inference",
                model,
                rules.optimize(model, "infer").graph,
                milliseconds(lambda g=model: rules.optimize(g, "infer")),
            )
            forward = subject.step(Path(folder))
            print_row(
                f"{subject.model}, training step",
                training_step(forward, settings),
                optimized_training_step(forward, settings, rules).graph,
                milliseconds(lambda g=forward: optimized_training_step(g, settings, rules))
                - milliseconds(lambda g=forward: training_step(g, settings)),
            )


@dataclass(frozen=True)
class Figures:
    """The figures of a graph and its plan."""

    values: int
    launches: int
    megabytes_moved: int
    dispatches: int
    mebibytes: int
    temporary_mebibytes: int
    least_mebibytes: int


def figures(graph: Graph) -> Figures:
    """Count, by the cost model and in the plan for a GPU."""
    cost, plan = graph_cost(graph), plan_graph(graph, ROOMY)
    return Figures(
        values=len(graph.values),
        launches=cost.launches,
        megabytes_moved=cost.bytes // 10**6,
        dispatches=len(plan.dispatches),
        mebibytes=sum(map(plan.bytes_for, Role)) >> 20,
        temporary_mebibytes=plan.bytes_for(Role.TEMPORARIES) >> 20,
        least_mebibytes=plan.least_bytes >> 20,
    )


def print_row(name: str, before: Graph, after: Graph, optimizing: float) -> None:
    """One graph before and after."""
    pairs = zip(astuple(figures(before)), astuple(figures(after)), strict=True)
    cells = [f"{old:,} -> {new:,}" for old, new in pairs]
    planning = milliseconds(lambda: plan_graph(after, ROOMY))
    print(f"| {' | '.join([name, *cells])} | {optimizing:.0f} | {planning:.0f} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=[subject.model for subject in SUBJECTS])
    parser.add_argument("--disable-rule", action="append", default=[])
    asked = parser.parse_args()
    if asked.only is None:
        print_checks()
        print_growth()
    chosen = [subject for subject in SUBJECTS if asked.only in (None, subject.model)]
    print_optimizer(chosen, RewriteOptions(disabled=tuple(asked.disable_rule), device=GPU))


if __name__ == "__main__":
    main()
