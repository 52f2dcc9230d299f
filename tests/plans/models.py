"""The standard models from stage to stage.

`models.snap` has, of small models, ops of graphs, reports of rewrites and dispatches of plans, and
a checksum of all graphs and plans with their kernels. Whatever changes one of them is seen there,
whether or not it was meant.

`python -m tests.plans.models` writes the file anew; read the difference before you keep it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from meganeura_dsl import pipeline
from meganeura_dsl.ir.graph import Builder, Graph, Op
from meganeura_dsl.ir.ops import (
    Conv,
    ConvInputGradient,
    ConvWeightGradient,
    Input,
    MatMul,
)
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.egraph.rewrite_report import RewriteReport
from meganeura_dsl.transforms.expand_fused import expand_fused
from meganeura_dsl.transforms.optimizers.optimizers import Adam
from meganeura_dsl.transforms.training_step import (
    TrainingSettings,
    optimized_training_step,
    training_step,
)
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import named_contraction
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.plan import Plan
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.tuning.search_space import planned
from tests.narrow import NARROW
from tests.plans.golden import text_of
from tests.snapshots import Snapshot, Text

INFERENCE = ("digits_cnn", "repvgg_b1g4", "whisper_tiny")
TRAININGS = {"digits_cnn": {"batch": 8}, "lm_tiny": {"batch": 2, "s": 6}}
LANES = DeviceLimits(lanes=8)
PRODUCTS = (
    (1, 64, 1000), (4, 8192, 4), (33, 640, 30), (70, 96, 64), (512, 512, 512), (2000, 900, 32),
    (64, 4096, 64), (1024, 64, 4096), (7, 7, 7), (128, 100_000, 8),
)  # fmt: skip
"""Rows, terms and columns."""


SHOWN = (
    *(
        f"digits_cnn, inference: {what}"
        for what in ("ops", "rewrites", "dispatches on a GPU", "dispatches in software")
    ),
    *(f"whisper_tiny, inference: {what}" for what in ("ops", "rewrites")),
    "repvgg_b1g4, inference: rewrites",
    *(f"lm_tiny, training: {what}" for what in ("ops", "rewrites")),
    "digits_cnn, training: dispatches on a GPU",
    "contractions on gpu: MatMul",
    "contractions on cpu-adapter with 8 lanes: Conv",
)
"""Texts that are shown whole; the rest of each model counts in its checksum."""


def texts() -> Iterator[Text]:
    """Graphs, reports of the optimizer and plans of each model."""
    for name in INFERENCE:
        group = f"{name}, inference"
        graph = NARROW[name].elaborate().graph
        optimized = RewriteOptions().optimize(graph, "infer")
        graphs = {
            "as written": graph,
            "optimized": optimized.graph,
            "expanded": expand_fused(optimized.graph),
            "folded": optimized.load,
        }
        yield from _graphs(group, graphs)
        yield Text(group, "rewrites", "\n".join(report_lines(optimized.report)))
        yield from _plan(group, "on a GPU", plan_graph(optimized.graph, DeviceLimits()))
        yield from _plan(group, "in software", plan_graph(graph, LANES, Style.SOFTWARE_VULKAN))
    for name, sizes in TRAININGS.items():
        group = f"{name}, training"
        forward = pipeline.elaborate_train(pipeline.load(name), sizes=sizes, training=True).graph
        step = training_step(forward, TrainingSettings(Adam(1e-3), clip_norm=1.0))
        yield from _graphs(group, {"as written": forward, "a step": step})
        settings = TrainingSettings(Adam(1e-3))
        done = optimized_training_step(forward, settings, RewriteOptions()).optimizations
        lines = (line for each in done for line in report_lines(each.report))
        yield Text(group, "rewrites", "\n".join(lines))
        yield from _plan(group, "on a GPU", plan_graph(step, DeviceLimits()))
        yield from _plan(group, "in software", plan_graph(step, LANES, Style.SOFTWARE_VULKAN))
    yield from _ways()


def _ways() -> Iterator[Text]:
    """Yields the planner's choice for products and convolutions of many sizes."""
    for style, lanes in ((Style.GPU, 0), (Style.SOFTWARE_VULKAN, 0), (Style.SOFTWARE_VULKAN, 8)):
        target = Target(DeviceLimits(lanes=lanes), style)
        found: dict[str, list[str]] = {}
        for op, *shapes in _contractions():
            build = Builder()
            inputs = [build.add(Input(f"x{n}", DType.F32, each)) for n, each in enumerate(shapes)]
            config = planned(named_contraction(op, *inputs), target)
            sizes = " and ".join("x".join(map(str, shape)) for shape in shapes)
            found.setdefault(type(op).__name__, []).append(f"{sizes}: {config}")
        for name, lines in found.items():
            group = f"contractions on {style.value}{f' with {lanes} lanes' if lanes else ''}"
            yield Text(group, name, "\n".join(lines))


def _contractions() -> Iterator[tuple[Op, tuple[int, ...], tuple[int, ...]]]:
    for batch in ((), (6,), (300,)):
        for rows, terms, columns in PRODUCTS:
            yield MatMul(), (*batch, rows, terms), (*batch, terms, columns)
    for images, inputs, outputs, size in ((1, 3, 16, 32), (8, 64, 64, 14), (32, 16, 512, 7)):
        for taps, groups in ((1, 1), (3, 1), (3, 2 if inputs % 2 == 0 else 1)):
            around = (taps // 2, taps // 2)
            geometry = ((1, 1), around, (1, 1), groups)
            x, y = (images, inputs, size, size), (images, outputs, size, size)
            w = (outputs, inputs // groups, taps, taps)
            yield Conv(*geometry), x, w
            yield ConvInputGradient(*geometry, x[2:]), w, y
            yield ConvWeightGradient(*geometry, w[2:]), x, y


def _graphs(group: str, graphs: Mapping[str, Graph]) -> Iterator[Text]:
    """The graph of each stage, and how many ops of each kind it has."""
    lines: list[str] = []
    for stage, graph in graphs.items():
        yield Text(group, f"graph {stage}", format_graph(graph, origins=False))
        ops = Counter(type(value.op).__name__ for value in graph.values)
        counted = " ".join(f"{name}:{count}" for name, count in sorted(ops.items()))
        lines.append(f"{stage}: {counted}")
    yield Text(group, "ops", "\n".join(lines))


def report_lines(report: RewriteReport) -> Iterator[str]:
    """Yields the report of the optimizer: the rules that matched and those that were chosen."""
    counts = {
        "matched": report.matches,
        "chosen": Counter(each.rule for each in report.chosen),
    }
    for what, found in counts.items():
        listed = " ".join(f"{rule}:{count}" for rule, count in sorted(found.items()) if count)
        yield f"{report.mode}, {what}: {listed}"
    sizes = ("nodes_before", "nodes_after", "enodes", "eclasses", "iterations")
    yield f"{report.mode}: " + " ".join(f"{name}={getattr(report, name)}" for name in sizes)
    yield f"{report.mode}: {report.cost_before} before, {report.cost_after} after"


def _plan(group: str, adapter: str, plan: Plan) -> Iterator[Text]:
    """The plan, and its buffers and dispatches in a line each."""
    yield Text(group, f"plan {adapter}", text_of(plan))
    buffers = f"buffers of {' + '.join(str(each.bytes) for each in plan.buffers)} bytes"
    dispatches = (f"{'x'.join(map(str, each.workgroups))} {each.name}" for each in plan.dispatches)
    yield Text(group, f"dispatches {adapter}", "\n".join((buffers, *dispatches)))


SNAPSHOT = Snapshot("tests.plans.models", texts, SHOWN)

if __name__ == "__main__":
    SNAPSHOT.main()
