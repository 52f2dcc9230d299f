"""Small random graphs of every kind of op, with feeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from meganeura_dsl.ir.graph import Array, Builder, Graph, Value
from meganeura_dsl.ir.ops import (
    Abs,
    Add,
    ArgMax,
    Broadcast,
    Cast,
    Compare,
    Concat,
    Gather,
    Input,
    Iota,
    MatMul,
    Maximum,
    Minimum,
    Mul,
    Neg,
    Pad,
    Parameter,
    ReduceMax,
    Reshape,
    Reverse,
    ScatterAdd,
    Slice,
    Sub,
    Sum,
    Tanh,
    Transpose,
    Where,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType

MOST_ELEMENTS = 200
MOST_VALUE = 1000


@dataclass(frozen=True)
class Example:
    """A graph and what a run of it is fed."""

    graph: Graph
    feeds: dict[str, Array]


class Drawing:
    """A graph being drawn, of which all leaves have axes of some sizes.

    Floats are small whole numbers, so that ties and comparisons are exact, except for what `Tanh`
    gives, which is in `rough` and is not compared.
    """

    def __init__(self, draw: st.DrawFn, sizes: Sequence[int] = range(1, 6)) -> None:
        self.draw = draw
        self.sizes = sizes
        self.build = Builder()
        self.values: list[Value] = []
        self.rough: set[int] = set()
        self.bound: dict[int, float] = {}

    def pick(self, wanted: Callable[[Value], bool]) -> Value | None:
        found = [value for value in self.values if wanted(value)]
        return self.draw(st.sampled_from(found)) if found else None

    def shape(self) -> tuple[int, ...]:
        return tuple(self.draw(st.lists(st.sampled_from(self.sizes), min_size=1, max_size=3)))

    def leaves(self) -> dict[str, Array]:
        feeds: dict[str, Array] = {}
        generator = np.random.default_rng(self.draw(st.integers(0, 99)))
        for number in range(self.draw(st.integers(2, 4))):
            shape = self.shape()
            for kind in ("x", "p"):
                name = f"{kind}{number}"
                leaf = Input if kind == "x" else Parameter
                op = (
                    Input(name, DType.F32, shape)
                    if leaf is Input
                    else Parameter(name, DType.F32, shape, "param")
                )
                feeds[name] = generator.integers(-3, 4, shape).astype(np.float32)
                self.keep(self.build.add(op), 3, rough=False)
        return feeds

    def keep(self, value: Value, bound: float, *, rough: bool) -> None:
        elements = int(np.prod(concrete_shape(value.type.shape), dtype=np.int64))
        if bound <= MOST_VALUE and elements <= MOST_ELEMENTS:
            self.values.append(value)
            self.bound[value.id] = bound
            if rough:
                self.rough.add(value.id)

    def grow(self, steps: "Sequence[DrawnStep]") -> None:
        """One more op, most often on what was made last, so that graphs get deep."""
        recent = self.draw(st.integers(0, 3)) > 0
        x = self.draw(st.sampled_from(self.values[-3:] if recent else self.values))
        step = self.draw(st.sampled_from(steps))
        step(self, x)


DrawnStep = Callable[[Drawing, Value], None]


def like(drawing: Drawing, x: Value) -> Value:
    other = drawing.pick(lambda value: value.type == x.type)
    return x if other is None else other


def _unary(d: Drawing, x: Value) -> None:
    op = d.draw(st.sampled_from((Neg(), Abs(), Tanh())))
    rough = isinstance(op, Tanh) or x.id in d.rough
    d.keep(d.build.add(op, x), 1 if isinstance(op, Tanh) else d.bound[x.id], rough=rough)


def _binary(d: Drawing, x: Value) -> None:
    y = like(d, x)
    op = d.draw(st.sampled_from((Add(), Sub(), Mul(), Maximum(), Minimum())))
    a, b = d.bound[x.id], d.bound[y.id]
    bound = a * b if isinstance(op, Mul) else a + b
    d.keep(d.build.add(op, x, y), bound, rough=bool({x.id, y.id} & d.rough))


def _choice(d: Drawing, x: Value) -> None:
    y = like(d, x)
    if {x.id, y.id} & d.rough:
        return
    relation = d.build.add(Compare(d.draw(st.sampled_from(("lt", "eq", "ge")))), x, y)
    d.keep(
        d.build.add(Where(), relation, y, full(d.build, x.type, 2)), d.bound[y.id] + 2, rough=False
    )
    d.keep(d.build.add(Cast(DType.F32), relation), 1, rough=False)


def _reduction(d: Drawing, x: Value) -> None:
    axes = tuple(axis for axis in range(x.type.rank) if d.draw(st.booleans())) or (x.type.rank - 1,)
    if x.type.rank == 0:
        return
    if d.draw(st.booleans()):
        d.keep(d.build.add(ReduceMax(axes), x), d.bound[x.id], rough=x.id in d.rough)
        return
    count = np.prod([concrete_shape(x.type.shape)[axis] for axis in axes])
    d.keep(d.build.add(Sum(axes), x), d.bound[x.id] * float(count), rough=x.id in d.rough)


def _first_maximum(d: Drawing, x: Value) -> None:
    if x.type.rank and x.id not in d.rough:
        axis = d.draw(st.integers(0, x.type.rank - 1))
        found = d.build.add(ArgMax(axis), x)
        d.keep(d.build.add(Cast(DType.F32), found), 5, rough=False)


def _broadcast(d: Drawing, x: Value) -> None:
    at = d.draw(st.integers(0, x.type.rank))
    size = d.draw(st.integers(1, 3))
    shape = (*x.type.shape[:at], size, *x.type.shape[at:])
    axes = tuple(axis for axis in range(len(shape)) if axis != at)
    d.keep(d.build.add(Broadcast(shape, axes), x), d.bound[x.id], rough=x.id in d.rough)


def _movement(d: Drawing, x: Value) -> None:
    shape = concrete_shape(x.type.shape)
    rank = len(shape)
    if not rank:
        return
    axis = d.draw(st.integers(0, rank - 1))
    ones, none = (1,) * rank, (0,) * rank
    start = tuple(d.draw(st.integers(0, size - 1)) for size in shape)
    gaps = tuple(d.draw(st.integers(0, 1)) for _ in shape)
    op = d.draw(
        st.sampled_from(
            (
                Reshape((int(np.prod(shape)),)),
                Reshape((*shape[:axis], 1, *shape[axis:])),
                Reshape(shape[::-1]),
                Transpose(tuple(d.draw(st.permutations(range(rank))))),
                Reverse((axis,)),
                Slice(start, shape, ones),
                Slice(none, shape, tuple(gap + 1 for gap in gaps)),
                Pad(gaps, gaps[::-1], gaps),
            )
        )
    )
    d.keep(d.build.add(op, x), d.bound[x.id], rough=x.id in d.rough)


def _joined(d: Drawing, x: Value) -> None:
    if x.type.rank:
        y = like(d, x)
        joined = d.build.add(Concat(d.draw(st.integers(0, x.type.rank - 1))), x, y, x)
        bound = max(d.bound[x.id], d.bound[y.id])
        d.keep(joined, bound, rough=bool({x.id, y.id} & d.rough))


def _rows(d: Drawing, x: Value) -> None:
    if x.type.rank:
        shape = concrete_shape(x.type.shape)
        ids = d.build.add(Iota(d.draw(st.integers(1, shape[0]))))
        rough = x.id in d.rough
        taken = d.build.add(Gather(0), x, d.build.add(Reverse((0,)), ids))
        d.keep(taken, d.bound[x.id], rough=rough)
        all_ids = d.build.add(Iota(shape[0]))
        half = d.build.add(Minimum(), all_ids, full(d.build, all_ids.type, 1))
        spread = d.build.add(ScatterAdd(0, 3), half, x)
        d.keep(spread, d.bound[x.id] * shape[0], rough=rough)


def _product(d: Drawing, x: Value) -> None:
    if x.type.rank < 2:
        return
    columns, terms = x.type.shape[-1], x.type.shape[-2]
    y = d.pick(lambda v: v.type.rank == 2 and v.type.shape[0] == columns)
    if y is not None:
        bound = d.bound[x.id] * d.bound[y.id] * float(str(columns))
        d.keep(d.build.add(MatMul(), x, y), bound, rough=bool({x.id, y.id} & d.rough))
    if x.type.rank == 2:
        square = d.build.add(MatMul(transpose_left=True), x, x)
        d.keep(square, d.bound[x.id] ** 2 * float(str(terms)), rough=x.id in d.rough)


STEPS: tuple[DrawnStep, ...] = (
    _unary,
    _binary,
    _binary,
    _choice,
    _reduction,
    _first_maximum,
    _broadcast,
    _movement,
    _movement,
    _joined,
    _rows,
    _product,
)


@st.composite
def examples(
    draw: st.DrawFn, sizes: Sequence[int] = range(1, 6), steps: Sequence[DrawnStep] = STEPS
) -> Example:
    """Graphs whose outputs may be any values, and whose updates any of the right shape."""
    drawing = Drawing(draw, sizes)
    feeds = drawing.leaves()
    for _ in range(draw(st.integers(8, 24))):
        drawing.grow(steps)
    others = draw(st.lists(st.sampled_from(drawing.values[-8:]), max_size=3))
    outputs = {f"y{n}": value for n, value in enumerate((drawing.values[-1], *others))}
    updates: dict[str, Value] = {}
    for name in feeds:
        if name.startswith("p") and draw(st.booleans()):
            leaf = drawing.pick(lambda v, name=name: getattr(v.op, "name", None) == name)
            if leaf is not None:
                fitting = [value for value in drawing.values if value.type == leaf.type]
                updates[name] = draw(st.sampled_from(fitting[-4:]))
    return Example(drawing.build.graph(outputs, updates), feeds)
