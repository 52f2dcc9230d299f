"""Ways that tuning tries for contractions, on adapters of several kinds.

`ways.txt` has of each contraction of small graphs the graph in which it is timed, the planner's
way, and all others. A way that is left out, or tried twice, is seen there, whether or not it was
meant.

`python -m tests.runtime.backends.webgpu.tuning.ways` writes the file anew; read the difference
before you keep it.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from zlib import crc32

from meganeura_dsl.ir.graph import Builder, Graph, Op, Value
from meganeura_dsl.ir.ops import Conv, Exp, Input, MatMul, Mul
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.config.kernel_config import KernelConfig, Tile
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.config.tuned_configs import is_possible
from meganeura_runtime.backends.webgpu.tuning.search_space import (
    first_configs,
    nearby_configs,
    planned,
    subjects,
    tiles,
)

FILE = Path(__file__).with_suffix(".txt")
TARGETS = {
    "a GPU": Target(DeviceLimits(lanes=32), Style.GPU),
    "a small GPU": Target(DeviceLimits(workgroup_bytes=6000, invocations=100), Style.GPU),
    "a GPU without subgroups": Target(DeviceLimits(), Style.GPU),
    "a CPU": Target(DeviceLimits(), Style.SOFTWARE_VULKAN),
    "a CPU with subgroups": Target(DeviceLimits(lanes=8), Style.SOFTWARE_VULKAN),
}
Shape = tuple[int, ...]
CASES: dict[str, tuple[Op, Shape, Shape]] = {
    "matrices": (MatMul(), (96, 64), (64, 80)),
    "a vector": (MatMul(), (1, 512), (512, 40)),
    "many terms": (MatMul(), (8, 20_000), (20_000, 8)),
    "large matrices": (MatMul(), (1024, 1024), (1024, 1024)),
    "a batch": (MatMul(transpose_right=True), (4, 33, 48), (4, 17, 48)),
    "turned": (MatMul(transpose_left=True), (300, 12), (300, 20)),
    "images": (Conv((1, 1), (1, 1), (1, 1), 1), (2, 16, 20, 20), (24, 16, 3, 3)),
    "groups": (Conv((2, 2), (0, 0), (1, 1), 4), (1, 8, 9, 9), (8, 2, 3, 3)),
}  # fmt: skip


def described() -> Iterator[str]:
    """All lines of the file."""
    for kind, target in TARGETS.items():
        for name, case in CASES.items():
            for one in subjects(_graph(*case), target):
                yield f"# {name} on {kind}: {one.count} times {one.title}, {one.whole.name}"
                yield from format_graph(one.graph).splitlines()
                default, first = planned(one.whole, target), first_configs(one.whole, target)
                yield f"first {default}, then {_listed(first)}"
                for best in (default, *first[1:4]):
                    near = nearby_configs(best, default, one.whole, target.style)
                    yield f"about {best}: {_listed(near)}"
    yield f"tiles: {_sum(tiles())} of {len(tiles())}"
    for kind, target in TARGETS.items():
        possible = [is_possible(config, target.limits) for config in _any_configs()]
        yield f"possible on {kind}: {_sum(possible)}, {sum(possible)} of {len(possible)}"


def _any_configs() -> Iterator[KernelConfig]:
    """Sensible configs and others."""
    yield from (KernelConfig(parts) for parts in (-1, 0, 1, 7))
    yield from (KernelConfig(1, rows=rows) for rows in (-1, 0, 1, 3, 128, 129, 1 << 20))
    sides, terms = (0, 8, 16, 24, 32, 64, 128, 256), (0, 4, 8, 12, 16, 32)
    for sizes in product(sides, sides, terms, (0, 4, 6, 8), (1, 4, 8)):
        yield KernelConfig(1, Tile(*sizes))


def _graph(op: Op, left: Shape, right: Shape) -> Graph:
    """The contraction twice, of values that are computed before and used behind it."""
    build = Builder()
    x, y = build.add(Input("x", DType.F32, left)), build.add(Input("y", DType.F32, right))
    again = build.add(Mul(), x, x)
    results: list[Value] = [build.add(op, build.add(Exp(), x), y), build.add(op, again, y)]
    return build.graph({"z": build.add(Mul(), *results), "again": again})


def _listed(configs: list[KernelConfig]) -> str:
    few = [str(each) for each in configs[:2]]
    return f"{len(configs)} ({_sum(configs)}), {'; '.join(few)}"


def _sum(values: object) -> str:
    return f"{crc32(str(values).encode()):08x}"


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
