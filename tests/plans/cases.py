"""How every op's samples are planned, for several adapters, in a line each.

`cases.sums` has the checksum of each plan, kernels included: of the samples of all ops, of products
and convolutions in every config that the tuner may try, of attention, and of loops. Whatever
changes how one of them is computed is seen there, whether or not it was meant.

`python -m tests.plans.cases` writes the file anew; read the difference before you keep it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from zlib import crc32

from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Op
from meganeura_dsl.ir.ops import Conv, ConvInputGradient, Input, MatMul, ScatterAdd
from meganeura_dsl.ir.ops.fused import Attention
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.simplify_loops import simplify_loops
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import named_contraction
from meganeura_runtime.backends.webgpu.config.kernel_config import FusionConfig, KernelConfig
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.config.tuned_configs import TunedConfigs, step_name
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.tuning.search_space import first_configs, nearby_configs
from tests.plans.golden import text_of
from tests.runtime.backends.webgpu.passes.test_channels_last import layers
from tests.samples import SAMPLES, dtype_of
from tests.scans import NESTED, forward, with_gradients

FILE = Path(__file__).with_suffix(".sums")
ADAPTERS = (
    Target(PORTABLE),
    Target(DeviceLimits(lanes=8), Style.SOFTWARE_VULKAN),
    Target(replace(PORTABLE, storage_buffers=5, workgroups=2, invocations=64)),
)
"""A GPU, a software adapter, and one that allows little."""

Shape = tuple[int, ...]
LOOP = """
block Net()(x: [n, s, 4], w: [4, 4]) -> [n, s, 4]:
  h = zeros([n, 4])
  scan t in 0..s:
    h = tanh(h @ w + x[:, t])
    y[:, t] = h
  return y

model net = Net()
"""
PLANNED = 7
"""One of so many configs is planned."""
SAME = ((1, 1), (1, 1), (1, 1))
CONTRACTIONS: tuple[tuple[Op, Shape, Shape], ...] = (
    (MatMul(), (70, 96), (96, 64)),
    (MatMul(transpose_left=True), (3, 33, 17), (3, 33, 20)),
    (MatMul(transpose_right=True), (8, 4096), (12, 4096)),
    (Conv(*SAME, 1), (2, 8, 9, 7), (12, 8, 3, 3)),
    (Conv((2, 2), (1, 1), (1, 1), 2), (1, 8, 10, 10), (16, 4, 3, 3)),
    (ConvInputGradient((2, 1), (1, 0), (1, 2), 1, (9, 8)), (8, 4, 3, 2), (2, 8, 5, 6)),
)
ATTENTIONS: tuple[tuple[Attention, Shape, Shape, int], ...] = (
    (Attention(0.125, causal=False), (2, 4, 33, 64), (2, 4, 40, 64), 64),
    (Attention(0.25, causal=True, shared=3), (1, 6, 70, 16), (1, 2, 70, 16), 20),
    (Attention(1.0, causal=True, window=5), (1, 2, 41, 7), (1, 2, 41, 7), 9),
    (Attention(0.5, causal=False), (1, 1, 64, 16), (1, 1, 128, 16), 16),
    (Attention(0.5, causal=True), (1, 1, 128, 16), (1, 1, 128, 16), 16),
    (Attention(0.5, causal=True, window=9), (1, 1, 128, 16), (1, 1, 128, 16), 16),
)
"""Scores, queries and keys, and the width of values."""


def described() -> Iterator[str]:
    """All lines of the file."""
    yield "# samples of ops: on a GPU, on a software adapter, and on one that allows little"
    for number, sample in enumerate(SAMPLES):
        if not isinstance(sample.op, Leaf):
            shapes = [(dtype_of(each), each.shape) for each in sample.operands]
            adapters = (ADAPTERS[number % 2],) if "Conv" in sample.name else ADAPTERS
            yield f"{_plans(_graph(sample.op, *shapes), adapters)} {sample.name}"
    yield "\n# contractions, by the configs of the tuner"
    for op, *shapes in CONTRACTIONS:
        for target in ADAPTERS[:2]:
            yield from _configs(op, shapes, target)
    yield "\n# convolutions with channels last and their gradients, and rows added up"
    yield _plans(layers()[0])
    many = ((DType.I32, (24,)), (DType.F32, (24, 1 << 17)))
    yield _plans(_graph(ScatterAdd(0, 9), *many), ADAPTERS)
    yield "\n# attention in one kernel: forward, and with its gradients"
    for op, q, k, width in ATTENTIONS:
        for trains in (False, True):
            graph = _attention(op, q, k, width, trains=trains)
            fused = {step_name(graph): FusionConfig(fuse_attention=True)}
            for target in ADAPTERS[:2]:
                choices = TunedConfigs("", {}, fused)
                plan = plan_graph(graph, target.limits, target.style, choices)
                yield f"{_sum(text_of(plan))} {op} {trains} {len(plan.dispatches)}"
    yield "\n# loops: forward, and with gradients"
    yield _plans(forward(NESTED))
    yield _plans(simplify_loops(with_gradients(forward(LOOP))))


def _graph(op: Op, *operands: tuple[DType, Shape]) -> Graph:
    """An op on inputs."""
    build = Builder()
    inputs = [build.add(Input(f"x{n}", *each)) for n, each in enumerate(operands)]
    results = build.add_all(op, *inputs)
    return build.graph({f"y{one.index}": one for one in results})


def _attention(op: Attention, q: Shape, k: Shape, width: int, *, trains: bool) -> Graph:
    build = Builder()
    shapes = {"q": q, "k": k, "v": (*k[:-1], width), "dy": (*q[:-1], width)}
    inputs = {name: build.add(Input(name, DType.F32, shape)) for name, shape in shapes.items()}
    results = build.add_all(op, inputs["q"], inputs["k"], inputs["v"])
    outputs = {"y": results[0]}
    if trains:
        found = op.pullback(build, results, (inputs["dy"], None))
        outputs |= {f"d{n}": each for n, each in zip("qkv", found, strict=False) if each}
    return build.graph(outputs)


def _configs(op: Op, shapes: Sequence[Shape], target: Target) -> Iterator[str]:
    """A contraction in every config that the tuner may try."""
    graph = _graph(op, *((DType.F32, shape) for shape in shapes))
    whole = named_contraction(op, *(value for value in graph.values if isinstance(value.op, Input)))
    configs = first_configs(whole, target)
    nearby = nearby_configs(configs[-1], configs[0], whole, target.style)
    tried = tuple(dict.fromkeys((*configs, *nearby)))
    yield f"{_sum(str(tried))} {len(tried)} configs of {op} {shapes}"
    for config in tried[::PLANNED]:
        yield f"{_in(config, whole.name, graph, target)} {config}"


def _in(config: KernelConfig, name: str, graph: Graph, target: Target) -> str:
    choices = TunedConfigs("", {name: config})
    return _sum(text_of(plan_graph(graph, target.limits, target.style, choices)))


def _plans(graph: Graph, adapters: Sequence[Target] = ADAPTERS[:2]) -> str:
    return " ".join(
        _sum(text_of(plan_graph(graph, target.limits, target.style))) for target in adapters
    )


def _sum(text: str) -> str:
    return f"{crc32(text.encode()):08x}"


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
