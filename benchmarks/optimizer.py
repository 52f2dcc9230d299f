"""The optimizer's rewrites of the standard models, their time, and its growth.

    python benchmarks/optimizer.py [--figure FILE.svg] [MODEL ...]

For inference and for a training step with SGD and momentum: values of the graph; kernels, megabytes
moved and megabytes of temporaries of the plan for a large GPU, all before and after; nodes of the
e-graphs; milliseconds from encoding to decoding, both phases of a training step together, in a new
process and then, each the least of several runs, with the rules compiled. It is the processor's
time, which other processes disturb less than the clock's. Then the same time for networks of
growing depth, which should double with it. No adapter is needed.
"""

import argparse
import gc
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from time import process_time

from meganeura_dsl import pipeline
from meganeura_dsl.elaborate.values import Static
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.startup.collector import YOUNG_OBJECTS
from meganeura_dsl.transforms.egraph.optimize import Optimized, optimize
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.plan import Plan, Role
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph

RUNS = 3
SETTINGS = TrainingSettings(Sgd(0.1, momentum=0.9))
LIMITS = DeviceLimits(
    buffer_bytes=1 << 36,
    binding_bytes=1 << 34,
    storage_buffers=64,
    invocations=1024,
    workgroup_bytes=48 << 10,
    lanes=32,
)
"""About what large GPUs allow."""
PICTURES = "image: [batch, 3, 224, 224], label: i32[batch]"
DEPTHS = (25, 50, 100, 200)


@dataclass(frozen=True)
class Subject:
    """A model, the file it is in, a batch of inputs and a loss for it."""

    model: str
    file: str
    batch: int
    inputs: str
    loss: str

    def graphs(self, folder: Path) -> Iterator[Graph]:
        """A batch to be inferred, and its loss to be trained."""
        path = folder / f"{self.model}_training.mgn"
        path.write_text(
            f"from {self.file} import {self.model}\n\n"
            f"train fit({self.inputs}):\n  minimize {self.loss}\n"
        )
        for training in (False, True):
            yield pipeline.elaborate_train(
                pipeline.load(str(path)), sizes={"batch": self.batch}, training=training
            ).graph


def _pictures(model: str, file: str, batch: int) -> Subject:
    return Subject(model, file, batch, PICTURES, f"cross_entropy(image |> {model}, label)")


def _digits(model: str, file: str, batch: int) -> Subject:
    inputs = "image: [batch, 1, 8, 8], label: i32[batch]"
    return Subject(model, file, batch, inputs, f"cross_entropy(image |> {model}, label)")


def _sounds(model: str, width: int, batch: int) -> Subject:
    inputs = f"mel: [batch, 80, 3000], y: [batch, 1500, {width}]"
    return Subject(model, "whisper", batch, inputs, f"mse(mel |> {model}, y)")


def _tokens(model: str, file: str, length: int, batch: int) -> Subject:
    inputs = f"ids: i32[batch, {length}], next: i32[batch, {length}]"
    return Subject(model, file, batch, inputs, f"cross_entropy(ids |> {model}, next)")


SUBJECTS = (
    _digits("digits_cnn", "digits_cnn", 32),
    _pictures("resnet18", "resnet", 32),
    _pictures("resnet50", "resnet", 32),
    _pictures("repvgg_a0", "repvgg", 32),
    _pictures("repvgg_b3g4", "repvgg", 8),
    _sounds("whisper_tiny", 384, 8),
    _sounds("whisper_large", 1280, 1),
    _tokens("lm_tiny", "lm", 64, 16),
    _tokens("gpt2_tiny", "gpt2", 64, 16),
    _tokens("smollm2_135m", "lm", 512, 1),
)


@dataclass
class Work:
    """Optimizing some graphs, phase after phase: what came out, and the seconds it took."""

    forward: Graph
    training: bool
    seconds: float = 0.0
    phases: tuple[Optimized, ...] = ()

    def run(self) -> None:
        """Optimize; differentiating is not counted."""
        if not self.training:
            self.phases = (self._timed(self.forward, "infer"),)
            return
        fused = self._timed(self.forward, "forward")
        step = training_step(fused.graph, SETTINGS)
        self.phases = (fused, self._timed(step, "train"))

    def _timed(self, graph: Graph, mode: str) -> Optimized:
        start = process_time()
        match mode:
            case "infer" | "forward" | "train":
                found = optimize(graph, mode=mode)
            case _:
                raise ValueError(mode)
        self.seconds += process_time() - start
        return found

    @staticmethod
    def again(forward: Graph, *, training: bool) -> "Work":
        """The fastest of several runs, the rules being compiled."""
        works = [Work(forward, training) for _ in range(1 + RUNS)]
        for work in works:
            work.run()
        return min(works[1:], key=lambda work: work.seconds)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help="some of them")
    parser.add_argument("--figure", type=Path, help="draw the growth here")
    options = parser.parse_args()
    gc.set_threshold(YOUNG_OBJECTS, 50, 50)
    head = "model values kernels MB temporaries,MB e-nodes first,ms again,ms"
    print(f"| {' | '.join(word.replace(',', ', ') for word in head.split())} |")
    print(f"|{'---|' * len(head.split())}")
    with tempfile.TemporaryDirectory() as folder:
        for subject in SUBJECTS:
            if not options.models or subject.model in options.models:
                for training, graph in enumerate(subject.graphs(Path(folder))):
                    print(row(subject, graph, training=bool(training)), flush=True)
    if options.figure or not options.models:
        grown = list(growth())
        print("\n| blocks | nodes | ms | microseconds a node |\n|---|---|---|---|")
        for depth, (nodes, seconds) in zip(DEPTHS, grown, strict=True):
            each = 1e6 * seconds / nodes
            print(f"| {depth} | {nodes:,} | {1e3 * seconds:.0f} | {each:.0f} |")
        if options.figure:
            options.figure.write_text(figure(grown))


def row(subject: Subject, graph: Graph, *, training: bool) -> str:
    """Returns the row of one graph."""
    plain = training_step(graph, SETTINGS) if training else graph
    again = Work.again(graph, training=training)
    result = again.phases[-1].graph
    before, after = (plan_graph(each, LIMITS) for each in (plain, result))
    what = "training step" if training else "inference"
    cells = [
        f"{subject.model} ({subject.batch}), {what}",
        f"{len(plain.values):,} -> {len(result.values):,}",
        f"{len(before.dispatches):,} -> {len(after.dispatches):,}",
        f"{_moved(before):,.0f} -> {_moved(after):,.0f}",
        f"{_temporaries(before):,.0f} -> {_temporaries(after):,.0f}",
        " + ".join(f"{each.report.enodes:,}" for each in again.phases),
        f"{1e3 * first(subject, training=training):.0f}",
        f"{1e3 * again.seconds:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def first(subject: Subject, *, training: bool) -> float:
    """The seconds of the first run of a process, the least of several processes."""
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        return min(pool.apply(_first, (subject, training)) for _ in range(RUNS))


def _first(subject: Subject, training: bool) -> float:  # noqa: FBT001 - called by position
    gc.set_threshold(YOUNG_OBJECTS, 50, 50)
    with tempfile.TemporaryDirectory() as folder:
        forward = list(subject.graphs(Path(folder)))[training]
    work = Work(forward, training)
    work.run()
    return work.seconds


def _moved(plan: Plan) -> float:
    return sum(each.bytes for each in plan.dispatches) / 1e6


def _temporaries(plan: Plan) -> float:
    return plan.bytes_for(Role.TEMPORARIES) / 1e6


def growth() -> Iterator[tuple[int, float]]:
    """The nodes of ResNets of growing depth, and the seconds it takes to optimize them."""
    for depth in DEPTHS:
        config: Mapping[str, Static] = {"depths": [2, 2, depth, 2]}
        sizes = {"n": 1, "h": 224, "w": 224}
        program = pipeline.load("resnet18")
        graph = pipeline.elaborate_model(program, config=config, sizes=sizes).graph
        yield len(graph.values), Work.again(graph, training=False).seconds


WIDTH, HEIGHT, MARGIN = 420, 260, 48
TEXT = 'font-family="sans-serif" font-size="11" fill="#222222"'


def figure(points: Sequence[tuple[int, float]]) -> str:
    """Milliseconds over nodes, both linear from 0."""
    most_nodes, most = (1.1 * max(each) for each in zip(*points, strict=True))

    def at(nodes: float, seconds: float) -> tuple[float, float]:
        across = MARGIN + nodes / most_nodes * (WIDTH - 2 * MARGIN)
        return across, HEIGHT - MARGIN - seconds / most * (HEIGHT - 2 * MARGIN)

    axes = f"M{MARGIN} {MARGIN}V{HEIGHT - MARGIN}H{WIDTH - MARGIN}"
    marks = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<path d="{axes}" stroke="#888888" fill="none"/>',
        f'<text x="{MARGIN}" y="24" {TEXT}>milliseconds to optimize ResNets, over nodes</text>',
    ]
    for (x, y), (u, v) in pairwise([at(0, 0), *(at(*point) for point in points)]):
        marks.append(f'<path d="M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}" stroke="#2a6fbb"/>')
    for nodes, seconds in points:
        x, y = at(nodes, seconds)
        below = f'x="{x:.1f}" y="{HEIGHT - MARGIN + 18}" text-anchor="middle" {TEXT}'
        beside = f'x="{x - 8:.1f}" y="{y - 6:.1f}" text-anchor="end" {TEXT}'
        marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#2a6fbb"/>')
        marks.append(f"<text {below}>{nodes:,}</text><text {beside}>{1e3 * seconds:.0f}</text>")
    return "\n".join([*marks, "</svg>", ""])


if __name__ == "__main__":
    sys.exit(main())
