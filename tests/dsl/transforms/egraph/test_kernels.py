"""The model of a plan: what is a kernel, what is done inside another, what memory is touched."""

import pytest

from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE, Cost
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Input,
    Iota,
    MatMul,
    MaxPool,
    Mul,
    Neg,
    Parameter,
    Sum,
    Transpose,
)
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.transforms.egraph.cost.graph_cost import graph_cost
from meganeura_dsl.transforms.egraph.cost.kernel_cost_model import FusionModel
from meganeura_dsl.transforms.egraph.encoding.egraph_snapshot import EGraphSnapshot, Node
from meganeura_dsl.transforms.egraph.extract.extract import ask
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_dsl.transforms.egraph.saturate.saturate_graph import saturate_graph
from tests.dsl.transforms.egraph.compare import check, data, ops_of
from tests.dsl.transforms.egraph.net import Net
from tests.dsl.transforms.egraph.test_models import model

FLOAT = 4


def test_elementwise_work_is_done_in_the_kernel_that_reads_it() -> None:
    build = Builder()
    x = data(build, "x", 8, 16)
    total = build.add(Sum((1,)), build.add(Neg(), build.add(Mul(), x, x)))
    cost = graph_cost(build.graph({"y": total}))
    assert cost == Cost(FLOAT * (8 * 16 + 8), 3 * 8 * 16, 1)


def test_elementwise_work_is_done_in_the_kernel_that_makes_its_operand() -> None:
    build = Builder()
    a, b, c = data(build, "a", 8, 16), data(build, "b", 16, 4), data(build, "c", 8, 4)
    y = build.add(Add(), build.add(MatMul(), a, b), c)
    cost = graph_cost(build.graph({"y": y}))
    # The product, what is added to it, and the sum; no further launch.
    assert cost.launches == 1
    assert cost.bytes == FLOAT * (8 * 16 + 16 * 4 + 8 * 4 + 2 * 8 * 4)


def test_what_a_product_reads_is_in_memory_and_a_move_of_it_is_free() -> None:
    build = Builder()
    a, b = data(build, "a", 16, 8), data(build, "b", 16, 4)
    plain = build.add(MatMul(), build.add(Transpose((1, 0)), a), b)
    assert graph_cost(build.graph({"y": plain})).launches == 1
    turned = build.add(MatMul(), build.add(Transpose((1, 0)), build.add(Neg(), a)), b)
    assert graph_cost(build.graph({"y": turned})).launches == 2


def test_reductions_of_the_same_rows_are_one_kernel() -> None:
    build = Builder()
    x, y = data(build, "x", 8, 16), data(build, "y", 8, 16)
    sums = [build.add(Sum((1,)), each) for each in (x, build.add(Mul(), x, x))]
    assert graph_cost(build.graph({"a": sums[0], "b": sums[1]})).launches == 1
    other = build.add(Sum((1,)), y)
    assert graph_cost(build.graph({"a": sums[0], "b": other})).launches == 2


def test_an_op_of_several_results_is_one_kernel_that_writes_those_that_are_read() -> None:
    build = Builder()
    x = data(build, "x", 1, 1, 8)
    pooled, index = build.add_all(MaxPool((2,), (2,), (0,)), build.add(Neg(), x))
    for results in ({"y": pooled}, {"i": index}, {"y": pooled, "i": index}):
        cost = graph_cost(build.graph(results))
        assert cost.launches == 1  # which negates what it reads
        assert cost.bytes == FLOAT * (8 + 4 * len(results))


X = FLOAT * 8 * 16
"""Bytes of each tensor that is summed."""
ROW, COLUMN = FLOAT * 8, FLOAT * 16
"""Bytes of what a sum of its rows or columns makes."""

SHARED: list[tuple[str, list[tuple[str, int]], tuple[int, int]]] = [
    ("one", [("x", 1)], (X + ROW, 1)),
    ("two of one tensor", [("x", 1), ("xx", 1)], (X + 2 * ROW, 1)),
    ("three of one tensor", [("x", 1), ("xx", 1), ("-x", 1)], (X + 3 * ROW, 1)),
    ("of several tensors", [("x", 1), ("y", 1)], (2 * X + 2 * ROW, 2)),
    ("of columns", [("x", 0), ("xx", 0)], (X + 2 * COLUMN, 1)),
    ("rows and columns", [("x", 1), ("x", 0)], (2 * X + ROW + COLUMN, 2)),
    ("one of two tensors again", [("xy", 1), ("y", 1)], (2 * X + 2 * ROW, 1)),
    ("one more tensor", [("x", 1), ("xy", 1)], (2 * X + 2 * ROW, 1)),
    ("one tensor less", [("xy", 1), ("x", 1)], (2 * X + 2 * ROW, 1)),
    ("both again", [("xy", 1), ("-xy", 1)], (2 * X + 2 * ROW, 1)),
    ("each of both", [("xy", 1), ("x", 1), ("y", 1)], (2 * X + 3 * ROW, 1)),
    ("two pairs", [("x", 1), ("y", 1), ("xx", 1), ("-y", 1)], (2 * X + 4 * ROW, 2)),
    ("pairs of each axis", [("x", 1), ("x", 0), ("xx", 1), ("xx", 0)],
     (2 * X + 2 * ROW + 2 * COLUMN, 2)),
]  # fmt: skip
"""Sums and their axes, and the bytes and launches that they take.

Sums along one axis that read the same tensor are a kernel, which reads it once.
"""


@pytest.mark.parametrize(("summed", "expected"), [each[1:] for each in SHARED])
def test_reductions_that_share_rows_share_what_they_read(
    summed: list[tuple[str, int]], expected: tuple[int, int]
) -> None:
    build = Builder()
    x, y = data(build, "x", 8, 16), data(build, "y", 8, 16)
    xy = build.add(Mul(), x, y)
    made = {
        "x": lambda: x,
        "y": lambda: y,
        "xx": lambda: build.add(Mul(), x, x),
        "-x": lambda: build.add(Neg(), x),
        "-y": lambda: build.add(Neg(), y),
        "xy": lambda: xy,
        "-xy": lambda: build.add(Neg(), xy),
    }
    sums = [build.add(Sum((axis,)), made[name]()) for name, axis in summed]
    cost = graph_cost(build.graph({f"y{number}": each for number, each in enumerate(sums)}))
    assert (cost.bytes, cost.launches) == expected


def test_what_is_loaded_depends_on_constants_alone() -> None:
    """The cheaper ways to compute a class of constants read data; numbers in order are not kept."""
    x, w = Input("x", DType.F32, (8, 8)), Parameter("w", DType.F32, (8, 8), "param")
    spread = Node(Broadcast((8, 8), (0, 1)), (0,), 2)
    nodes = (
        *(Node(x, (), 0), Node(w, (), 1), Node(Neg(), (0,), 2), Node(MatMul(), (1, 1), 2), spread),
        Node(Iota(8), (), 3),
    )
    types = (*(TensorType(DType.F32, (8, 8)),) * 3, TensorType(DType.I32, (8,)))
    constant = frozenset({1, 2, 3})
    found = EGraphSnapshot(nodes, ((0,), (1,), (2, 3, 4), (5,)), types, (0, 1, 2, 3), constant, {})
    question = ask(found, (2, 3), DEFAULT_DEVICE, apart=False)
    assert question.load == {1: 1, 2: 3, 3: 5}
    assert question.stored == {6}


def test_a_constant_that_is_spread_to_its_own_shape_is_loaded_and_not_read_through_itself() -> None:
    net = Net()
    square = net.do(MatMul(), net.w(3, 3), net.w(3, 3))
    graph = net.graph(net.do(Mul(), net.x(3, 3), net.spread(square, square, 0, 1)))
    found = saturate_graph(graph, "infer").found
    number = found.values[graph.values.index(square)]
    question = ask(found, (found.values[-1],), DEFAULT_DEVICE, apart=False)
    assert question.stored.issuperset(question.problem.classes[number])
    optimized = check(graph, "infer")
    assert (ops_of(optimized.graph), ops_of(optimized.load)) == (["Mul"], ["MatMul"])


def test_the_same_op_elsewhere_costs_something_else() -> None:
    """Of other operands, kept or not, and where its class has a cheaper way to be read."""
    of, scalar = TensorType(DType.F32, (8, 16)), TensorType(DType.F32, ())
    leaves = (Input("x", DType.F32, (8, 16)), Input("y", DType.F32, (8, 16)))
    times, negative, copies = Mul(), Neg(), Broadcast((8, 16), ())
    nodes = [
        *(Node(leaf, (), number) for number, leaf in enumerate(leaves)),
        *(Node(Input("v", DType.F32, ()), (), 2), Node(copies, (2,), 3)),
        *(Node(times, (0, 0), 4), Node(times, (0, 1), 5)),
        *(Node(negative, (0,), 6), Node(negative, (3,), 7)),
        *(Node(negative, (1,), 8), Node(negative, (1,), 9), Node(copies, (2,), 9)),
    ]
    model = FusionModel(nodes, [of, of, scalar, *[of] * 7], roots=(4, 5, 6, 7))
    kept = [(1 + 1) * X, (2 + 1) * X, (1 + 1) * X, FLOAT + X]
    assert [each.bytes for each in model.costs()[4:]] == [*kept, 0, X - FLOAT, 0]


def test_what_was_optimized_before_changes_nothing() -> None:
    graphs = [model("digits_cnn", n=1, h=8, w=8), model("lm_tiny", n=1, s=3)]
    shown = [
        format_graph(optimize(graphs[number], mode="infer").graph) for number in (0, 1, 0, 1, 0)
    ]
    assert shown[0] == shown[2] == shown[4]
    assert shown[1] == shown[3]
