"""Choices of the planner around powers of two, where one way to compute gives way to another.

`boundaries.snap` has some lowered graphs and the ways in which products of some sizes would be
computed, and for each adapter a checksum of all of these and of the plans of small graphs of many
sizes. Whatever moves a threshold is seen there, whether or not it was meant.

`python -m tests.plans.boundaries` writes the file anew; read the difference before you keep it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from meganeura_dsl.ir.graph import Builder, Graph, Op
from meganeura_dsl.ir.ops import (
    ArgMax,
    Conv,
    Cumulative,
    Exp,
    Gather,
    Input,
    LinearRecurrence,
    MatMul,
    ReduceMax,
    ScatterAdd,
    Sort,
    Sum,
    Transpose,
)
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import named_contraction
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.passes.legalize import legalize
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.tuning.search_space import planned
from tests.plans.golden import text_of
from tests.snapshots import Snapshot, Text

Shape = tuple[int, ...]
Operand = Shape | TensorType
Made = Callable[[int], tuple[Op, *tuple[Operand, ...]]]
ADAPTERS = {
    "GPU": Target(PORTABLE),
    "large GPU": Target(DeviceLimits(invocations=1024, workgroup_bytes=1 << 16)),
    "software": Target(DeviceLimits(), Style.SOFTWARE_VULKAN),
    "software, 8 lanes": Target(DeviceLimits(lanes=8), Style.SOFTWARE_VULKAN),
    "software, 4 lanes": Target(DeviceLimits(lanes=4), Style.SOFTWARE_VULKAN),
    "little": Target(replace(PORTABLE, storage_buffers=4, workgroups=2, invocations=64)),
}
WITH_KERNELS = ("GPU", "software, 8 lanes", "little")
POWERS = (1, 4, 16, 32, 64, 128, 256, 1 << 10, 1 << 13, 1 << 16)
SIZES = tuple(sorted({power + off for power in POWERS for off in (-1, 0, 1)} - {0}))
SIDES = (1, 8, 31, 33, 64, 65, 129, 257, 4097)
"""Of products."""


def _ids(*shape: int) -> Operand:
    return TensorType(DType.I32, shape)


LOWERED: Mapping[str, Made] = {
    "sum": lambda n: (Sum((0,)), (n,)),
    "sums of rows": lambda n: (Sum((1,)), (9, n)),
    "sums of columns": lambda n: (Sum((0,)), (n, 9)),
    "sums of few": lambda n: (Sum((0,)), (9, n)),
    "sums of three": lambda n: (Sum((0, 2)), (3, 5, n)),
    "sums of two long": lambda n: (Sum((0, 2)), (1 << 13, 5, n)),
    "largest": lambda n: (ReduceMax((1,)), (3, n)),
    "first largest": lambda n: (ArgMax(0), (n, 2)),
    "accumulated": lambda n: (Cumulative("sum", 0), (n, 2)),
    "recurrence": lambda n: (LinearRecurrence(1), (2, n), (2, n)),
    "in order": lambda n: (Sort(0), (min(n, 5000),)),
    "rows added": lambda n: (ScatterAdd(0, 9), _ids(n), (n, 4)),
    "to many rows": lambda n: (ScatterAdd(0, n), _ids(9), (9, 4)),
    "many to many rows": lambda n: (ScatterAdd(0, n), _ids(256), (256, 4)),
    "to rows of many": lambda n: (ScatterAdd(1, n, 1), _ids(9, 64), (9, 64, 4)),
    "product": lambda n: (MatMul(), (5, n), (n, 7)),
    "vector": lambda n: (MatMul(), (1, 64), (64, n)),
    "vectors": lambda n: (MatMul(transpose_left=True), (2, n, 1), (2, n, 17)),
}
PLANNED: Mapping[str, Made] = {
    "elements": lambda n: (Exp(), (n, 3)),
    "moved": lambda n: (Transpose((1, 0)), (n, 5)),
    "rows": lambda n: (Gather(0), (n, 4), _ids(7)),
    "long rows": lambda n: (Gather(0), (7, n), _ids(3)),
    "sum": lambda n: (Sum((0,)), (n,)),
    "sums of rows": lambda n: (Sum((1,)), (9, n)),
    "sums of columns": lambda n: (Sum((0,)), (n, 9)),
    "many sums": lambda n: (Sum((1,)), (n, 40)),
    "first largest": lambda n: (ArgMax(1), (4, n)),
}


SHOWN = (
    "GPU: lowered sums of rows of 257",
    "GPU: lowered accumulated of 1025",
    "GPU: lowered to rows of many of 127",
    "software, 8 lanes: lowered vector of 64",
    "little: lowered sum of 8193",
    "GPU: products of 33 rows",
    "software, 8 lanes: products of 33 rows",
    "GPU: images of 14",
    "little: images of 14",
)
"""The lowered graphs and the ways to compute products that are shown whole."""


def texts() -> Iterator[Text]:
    """Lowered graphs, plans, and the ways in which products and images are computed."""
    for adapter, target in ADAPTERS.items():
        for name, made in LOWERED.items():
            for size in SIZES:
                yield Text(
                    adapter, f"lowered {name} of {size}", partial(_lowered, made, size, target)
                )
        for name, made in PLANNED.items() if adapter in WITH_KERNELS else ():
            for size in SIZES:
                yield Text(
                    adapter, f"planned {name} of {size}", partial(_planned, made, size, target)
                )
        for batch in ((), (100,)):
            for rows in SIDES:
                of = " x ".join(map(str, (*batch, rows)))
                yield Text(
                    adapter, f"products of {of} rows", partial(_products, batch, rows, target)
                )
        for size in (1, 7, 14, 28, 56):
            yield Text(adapter, f"images of {size}", partial(_images, size, target))


def _lowered(made: Made, size: int, target: Target) -> str:
    return format_graph(legalize(_graph(*made(size)), target))


def _planned(made: Made, size: int, target: Target) -> str:
    return text_of(plan_graph(_graph(*made(size)), target.limits, target.style))


def _products(batch: Shape, rows: int, target: Target) -> str:
    """The ways of products with so many rows."""
    ways = (
        f"{terms} terms, {columns} columns: "
        + _way(MatMul(), (*batch, rows, terms), (*batch, terms, columns), target)
        for terms in SIDES
        for columns in SIDES
    )
    return "\n".join(ways)


def _images(size: int, target: Target) -> str:
    """The ways of convolutions of images of a size."""
    ways = (
        f"{taps} x {taps} taps, {inputs} to {outputs} channels: "
        + _way(Conv((1, 1), (taps // 2,) * 2, (1, 1), 1), x, w, target)
        for taps in (1, 3)
        for inputs in (3, 16, 64)
        for outputs in (8, 64, 65)
        for x, w in [((4, inputs, size, size), (outputs, inputs, taps, taps))]
    )
    return "\n".join(ways)


def _graph(op: Op, *operands: Operand) -> Graph:
    build = Builder()
    types = (x if isinstance(x, TensorType) else TensorType(DType.F32, x) for x in operands)
    inputs = [build.add(Input(f"x{n}", each.dtype, each.shape)) for n, each in enumerate(types)]
    return build.graph({f"y{n}": each for n, each in enumerate(build.add_all(op, *inputs))})


def _way(op: Op, left: Shape, right: Shape, target: Target) -> str:
    build = Builder()
    inputs = [build.add(Input(f"x{n}", DType.F32, each)) for n, each in enumerate((left, right))]
    return str(planned(named_contraction(op, *inputs), target))


SNAPSHOT = Snapshot("tests.plans.boundaries", texts, SHOWN)

if __name__ == "__main__":
    SNAPSHOT.main()
