"""Plans of small graphs on adapters whose limits are just enough, a little less, or more.

`limits.snap` has of some graphs and limits the values that give the same plan, one after another,
with how many dispatches it has, or the limit that is exceeded; and a checksum of all plans.

`python -m tests.plans.limits` writes the file anew; read the difference before you keep it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import groupby

from meganeura_dsl.ir.graph import Builder, Graph, Value
from meganeura_dsl.ir.ops import (
    Add,
    ArgMax,
    Broadcast,
    Cast,
    Concat,
    Constant,
    Conv,
    Cumulative,
    DynamicUpdate,
    Exp,
    Gather,
    Input,
    MatMul,
    Mul,
    Neg,
    Parameter,
    Reshape,
    Sub,
    Sum,
)
from meganeura_dsl.ir.ops.fused import Attention
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.errors import LimitError
from meganeura_runtime.backends.webgpu.codegen.attention.kernel_choice import TILE
from meganeura_runtime.backends.webgpu.config.kernel_config import FusionConfig
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, DeviceLimits, Style
from meganeura_runtime.backends.webgpu.config.tuned_configs import TunedConfigs, step_name
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph, plan_memory
from tests.plans.golden import text_of
from tests.scans import NESTED, forward
from tests.snapshots import Snapshot, Text

ABOUT: Mapping[str, Sequence[int]] = {
    "storage_buffers": (2, 3, 4, 5, 6, 7, 8, 9, 10, 16),
    "workgroups": (1, 2, 3, 4, 5, 8, 9, 65),
    "invocations": (16, 31, 32, 63, 64, 128, 255, 256, 512, 1024),
    "workgroup_bytes": (256, 512, 1 << 10, 4 << 10, 8 << 10, 16 << 10, 20 << 10, 1 << 16),
    "binding_bytes": (1 << 10, 8191, 8192, 8193, 1 << 15, 1 << 17),
    "half_floats": (0, 1),
    "lanes": (0, 4, 8, 32),
}  # fmt: skip

JUST = 4 * TILE.words(16, 16)
"""The memory that a kernel of attention takes."""
FEW: Mapping[str, Mapping[str, Sequence[int]]] = {
    **{
        f"{count} rows along {axis}": {
            "workgroup_bytes": (4 << 10, 1 << 14),
            "invocations": (256, 1024, 2048),
        }
        for count, axis in ((511, 1), (512, 1), (2047, 0), (2048, 0), (64, 0))
    },
    "rounded": {"half_floats": (0, 1)},
    "loops of halves": {"half_floats": (0, 1)},
    "large loops": {"workgroups": (2, 8)},
    "loops": {"storage_buffers": (2, 5, 8), "workgroups": (1, 8), "binding_bytes": (16, 1 << 10)},
    "attention": {
        "workgroup_bytes": (8 << 10, JUST - 4, JUST, 16 << 10),
        "invocations": (127, 128),
    },
    "attention of many keys": {"workgroup_bytes": (16 << 10,)},
    "attention and its gradients": {"workgroup_bytes": (16 << 10, 20 << 10)},
}
"""Limits of graphs whose kernels take long to write."""


def _input(build: Builder, name: str, *shape: int, dtype: DType = DType.F32) -> Value:
    return build.add(Input(name, dtype, shape))


def _many_operands() -> Graph:
    build = Builder()
    total = _input(build, "x0", 32, 64)
    for number in range(1, 12):
        total = build.add(Add(), total, _input(build, f"x{number}", 32, 64))
    return build.graph({"y": total})


def _joined() -> Graph:
    build = Builder()
    parts = [_input(build, f"x{number}", 3, 20) for number in range(11)]
    return build.graph({"y": build.add(Concat(0), *parts)})


def _deep() -> Graph:
    build = Builder()
    x = _input(build, "x", 40)
    y = x
    for number in range(70):
        y = build.add(Neg(), y) if number % 2 else build.add(Sub(), y, x)
    return build.graph({"y": y, "z": build.add(Mul(), y, y)})


def _side_by_side() -> Graph:
    build = Builder()
    made = {f"y{number}": _input(build, f"x{number}", 40, 8 * number + 8) for number in range(5)}
    sums = {name: build.add(Sum((1,)), value) for name, value in made.items()}
    small = {f"z{n}": build.add(Exp(), _input(build, f"w{n}", 100 * n + 100)) for n in range(4)}
    return build.graph({**sums, **small})


def _rows() -> Graph:
    build = Builder()
    x = _input(build, "x", 600, 1000)
    total = build.add(Broadcast((600, 1000), (0,)), build.add(Sum((1,)), build.add(Exp(), x)))
    return build.graph({"y": build.add(Sum((0,)), build.add(Mul(), x, total))})


def _products() -> Graph:
    build = Builder()
    x, w = _input(build, "x", 130, 96), _input(build, "w", 96, 70)
    y = build.add(MatMul(), x, w)
    narrow = build.add(MatMul(), y, _input(build, "v", 70, 9))
    return build.graph({"y": build.add(Exp(), y), "z": narrow})


def _images() -> Graph:
    build = Builder()
    x, w = _input(build, "x", 2, 16, 12, 12), _input(build, "w", 32, 16, 3, 3)
    return build.graph({"y": build.add(Conv((1, 1), (1, 1), (1, 1), 1), x, w)})


def _halves() -> Graph:
    build = Builder()
    x = _input(build, "x", 50, 8, dtype=DType.F16)
    y = build.add(Cast(DType.F16), build.add(Exp(), build.add(Cast(DType.F32), x)))
    return build.graph({"y": y, "z": build.add(Sum((1,)), x)})


def _rounded() -> Graph:
    """Halves within a kernel whose tensors are all of single precision."""
    build = Builder()
    x = _input(build, "x", 50)
    half = build.add(Cast(DType.F16), x)
    return build.graph({"y": build.add(Cast(DType.F32), build.add(Mul(), half, half))})


HALVES = """\
block Net()(x: f16[n, s]) -> f16[n, s]:
  h = x[:, 0]
  scan t in 0..s:
    h = maximum(h, x[:, t])
    y[:, t] = h
  return y
model net = Net()
"""


def _updates() -> Graph:
    build = Builder()
    x = _input(build, "x", 8, 64)
    w = [build.add(Parameter(f"w{n}", DType.F32, (64,), "param")) for n in range(6)]
    moved = {f"w{n}": build.add(Sub(), each, build.add(Sum((0,)), x)) for n, each in enumerate(w)}
    return build.graph({"y": build.add(Cumulative("sum", 0), x)}, moved)


def _table() -> Graph:
    build = Builder()
    ids, table = _input(build, "id", 9, dtype=DType.I32), _input(build, "t", 2048, 16)
    return build.graph({"y": build.add(Gather(0), table, ids)})


def _attention(keys: int, *, trains: bool) -> Graph:
    build = Builder()
    op = Attention(0.125, causal=False)
    q = _input(build, "q", 1, 2, 33, 16)
    k, v = (_input(build, name, 1, 2, keys, 16) for name in "kv")
    results = build.add_all(op, q, k, v)
    outputs = {"y": results[0]}
    if trains:
        found = op.pullback(build, results, (_input(build, "dy", 1, 2, 33, 16), None))
        outputs |= {f"d{name}": each for name, each in zip("qkv", found, strict=False) if each}
    return build.graph(outputs)


def _parts() -> Graph:
    """Parts of caches, some of one shape and place, others not."""
    build = Builder()
    x = _input(build, "x", 1, 8)
    at, other = (build.add(Input(name, DType.I32, ())) for name in ("at", "other"))
    zero = build.add(Constant(0, DType.I32))
    updates: dict[str, Value] = {}
    for number, (rows, place) in enumerate(((1, at), (1, at), (2, at), (1, other), (2, other))):
        cache = build.add(Parameter(f"c{number}", DType.F32, (16, 8), "cache"))
        part = build.add(Broadcast((rows, 8), (1,)), build.add(Reshape((8,)), x))
        updates[f"c{number}"] = build.add(
            DynamicUpdate(), cache, build.add(Exp(), part), place, zero
        )
    return build.graph({"y": build.add(Sum((1,)), x)}, updates)


def _rows_of(count: int, terms: int, axis: int) -> Graph:
    build = Builder()
    shape = (count, terms) if axis else (terms, count)
    x = _input(build, "x", *shape)
    largest = build.add(ArgMax(axis), x)
    return build.graph({"y": build.add(Sum((axis,)), build.add(Exp(), x)), "at": largest})


GRAPHS: Mapping[str, Callable[[], Graph]] = {
    "parts": _parts,
    **{
        f"{count} rows along {axis}": partial(_rows_of, count, terms, axis)
        for count, terms, axis in (
            (511, 9000, 1),
            (512, 9000, 1),
            (512, 1000, 1),
            (2047, 300, 0),
            (2048, 300, 0),
            (64, 4097, 0),
        )
    },
    "many operands": _many_operands,
    "joined": _joined,
    "deep": _deep,
    "side by side": _side_by_side,
    "rows": _rows,
    "products": _products,
    "images": _images,
    "halves": _halves,
    "updates": _updates,
    "table": _table,
    "loops": lambda: forward(NESTED),
    "large loops": lambda: forward(NESTED, n=60, s=5),
    "loops of halves": lambda: forward(HALVES),
    "rounded": _rounded,
    "attention": lambda: _attention(40, trains=False),
    "attention of many keys": lambda: _attention(4000, trains=False),
    "attention and its gradients": lambda: _attention(40, trains=True),
}


SHOWN = (
    *(f"{name}: {limit}" for name in ("parts", "deep") for limit in ABOUT),
    *(f"{name}: storage_buffers" for name in ("many operands", "side by side", "loops", "updates")),
    *(f"attention: {limit}" for limit in FEW["attention"]),
)
"""The graphs and limits of which is shown what gives the same plan."""


def texts() -> Iterator[Text]:
    """Of each graph and limit the values that give one plan, with these plans or without."""
    for name in GRAPHS:
        for limit in FEW.get(name, ABOUT):
            yield Text("plans", f"{name}, {limit}", partial(_plans, name, limit))
            if f"{name}: {limit}" in SHOWN:
                yield Text(name, limit, partial(_lines, name, limit))


def _plans(name: str, limit: str) -> str:
    return "\n".join(f"{line}\n{plan}" for line, plan in _outcomes(name, limit))


def _lines(name: str, limit: str) -> str:
    return "\n".join(line for line, _ in _outcomes(name, limit))


@lru_cache(maxsize=1)
def _outcomes(name: str, limit: str) -> Sequence[tuple[str, str]]:
    """For values of a limit that give one plan, one after another, a line about it and the plan."""
    graph = GRAPHS[name]()
    fused = {step_name(graph): FusionConfig(fuse_attention=True)} if "att" in name else {}
    choices = TunedConfigs("", {}, fused)
    style = Style.SOFTWARE_VULKAN if limit == "lanes" else Style.GPU
    said = [
        (str(value), *_said(graph, replace(PORTABLE, **{limit: value}), style, choices))
        for value in FEW.get(name, ABOUT)[limit]
    ]
    return [
        (f"{', '.join(value for value, *_ in same)}: {line}", plan)
        for (line, plan), same in groupby(said, key=lambda one: one[1:])
    ]


def _said(
    graph: Graph, limits: DeviceLimits, style: Style, choices: TunedConfigs
) -> tuple[str, str]:
    """A line about the plan and the plan itself, or the limit that is exceeded."""
    try:
        plan = plan_graph(graph, limits, style, choices)
    except LimitError as error:
        return str(error), ""
    memory = plan_memory(graph, limits, style, choices)
    roles = {str(role): size for role, size in sorted(memory.roles.items())}
    return f"{len(plan.dispatches)} dispatches", f"{text_of(plan)} {memory.held} {roles}"


SNAPSHOT = Snapshot("tests.plans.limits", texts, SHOWN)

if __name__ == "__main__":
    SNAPSHOT.main()
