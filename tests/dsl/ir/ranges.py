"""Known ranges of the values of random graphs of whole numbers, in a line each.

`ranges.txt` has of each graph, by its seed, the range of each value that has one. An analysis that
says less, or takes a range for another, is seen there; that ranges hold all values is judged by
values drawn from those of the leaves, in `test_ranges`.

`python -m tests.dsl.ir.ranges` writes the file anew; read the difference before you keep it.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Array, Builder, Graph, Value
from meganeura_dsl.ir.interval_analysis import Range, ranges_of
from meganeura_dsl.ir.types import DType

FILE = Path(__file__).with_suffix(".txt")
SEEDS = range(80)
SHAPE = (2, 3)
KNOWN = {
    "small": Range(0, 4), "about": Range(-3, 2), "below": Range(-9, -2), "above": Range(5, 6),
    "wide": Range(-(1 << 30), 1 << 30),
}  # fmt: skip
LEAVES = (*KNOWN, "any")
"""`any` may be any number."""
Make = Callable[[Builder, random.Random, Callable[[], Value]], Value]


def _sorted(build: Builder, draw: random.Random, some: Callable[[], Value]) -> Value:
    op = ops.Sort(draw.randrange(2), draw.random() < 0.5)
    return build.add_all(op, some())[draw.randrange(2)]


def _reduced(build: Builder, draw: random.Random, some: Callable[[], Value]) -> Value:
    axis = draw.randrange(2)
    op = draw.choice((ops.Sum((axis,)), ops.ReduceMax((axis,)), ops.ArgMax(axis)))
    return build.add(ops.Broadcast(SHAPE, (1 - axis,)), build.add(op, some()))


def _padded(build: Builder, draw: random.Random, some: Callable[[], Value]) -> Value:
    padded = build.add(ops.Pad((1, 0), (0, 0), (0, 0)), some())
    start = draw.randrange(2)
    return build.add(ops.Slice((start, 0), (start + 2, 3), (1, 1)), padded)


def _joined(build: Builder, draw: random.Random, some: Callable[[], Value]) -> Value:
    joined = build.add(ops.Concat(0), some(), some())
    start = draw.randrange(3)
    return build.add(ops.Slice((start, 0), (start + 2, 3), (1, 1)), joined)


def _replaced(build: Builder, _: random.Random, some: Callable[[], Value]) -> Value:
    part = build.add(ops.Slice((0, 0), (1, 2), (1, 1)), some())
    zero = build.add(ops.Constant(0, DType.I32))
    return build.add(ops.DynamicUpdate(), some(), part, zero, zero)


def _taken(build: Builder, _: random.Random, some: Callable[[], Value]) -> Value:
    zero = build.add(ops.Constant(0, DType.I32))
    part = build.add(ops.DynamicSlice((1, 3)), some(), zero, zero)
    return build.add(ops.Gather(0), part, build.add(ops.Remainder(1), build.add(ops.Iota(2))))


def _cast(build: Builder, draw: random.Random, some: Callable[[], Value]) -> Value:
    way = draw.choice((DType.F32, DType.BOOL, DType.F16))
    other = build.add(ops.Cast(way), some())
    if way is DType.F32:
        half = build.add(ops.Broadcast(SHAPE, ()), build.add(ops.Constant(1.5, DType.F32)))
        turned = build.add(
            draw.choice((ops.Floor(), ops.Round())), build.add(ops.Mul(), other, half)
        )
        other = draw.choice((other, turned, turned))
    return build.add(ops.Cast(DType.I32), other)


def _chosen(build: Builder, _: random.Random, some: Callable[[], Value]) -> Value:
    return build.add(ops.Where(), build.add(ops.Compare("lt"), some(), some()), some(), some())


def _running(build: Builder, draw: random.Random, some: Callable[[], Value]) -> Value:
    kind = draw.choice(("sum", "max", "min"))
    return build.add(ops.Cumulative(kind, draw.randrange(2), draw.random() < 0.5), some())


def _divided(build: Builder, draw: random.Random, some: Callable[[], Value]) -> Value:
    return build.add(draw.choice((ops.FloorDivide, ops.Remainder))(draw.choice((2, 3, 7))), some())


def _one(build: Builder, draw: random.Random, some: Callable[[], Value]) -> Value:
    return build.add(draw.choice((ops.Neg(), ops.Abs())), some())


def _two(build: Builder, draw: random.Random, some: Callable[[], Value]) -> Value:
    pairs = (ops.Add(), ops.Sub(), ops.Mul(), ops.Maximum(), ops.Minimum())
    return build.add(draw.choice(pairs), some(), some())


MAKERS: tuple[Make, ...] = (
    _sorted, _reduced, _padded, _joined, _replaced, _taken, _cast, _chosen, _running, _divided,
    _one, _one, _two, _two, _two,
)  # fmt: skip


def graph_of(seed: int) -> Graph:
    """A random graph of whole numbers."""
    draw, build = random.Random(seed), Builder()
    values = [build.add(ops.Input(name, DType.I32, SHAPE)) for name in LEAVES]
    for _ in range(16):
        values.append(draw.choice(MAKERS)(build, draw, lambda: draw.choice(values)))
    return build.graph({f"y{number}": each for number, each in enumerate(values)})


def feeds(seed: int) -> Mapping[str, Array]:
    """Numbers within the ranges of the leaves, their ends among them."""
    generator = np.random.default_rng(seed)
    limits = {**{name: (each.low, each.high) for name, each in KNOWN.items()}}
    limits["any"] = (-(1 << 31), (1 << 31) - 1)
    drawn: dict[str, Array] = {}
    for name, (low, high) in limits.items():
        array = generator.integers(low, high, SHAPE, endpoint=True)
        ends = generator.choice((low, high), SHAPE)
        drawn[name] = np.where(generator.random(SHAPE) < 0.5, ends, array).astype(np.int32)
    return drawn


def described() -> Iterator[str]:
    """All lines of the file."""
    for seed in SEEDS:
        graph = graph_of(seed)
        found = ranges_of(graph, KNOWN)
        shown = [
            f"%{value.id} {type(value.op).__name__} {found[value.id].low}..{found[value.id].high}"
            for value in graph.values[len(LEAVES) :]
            if value.id in found
        ]
        yield f"{seed}: {', '.join(shown)}"


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
