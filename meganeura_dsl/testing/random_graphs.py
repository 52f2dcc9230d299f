"""Random well-typed graphs, for properties that every graph should have."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from hypothesis import strategies as st

from meganeura_dsl.gradcheck.random_inputs import InputDistribution, RandomInputs
from meganeura_dsl.ir.graph import Array, Builder, Graph, Op, Value
from meganeura_dsl.ir.ops import (
    Abs,
    Add,
    Broadcast,
    Cast,
    Compare,
    Concat,
    Constant,
    Conv,
    Cos,
    Cumulative,
    Div,
    DynamicSlice,
    DynamicUpdate,
    Erf,
    Exp,
    Expm1,
    Gather,
    Input,
    Iota,
    LinearRecurrence,
    Log,
    Log1p,
    Logistic,
    MatMul,
    Maximum,
    MaxPool,
    Minimum,
    Mul,
    Neg,
    Pad,
    Parameter,
    ReduceMax,
    Reshape,
    Reverse,
    ScatterAdd,
    ScatterExtreme,
    Sin,
    Slice,
    Sort,
    Sqrt,
    Sub,
    Sum,
    Tanh,
    Transpose,
    Where,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType

MOST_ELEMENTS = 120
LONGEST_AXIS = 4


@dataclass(frozen=True)
class GraphExample:
    """A graph, and numbers for all it reads."""

    graph: Graph
    feeds: dict[str, Array]


@st.composite
def graphs(
    draw: st.DrawFn,
    *,
    most_ops: int = 12,
    distribution: InputDistribution = InputDistribution.SMOOTH,
) -> GraphExample:
    """Graphs of inputs and parameters, with one to three outputs; every size is a number.

    Numbers stay of moderate size: what would grow is squeezed through a sigmoid-like op first.
    """
    build = Builder()
    values = [_leaf(draw, build, index) for index in range(draw(st.integers(1, 3)))]
    for _ in range(draw(st.integers(1, most_ops))):
        recent = values[-4:] if draw(st.booleans()) else values
        built = draw(st.sampled_from(STEPS))(draw, build, draw(st.sampled_from(recent)), values)
        if built is not None and prod(concrete_shape(built.type.shape)) <= MOST_ELEMENTS:
            values.append(built)
    ends = [values[-1], *draw(st.lists(st.sampled_from(values), max_size=2))]
    graph = build.graph({f"y{index}": value for index, value in enumerate(ends)})
    return GraphExample(graph, RandomInputs(draw(st.integers(0, 999)), distribution).feeds(graph))


def _leaf(draw: st.DrawFn, build: Builder, index: int) -> Value:
    shape = tuple(draw(st.lists(st.integers(1, LONGEST_AXIS), min_size=1, max_size=4)))
    if draw(st.booleans()):
        return build.add(Input(f"x{index}", DType.F32, shape))
    return build.add(Parameter(f"w{index}", DType.F32, shape, "param"))


Step = Callable[[st.DrawFn, Builder, Value, Sequence[Value]], Value | None]


def _unary(draw: st.DrawFn, build: Builder, x: Value, _: Sequence[Value]) -> Value:
    op = draw(st.sampled_from((Neg(), Abs(), Tanh(), Sin(), Cos(), Erf(), Logistic())))
    return build.add(op, x)


def _bounded(draw: st.DrawFn, build: Builder, x: Value, _: Sequence[Value]) -> Value:
    """Ops that would leave the range of numbers, behind one that does not."""
    small = build.add(Tanh(), x)
    if draw(st.booleans()):
        return build.add(draw(st.sampled_from((Exp(), Expm1()))), small)
    if draw(st.booleans()):
        return build.add(Log1p(), build.add(Mul(), small, x))
    positive = build.add(Add(), small, full(build, x.type, 2))
    if draw(st.booleans()):
        return build.add(draw(st.sampled_from((Log(), Sqrt()))), positive)
    return build.add(Div(), x, positive)


def _binary(draw: st.DrawFn, build: Builder, x: Value, values: Sequence[Value]) -> Value:
    y = draw(st.sampled_from([value for value in values if value.type == x.type]))
    op = draw(st.sampled_from((Add(), Sub(), Mul(), Maximum(), Minimum())))
    return build.add(op, x, build.add(Tanh(), y) if isinstance(op, Mul) else y)


def _choice(draw: st.DrawFn, build: Builder, x: Value, values: Sequence[Value]) -> Value:
    """Elements of two values, by a comparison of their own."""
    y = draw(st.sampled_from([value for value in values if value.type == x.type]))
    is_chosen = build.add(Compare(draw(st.sampled_from(("lt", "ge")))), x, y)
    return build.add(Where(), is_chosen, build.add(Tanh(), x), y)


def _fold(draw: st.DrawFn, build: Builder, x: Value, _: Sequence[Value]) -> Value:
    axes = tuple(axis for axis in range(x.type.rank) if draw(st.booleans()))
    return build.add(ReduceMax(axes) if axes and draw(st.booleans()) else Sum(axes), x)


def _broadcast(draw: st.DrawFn, build: Builder, x: Value, _: Sequence[Value]) -> Value:
    at = draw(st.integers(0, x.type.rank))
    shape = (*x.type.shape[:at], draw(st.integers(1, LONGEST_AXIS)), *x.type.shape[at:])
    return build.add(Broadcast(shape, tuple(a for a in range(len(shape)) if a != at)), x)


def _move(draw: st.DrawFn, build: Builder, x: Value, _: Sequence[Value]) -> Value | None:
    shape = concrete_shape(x.type.shape)
    if not shape:
        return None
    ones, gaps = (1,) * len(shape), tuple(draw(st.integers(0, 2)) for _ in shape)
    start = tuple(draw(st.integers(0, size - 1)) for size in shape)
    moves: tuple[Op, ...] = (
        Reshape((prod(shape),)),
        Reshape((1, *reversed(shape))),
        Transpose(tuple(draw(st.permutations(range(len(shape)))))),
        Reverse((draw(st.integers(0, len(shape) - 1)),)),
        Slice(start, shape, ones),
        Slice((0,) * len(shape), shape, tuple(gap + 1 for gap in gaps)),
        Pad(gaps, gaps[::-1], tuple(gap % 2 for gap in gaps)),
    )
    return build.add(draw(st.sampled_from(moves)), x)


def _join(draw: st.DrawFn, build: Builder, x: Value, values: Sequence[Value]) -> Value | None:
    if not x.type.rank:
        return None
    y = draw(st.sampled_from([value for value in values if value.type == x.type]))
    return build.add(Concat(draw(st.integers(0, x.type.rank - 1))), x, y, x)


def _index(draw: st.DrawFn, build: Builder, x: Value, _: Sequence[Value]) -> Value | None:
    if not x.type.rank:
        return None
    rows = concrete_shape(x.type.shape)[0]
    ids = build.add(Reverse((0,)), build.add(Iota(draw(st.integers(1, rows)))))
    if draw(st.booleans()):
        return build.add(Gather(0), x, ids)
    all_ids = build.add(Iota(rows))
    folded = build.add(Minimum(), all_ids, full(build, all_ids.type, draw(st.integers(0, 2))))
    return build.add(ScatterAdd(0, 3), folded, x)


def _order(draw: st.DrawFn, build: Builder, x: Value, _: Sequence[Value]) -> Value | None:
    """Adds an op along an axis: accumulations, orders, and parts with a computed start."""
    if not x.type.rank:
        return None
    axis, backward = draw(st.integers(0, x.type.rank - 1)), draw(st.booleans())
    small = build.add(Tanh(), x)
    match draw(st.sampled_from(("sum", "prod", "max", "min", "recurrence", "sort", "part", "row"))):
        case "recurrence":
            return build.add(LinearRecurrence(axis, backward), small, x)
        case "sort":
            values, positions = build.add_all(Sort(axis, backward), x)
            return values if draw(st.booleans()) else build.add(Cast(DType.F32), positions)
        case "part":
            return _part(draw, build, x)
        case "row":
            ids = build.add(Iota(x.type.shape[axis]))
            return build.add(ScatterExtreme("min", axis, x.type.shape[axis]), ids, x)
        case kind:
            return build.add(Cumulative(kind, axis, backward), small)


def _part(draw: st.DrawFn, build: Builder, x: Value) -> Value:
    """A part of x, or x with a part of it replaced."""
    shape = concrete_shape(x.type.shape)
    sizes = tuple(draw(st.integers(1, size)) for size in shape)
    starts = [
        build.add(Constant(draw(st.integers(0, whole - size)), DType.I32))
        for whole, size in zip(shape, sizes, strict=True)
    ]
    part = build.add(DynamicSlice(sizes), x, *starts)
    if draw(st.booleans()):
        return part
    return build.add(DynamicUpdate(), build.add(Tanh(), x), part, *starts)


def _product(draw: st.DrawFn, build: Builder, x: Value, values: Sequence[Value]) -> Value | None:
    if x.type.rank < 2:
        return None
    fitting = [v for v in values if v.type.rank == 2 and v.type.shape[0] == x.type.shape[-1]]
    if fitting and draw(st.booleans()):
        return build.add(MatMul(), x, build.add(Tanh(), draw(st.sampled_from(fitting))))
    small = build.add(Tanh(), x)
    return build.add(MatMul(transpose_right=True), x, small)


def _pool(draw: st.DrawFn, build: Builder, x: Value, _: Sequence[Value]) -> Value | None:
    if x.type.rank < 3:
        return None
    spatial = concrete_shape(x.type.shape)[2:]
    window = tuple(draw(st.integers(1, size)) for size in spatial)
    stride = tuple(draw(st.integers(1, 2)) for _ in spatial)
    padding = tuple(draw(st.integers(0, size // 2)) for size in window)
    return build.add(MaxPool(window, stride, padding), x)


def _convolution(draw: st.DrawFn, build: Builder, x: Value, _: Sequence[Value]) -> Value | None:
    """Convolves x with a kernel that is as large as its images."""
    spatial = x.type.rank - 2
    if spatial not in (1, 2):
        return None
    ones, padding = (1,) * spatial, tuple(draw(st.integers(0, 1)) for _ in range(spatial))
    return build.add(Conv(ones, padding, ones, 1), x, build.add(Tanh(), x))


STEPS: tuple[Step, ...] = (
    _unary, _bounded, _binary, _binary, _fold, _broadcast, _move, _move, _join, _index, _product,
    _pool, _order, _choice, _convolution,
)  # fmt: skip
"""Steps by which a graph may grow."""

LEFT_OUT: Mapping[str, str] = {
    "RandomBits": "it reads the counter of a run; tests of `random_uniform` have it",
    "Floor": "gradients are zero, and compared with differences of a step",
    "Round": "as Floor",
    "FloorDivide": "of whole numbers, which no graph here computes with",
    "Remainder": "as FloorDivide",
    "ArgMax": "an index, of which no gradient is; `Sort` gives positions",
    "StopGradient": "no difference sees it",
    "ConvInputGradient": "the gradient of Conv",
    "ConvWeightGradient": "the gradient of Conv",
    "MaxPoolGradient": "the gradient of MaxPool",
    "MaxPoolSelect": "the gradient of the gradient of MaxPool",
    "Scan": "`tests/scans.py` draws loops",
}
"""Primitive ops that no graph begins with, by name, and why not."""
