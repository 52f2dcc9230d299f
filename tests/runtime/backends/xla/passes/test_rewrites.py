"""What is rewritten for XLA gives what it gave, also where it is nearly of the form that is sought.

Each graph is made with one part of the form exchanged. Its values differ from each other, so that
a rewrite that overlooks the part changes the result.
"""

from collections.abc import Callable

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph, Value
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Compare,
    Constant,
    Div,
    Exp,
    Input,
    Maximum,
    Mul,
    Parameter,
    Reshape,
    Sub,
    Sum,
    Where,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.xla.analysis.step_counters import counters_of
from meganeura_runtime.backends.xla.passes.flatten_norm_rows import flatten_norm_rows
from meganeura_runtime.backends.xla.passes.one_pass_variance import in_one_pass
from meganeura_runtime.backends.xla.passes.relu_backward_from_output import from_outputs


def same_results(graph: Graph, rewritten: Graph) -> bool:
    """For random inputs, of which none is that of another."""
    generator = np.random.default_rng(0)
    feeds: dict[str, Array] = {
        value.op.name: generator.standard_normal(concrete_shape(value.type.shape)).astype("f4")
        for value in graph.values
        if isinstance(value.op, Input)
    }
    found, expected = evaluate(rewritten, feeds).outputs, evaluate(graph, feeds).outputs
    return all(np.allclose(found[name], expected[name], 1e-5, 1e-5) for name in expected)


def number(build: Builder, value: float) -> Value:
    return build.add(Constant(value, DType.F32))


# --- deviations in one pass ----------------------------------------------------------------------

SIDE = 5


def deviations(exchanged: str, *, axis: int = 0) -> Graph:
    """The sum of (x - total / 5)^2 along an axis of a square, so that all axes fit all others."""
    build = Builder()
    x, other = (build.add(Input(name, DType.F32, (SIDE, SIDE))) for name in ("x", "other"))
    across = 1 - axis
    summed = other if exchanged == "another total" else x
    total = build.add(Sum((across if exchanged == "total of rows" else axis,)), summed)
    count = SIDE + 1 if exchanged == "another count" else SIDE
    counts = full(build, total.type, float(count))
    if exchanged == "count that differs":
        counts = build.add(Input("counts", DType.F32, (SIDE,)))
    mean = build.add(Div(), total, counts)
    if exchanged == "no quotient":
        mean = build.add(Mul(), total, full(build, total.type, 1 / SIDE))
    kept = axis if exchanged == "spread along it" else across
    spread = build.add(Broadcast((SIDE, SIDE), (kept,)), mean)
    if exchanged == "no spread":
        spread = build.add(Exp(), spread)
    difference = build.add(Sub(), x, spread)
    if exchanged == "no difference":
        difference = build.add(Add(), x, spread)
    factor = build.add(Sub(), other, spread) if exchanged == "no square" else difference
    square = build.add(Mul(), factor, difference)
    return build.graph({"y": build.add(Sum((axis,)), square)})


@pytest.mark.parametrize(
    "exchanged",
    [
        "another total", "total of rows", "another count", "count that differs", "no quotient",
        "spread along it", "no spread", "no difference", "no square",
    ],
)  # fmt: skip
def test_what_is_nearly_a_deviation_is_read_as_it_was(exchanged: str) -> None:
    graph = deviations(exchanged)
    found = in_one_pass(graph, range(len(graph.values)))
    assert found is graph
    assert same_results(graph, found)


@pytest.mark.parametrize(("axis", "trains"), [(0, False), (0, True), (1, False), (1, True)])
def test_deviations_of_batches_and_in_training_are_read_once(axis: int, *, trains: bool) -> None:
    graph = deviations("", axis=axis)
    if trains:
        graph = Graph(graph.values, graph.outputs, {"kept": graph.outputs["y"]})
    found = in_one_pass(graph, range(len(graph.values)))
    assert any(isinstance(each.op, Maximum) for each in found.values) == (trains or axis == 0)
    assert same_results(graph, found)
    assert in_one_pass(graph, frozenset()) is graph


# --- masks of relus ------------------------------------------------------------------------------


def relu(exchanged: str) -> tuple[Graph, Value]:
    """A relu and its gradient."""
    build = Builder()
    y, z, dy = (build.add(Input(name, DType.F32, (3, 8))) for name in ("y", "z", "dy"))
    zero, one = (full(build, y.type, each) for each in (0.0, 1.0))
    bound = one if exchanged == "another bound" else zero
    kind = "gt" if exchanged == "another comparison" else "le"
    condition = build.add(Compare(kind), z if exchanged == "of another" else y, bound)
    below = one if exchanged == "another floor" else zero
    given = build.add(Where(), condition, below, y)
    left = one if exchanged == "gradient of a floor" else zero
    if exchanged == "gradient of what is fed":
        left = z
    gradient = build.add(Where(), condition, left, dy)
    return build.graph({"given": given, "gradient": gradient}), given


def reads(graph: Graph) -> str:
    """What the condition of the gradient compares."""
    return type(graph.outputs["gradient"].operands[0].operands[0].op).__name__


@pytest.mark.parametrize(
    "exchanged",
    [
        "another bound", "another comparison", "of another", "another floor",
        "gradient of a floor", "gradient of what is fed",
    ],
)  # fmt: skip
def test_what_is_nearly_a_relu_keeps_its_condition(exchanged: str) -> None:
    graph, given = relu(exchanged)
    found = from_outputs(graph, {given.id})
    assert reads(found) == "Input"
    assert same_results(graph, found)


def test_the_gradient_of_a_relu_reads_what_it_gave_where_that_is_stored() -> None:
    graph, given = relu("")
    found = from_outputs(graph, {given.id})
    assert (reads(graph), reads(found)) == ("Input", "Where")
    assert same_results(graph, found)
    assert from_outputs(graph, frozenset()) is graph


@pytest.mark.parametrize(("dtype", "numpy"), [(DType.I32, "i4"), (DType.F16, "f2")])
def test_what_a_relu_leaves_out_of_other_types_reads_what_it_gave(dtype: DType, numpy: str) -> None:
    """The condition compares numbers of the relu, whatever is chosen by it."""
    build = Builder()
    y, k = build.add(Input("y", DType.F32, (3, 8))), build.add(Input("k", dtype, (3, 8)))
    zero = full(build, y.type, 0.0)
    condition = build.add(Compare("le"), y, zero)
    given = build.add(Where(), condition, zero, y)
    chosen = build.add(Where(), condition, full(build, k.type, 0), k)
    graph = build.graph({"given": given, "gradient": chosen})
    found = from_outputs(graph, {given.id})
    assert reads(found) == "Where"
    numbers = np.random.default_rng(0).standard_normal((2, 3, 8))
    feeds = {"y": numbers[0].astype("f4"), "k": (9 * numbers[1]).astype(numpy)}
    one, other = (evaluate(each, feeds).outputs["gradient"] for each in (graph, found))
    np.testing.assert_array_equal(one, other)


# --- rows of rows --------------------------------------------------------------------------------


def norm(shape: tuple[int, ...], *rest: Callable[[Builder, Value], Value]) -> Graph:
    """A tensor times its sums of rows, and more of the same shape."""
    build = Builder()
    x = build.add(Input("x", DType.F32, shape))
    sums = build.add(Sum((len(shape) - 1,)), build.add(Mul(), x, x))
    y = build.add(Mul(), x, build.add(Broadcast(shape, tuple(range(len(shape) - 1))), sums))
    for each in rest:
        y = build.add(Add(), y, each(build, y))
    return build.graph({"y": y})


def spread(*axes: int) -> Callable[[Builder, Value], Value]:
    """An input with some of the axes, along all of them."""

    def made(build: Builder, like: Value) -> Value:
        shape = concrete_shape(like.type.shape)
        part = build.add(Input(f"part{axes}", DType.F32, tuple(shape[axis] for axis in axes)))
        return build.add(Broadcast(shape, axes), part)

    return made


@pytest.mark.parametrize("axes", [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
@pytest.mark.parametrize("shape", [(5, 5, 5), (2, 5, 8), (4, 3, 4)])
def test_joined_rows_hold_what_they_held(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Whatever is spread over them, where all axes are equally long too."""
    graph = norm(shape, spread(*axes))
    found = flatten_norm_rows(graph)
    assert any(isinstance(each.op, Reshape) for each in found.values)
    assert same_results(graph, found)


def test_rows_of_tiles_and_of_no_batch_stay() -> None:
    for shape in ((2, 8, 3), (2, 16, 5), (5, 3), (5,)):
        graph = norm(shape)
        assert flatten_norm_rows(graph) is graph
    graph = norm((2, 3, 5, 4), spread(3), spread(0, 1, 2), spread(2, 3))
    assert same_results(graph, flatten_norm_rows(graph))
    assert flatten_norm_rows(graph) is not graph


def scaled(build: Builder, x: Value) -> Value:
    """A tensor times its sums of rows, which are scaled like it."""
    last = x.type.rank - 1
    if last < 2:
        return x
    sums = scaled(build, build.add(Sum((last,)), build.add(Mul(), x, x)))
    return build.add(Mul(), x, build.add(Broadcast(x.type.shape, tuple(range(last))), sums))


@pytest.mark.parametrize("shape", [(3, 2, 5, 8), (2, 3, 5, 7, 4)])
def test_sums_of_joined_rows_that_have_sums_of_rows(shape: tuple[int, ...]) -> None:
    build = Builder()
    graph = build.graph({"y": scaled(build, build.add(Input("x", DType.F32, shape)))})
    found = flatten_norm_rows(graph)
    assert found is not graph
    assert same_results(graph, found)


# --- counters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exchanged", "counted"),
    [
        ("", {"n": 3}),
        ("constant first", {"n": 3}),
        ("another state", {}),
        ("an input", {}),
        ("two states", {}),
        ("two constants", {}),
        ("read elsewhere", {}),
        ("shown", {}),
        ("two updates", {}),
        ("a product", {}),
        ("a float", {}),
    ],
)
def test_a_counter_is_a_state_that_nothing_else_reads(
    exchanged: str, counted: dict[str, int]
) -> None:
    build = Builder()
    dtype = DType.F32 if exchanged == "a float" else DType.I32
    n, m = (build.add(Parameter(name, dtype, (), "state")) for name in "nm")
    three = build.add(Constant(3.0 if exchanged == "a float" else 3, dtype))
    left, right = {
        "constant first": (three, n),
        "another state": (m, three),
        "an input": (build.add(Input("x", dtype, ())), three),
        "two states": (n, m),
        "two constants": (three, three),
    }.get(exchanged, (n, three))
    after = build.add(Mul() if exchanged == "a product" else Add(), left, right)
    outputs = {"y": build.add(Add(), n, m)} if exchanged == "read elsewhere" else {}
    outputs |= {"after": after} if exchanged == "shown" else {}
    updates = {"n": after, "m": after} if exchanged == "two updates" else {"n": after}
    assert counters_of(build.graph(outputs, updates)) == counted
