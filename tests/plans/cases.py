"""Plans of every op's samples, for several adapters.

The plans, kernels included, are of the samples of all ops, of products and convolutions in every
config that the tuner may try, of attention, and of loops. Whatever changes how one of them is
computed is seen in `cases.snap`, whether or not it was meant.

`python -m tests.plans.cases` writes the file anew; read the difference before you keep it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Op
from meganeura_dsl.ir.ops import Conv, ConvInputGradient, Input, MatMul, ScatterAdd
from meganeura_dsl.ir.ops.fused import Attention
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.simplify_loops import simplify_loops
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import named_contraction
from meganeura_runtime.backends.webgpu.config.kernel_config import FusionConfig
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.config.tuned_configs import TunedConfigs, step_name
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.tuning.search_space import first_configs, nearby_configs
from tests.plans.golden import text_of
from tests.runtime.backends.webgpu.passes.test_channels_last import layers
from tests.samples import SAMPLES, dtype_of
from tests.scans import NESTED, forward, with_gradients
from tests.snapshots import Snapshot, Text

GPU, SOFTWARE, SMALL = "a GPU", "a software adapter", "an adapter that allows little"
ADAPTERS: Mapping[str, Target] = {
    GPU: Target(PORTABLE),
    SOFTWARE: Target(DeviceLimits(lanes=8), Style.SOFTWARE_VULKAN),
    SMALL: Target(replace(PORTABLE, storage_buffers=5, workgroups=2, invocations=64)),
}

NO_CONFIGS = TunedConfigs("", {})
Shape = tuple[int, ...]
SHOWN = (
    f"samples on {GPU}: Div",
    f"samples on {GPU}: Sum-columns",
    f"samples on {GPU}: ArgMax-ties",
    f"samples on {GPU}: Gather-own",
    f"samples on {GPU}: Pad-interior",
    f"samples on {GPU}: Cumulative-prod-back",
    f"samples on {GPU}: MaxPoolSelect-uneven",
    f"samples on {SOFTWARE}: MatMul-batch-left",
    f"samples on {SOFTWARE}: Transpose-heads",
    f"samples on {SMALL}: Concat-columns",
)
"""The plans that are shown whole; larger ones are in `tests/plans/*.txt`."""
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


def texts() -> Iterator[Text]:
    """The plans of all cases."""
    for sample in SAMPLES:
        if not isinstance(sample.op, Leaf):
            shapes = [(dtype_of(each), each.shape) for each in sample.operands]
            yield from _plans("samples", sample.name, _graph(sample.op, *shapes), ADAPTERS)
    for op, *shapes in CONTRACTIONS:
        for adapter in (GPU, SOFTWARE):
            yield from _configs(op, shapes, adapter)
    yield from _plans("movement", "convolutions with channels last", layers()[0])
    many = ((DType.I32, (24,)), (DType.F32, (24, 1 << 17)))
    yield from _plans("movement", "rows added up", _graph(ScatterAdd(0, 9), *many), ADAPTERS)
    for op, q, k, width in ATTENTIONS:
        for trains in (False, True):
            graph = _attention(op, q, k, width, trains=trains)
            fused = {step_name(graph): FusionConfig(fuse_attention=True)}
            name = f"{op} of {q} and {k} by {width}{', training' if trains else ''}"
            yield from _plans("attention", name, graph, choices=TunedConfigs("", {}, fused))
    yield from _plans("loops", "forward", forward(NESTED))
    yield from _plans("loops", "training", simplify_loops(with_gradients(forward(LOOP))))


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


def _configs(op: Op, shapes: Sequence[Shape], adapter: str) -> Iterator[Text]:
    """A contraction in every config that the tuner may try, and which those are."""
    graph = _graph(op, *((DType.F32, shape) for shape in shapes))
    whole = named_contraction(op, *(value for value in graph.values if isinstance(value.op, Input)))
    configs = first_configs(whole, ADAPTERS[adapter])
    nearby = nearby_configs(configs[-1], configs[0], whole, ADAPTERS[adapter].style)
    tried = tuple(dict.fromkeys((*configs, *nearby)))
    group, name = f"contractions on {adapter}", f"{op} of {shapes}"
    yield Text(group, f"configs of {name}", "\n".join(map(str, tried)))
    for config in tried[::PLANNED]:
        choices = TunedConfigs("", {whole.name: config})
        yield Text(group, f"{name} by {config}", partial(_planned, graph, adapter, choices))


def _plans(
    group: str,
    name: str,
    graph: Graph,
    adapters: Iterable[str] = (GPU, SOFTWARE),
    choices: TunedConfigs = NO_CONFIGS,
) -> Iterator[Text]:
    for adapter in adapters:
        yield Text(f"{group} on {adapter}", name, partial(_planned, graph, adapter, choices))


def _planned(graph: Graph, adapter: str, choices: TunedConfigs) -> str:
    target = ADAPTERS[adapter]
    return text_of(plan_graph(graph, target.limits, target.style, choices))


SNAPSHOT = Snapshot("tests.plans.cases", texts, SHOWN)

if __name__ == "__main__":
    SNAPSHOT.main()
