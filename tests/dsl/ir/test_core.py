"""Builders and graphs: sharing, order, and going on from a graph that is there."""

import numpy as np

from meganeura_dsl.ir.cost_model import Cost, DeviceModel, kernel_cost
from meganeura_dsl.ir.graph import (
    Body,
    Builder,
    Graph,
    Origin,
    Value,
    continued,
    dependencies,
    reachable,
    rebuild,
)
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import Add, Constant, Input, MatMul, Mul, Neg, Parameter
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.ir.verify import verify


def doubled() -> Graph:
    """The dead value in the middle leaves a gap in the ids."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    build.add(Neg(), x)
    with build.at(Origin(path="layer")):
        out = build.add(Add(), x, x)
    return build.graph({"out": out})


def test_equal_work_is_one_value() -> None:
    build = Builder()
    x, y = (build.add(Input(name, DType.F32, (3,))) for name in "xy")
    assert build.add(Add(), x, y) is build.add(Add(), x, y)
    assert build.add(Add(), x, y) is not build.add(Add(), y, x)


def test_numbers_that_look_alike_are_different_values() -> None:
    build = Builder()
    numbers = [0.0, -0.0, 1.0, float("nan")]
    values = [build.add(Constant(number, DType.F32)) for number in numbers]
    values += [build.add(Constant(1, DType.I32)), build.add(Constant(1, DType.U32))]
    values += [build.add(Constant(value=True, dtype=DType.BOOL))]
    assert len({value.id for value in values}) == 7
    assert build.add(Constant(float("nan"), DType.F32)) is values[3]
    assert build.add(Constant(1, DType.F32)) is values[2]


def test_a_graph_holds_what_its_roots_need_and_every_leaf() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    unused = build.add(Parameter("unused", DType.F32, (3,), "param"))
    build.add(Neg(), unused)
    out = build.add(Neg(), x)
    graph = build.graph({"out": out})
    assert graph.values == (x, unused, out)
    assert graph.roots == (out,)


def test_values_that_are_skipped_are_counted_apart() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    build.skip(5)
    build.skip(2)
    out = build.add(Neg(), x)
    assert (build.count, build.total) == (2, 9)
    assert build.values_from(1) == [out]


def test_outputs_are_evaluated_before_updates() -> None:
    build = Builder()
    state = build.add(Parameter("state", DType.F32, (3,), "state"))
    update, output = build.add(Neg(), state), build.add(Add(), state, state)
    graph = build.graph({"out": output}, {"state": update})
    assert graph.roots == (output, update)


def test_bodies_are_equal_that_give_the_same_out_under_the_same_names() -> None:
    def body(scale: float, *names: str, path: str = "") -> Body:
        build = Builder()
        x = build.add(Input("x", DType.F32, ()))
        with build.at(Origin(path=path)):
            product = build.add(Mul(), x, build.add(Constant(scale, DType.F32)))
            return Body(build.graph(dict(zip(names, (product, x), strict=True))))

    assert body(2, "a", "b") == body(2, "a", "b", path="elsewhere")
    assert hash(body(2, "a", "b")) == hash(body(2, "a", "b", path="elsewhere"))
    for other in (body(3, "a", "b"), body(2, "b", "a"), body(2, "a", "c")):
        assert body(2, "a", "b") != other


def test_dependencies_are_in_order_and_once() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, ()))
    squares = [x]
    for _ in range(40):
        squares.append(build.add(Mul(), squares[-1], squares[-1]))
    assert dependencies((squares[-1], squares[3])) == tuple(squares)
    assert reachable((squares[2],)) == {0, 1, 2}


def test_a_graph_is_continued_without_its_gaps() -> None:
    graph = doubled()
    assert [value.id for value in graph.values] == [0, 2]
    build, again = continued(graph)
    assert [value.id for value in again.values] == [0, 1]
    assert format_graph(again) == format_graph(graph)
    assert again.values[1].origin == Origin(path="layer")
    more = build.add(Neg(), again.outputs["out"])
    longer = build.graph({"out": more})
    verify(longer)
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(evaluate(longer, {"x": x}).outputs["out"], -2 * x)


def test_rebuilding_may_change_values() -> None:
    build = Builder()

    def negate_sums(value: Value, operands: tuple[Value, ...]) -> Value:
        made = build.add(value.op, *operands)
        return build.add(Neg(), made) if isinstance(value.op, Add) else made

    changed = rebuild(doubled(), build, negate_sums)
    verify(changed)
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(evaluate(changed, {"x": x}).outputs["out"], -2 * x)


def test_a_kernel_is_launched_and_then_moves_or_computes() -> None:
    """Whichever of the two takes longer hides the other."""
    device = DeviceModel(launch=0.5, bandwidth=4.0, throughput=8.0)
    moving, computing = Cost(16, 8, 3), Cost(8, 48, 1)
    assert moving.seconds(device) == 3 * 0.5 + 4
    assert computing.seconds(device) == 0.5 + 6
    assert moving + computing == Cost(24, 56, 4)
    assert (moving + computing).seconds(device) == 4 * 0.5 + 7
    left, right, found = (TensorType(DType.F32, shape) for shape in ((3, 5), (5, 7), (3, 7)))
    assert kernel_cost(MatMul(), (left, right), found) == Cost(
        4 * (3 * 5 + 5 * 7 + 3 * 7), 2 * 3 * 5 * 7, 1
    )
