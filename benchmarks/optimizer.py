"""What the optimizer makes of the standard models, and how long it takes.

    python benchmarks/optimizer.py

Prints a row for each model: nodes, kernels, bytes and arithmetic before and after, by the cost
model, and the milliseconds of each phase, the least of several runs. Then the time for networks of
growing depth, which should double with it.
"""

from collections.abc import Callable, Mapping

from meganeura_dsl import pipeline
from meganeura_dsl.check.values import Static
from meganeura_dsl.graph.core import Graph
from meganeura_dsl.optimize import Optimized, optimize
from meganeura_dsl.optimize.rules.all import Mode
from meganeura_dsl.optimize.totals import graph_cost
from meganeura_dsl.training import Adam, TrainingSettings, training_step

RUNS = 5
PICTURE = {"n": 1, "h": 224, "w": 224}
INFERENCE: Mapping[str, Mapping[str, int]] = {
    "digits_cnn": {"n": 32, "h": 8, "w": 8},
    "resnet18": PICTURE,
    "repvgg_a0": PICTURE,
    "repvgg_b3g4": PICTURE,
    "whisper_tiny": {"n": 1, "t": 3000},
    "smollm2_135m": {"n": 1, "s": 512},
}
TRAINING: Mapping[tuple[str, str], Mapping[str, int]] = {
    ("digits_cnn", "fit"): {"batch": 32},
    ("resnet", "fit"): {"batch": 32},
    ("gpt2", "text"): {"batch": 16},
    ("lm", "text"): {"batch": 16},
}


def main() -> None:
    """Print both tables."""
    head = ("model", "mode", "nodes", "kernels", "MB", "Gflop", "e-nodes", "ms", "of which")
    print(_row(*head))
    for name, sizes in INFERENCE.items():
        _report(name, _model(name, sizes), "infer")
    for (name, train), sizes in TRAINING.items():
        program = pipeline.load(name)
        forward = pipeline.elaborate_train(program, train, sizes=sizes, training=True).graph
        plain = training_step(forward, TrainingSettings(Adam()))
        fused = _report(name, forward, "forward").graph
        step = training_step(fused, TrainingSettings(Adam()))
        _report(name, step, "train", plain)
    print("\nblocks  nodes     ms  microseconds a node")
    for depth in (25, 50, 100, 200):
        graph = _deep(depth)
        best = _seconds(_best(lambda graph=graph: optimize(graph, mode="infer")))
        nodes = len(graph.values)
        print(f"{depth:6} {nodes:6} {1e3 * best:6.0f} {1e6 * best / nodes:6.0f}")


def _report(name: str, graph: Graph, mode: Mode, before: Graph | None = None) -> Optimized:
    before = before or graph
    best = _best(lambda: optimize(graph, mode=mode))
    old, new, report = graph_cost(before), graph_cost(best.graph), best.report
    phases = " ".join(f"{each} {1e3 * time:.0f}" for each, time in report.seconds.items())
    print(
        _row(
            name,
            mode,
            f"{len(before.values)}>{report.nodes_after}",
            f"{old.launches}>{new.launches}",
            f"{old.bytes / 1e6:.0f}>{new.bytes / 1e6:.0f}",
            f"{old.flops / 1e9:.1f}>{new.flops / 1e9:.1f}",
            str(report.enodes),
            f"{1e3 * _seconds(best):.0f}",
            phases,
        ),
        flush=True,
    )
    return best


def _row(*cells: str) -> str:
    widths = (18, 8, 10, 10, 12, 13, 8, 5, 0)
    return " ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def _best(run: Callable[[], Optimized]) -> Optimized:
    return min((run() for _ in range(RUNS)), key=_seconds)


def _seconds(optimized: Optimized) -> float:
    return sum(optimized.report.seconds.values())


def _model(name: str, sizes: Mapping[str, int]) -> Graph:
    return pipeline.elaborate_model(pipeline.load(name), sizes=sizes).graph


def _deep(depth: int) -> Graph:
    """A ResNet with so many blocks in its third stage."""
    config: Mapping[str, Static] = {"depths": [2, 2, depth, 2]}
    program = pipeline.load("resnet18")
    return pipeline.elaborate_model(program, config=config, sizes=PICTURE).graph


if __name__ == "__main__":
    main()
