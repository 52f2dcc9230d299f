"""The walk back: what it adds up, where it stops, what it costs."""

import numpy as np
import pytest

from meganeura_dsl.ir.graph import (
    Array,
    Builder,
    NotDifferentiableError,
    Op,
    Origin,
    TypeRuleError,
    Value,
)
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops import (
    Add,
    ArgMax,
    Broadcast,
    Cast,
    Compare,
    Constant,
    Gather,
    Input,
    MatMul,
    Maximum,
    MaxPool,
    Minimum,
    Mul,
    Parameter,
    ReduceMax,
    StopGradient,
    Sum,
    Tanh,
    Unary,
    Where,
)
from meganeura_dsl.ir.ops.fused import SoftmaxGradient
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.traits import ElementCost
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.autodiff import differentiate
from tests.gradients import assert_same, fed, numeric_gradient, weighted_loss


def floats(build: Builder, name: str, *shape: int) -> Value:
    return build.add(Input(name, DType.F32, shape))


def total(build: Builder, x: Value) -> Value:
    return build.add(Sum(tuple(range(x.type.rank))), x)


def gradient(build: Builder, loss: Value, by: Value, /, **feeds: Array) -> Array:
    graph = build.graph({"gradient": differentiate(build, loss, (by,))[0]})
    return evaluate(graph, feeds, Precision.DOUBLE).outputs["gradient"]


def test_a_value_used_twice_by_one_op_counts_twice() -> None:
    build = Builder()
    x = floats(build, "x", 3)
    loss = total(build, build.add(Mul(), x, x))
    at = np.array([1.0, -2, 5])
    np.testing.assert_array_equal(gradient(build, loss, x, x=at), 2 * at)


def test_a_table_shared_by_two_layers_gets_both_gradients() -> None:
    """A tied embedding: the table is read by row at one end and multiplied with at the other."""
    build = Builder()
    table = build.add(Parameter("table", DType.F32, (5, 3), "param"))
    ids = build.add(Input("ids", DType.I32, (4,)))
    rows = build.add(Gather(0), table, ids)
    loss = weighted_loss(build, [build.add(MatMul(transpose_right=True), rows, table)])
    forward = build.graph({"loss": loss})
    feeds = {"ids": np.array([4, 0, 4, 2], np.int32), "table": np.arange(15.0).reshape(5, 3) / 7}
    feeds = fed(forward, feeds)
    graph = build.graph({"gradient": differentiate(build, loss, (table,))[0]})
    found = evaluate(graph, feeds, Precision.DOUBLE).outputs["gradient"]
    assert_same(found, numeric_gradient(forward, feeds, "table"))


@pytest.mark.parametrize("coefficient", [3.0, -0.5])
def test_a_coefficient_after_a_sum_reaches_the_gradient(coefficient: float) -> None:
    build = Builder()
    x = floats(build, "x", 2, 3)
    loss = build.add(Mul(), build.add(Constant(coefficient, DType.F32)), total(build, x))
    found = gradient(build, loss, x, x=np.ones((2, 3)))
    np.testing.assert_array_equal(found, np.full((2, 3), coefficient))


def test_a_stopped_gradient_is_no_part_of_the_sum() -> None:
    build = Builder()
    x = floats(build, "x", 3)
    loss = total(build, build.add(Mul(), x, build.add(StopGradient(), x)))
    at = np.array([1.0, -2, 5])
    np.testing.assert_array_equal(gradient(build, loss, x, x=at), at)


def test_a_parameter_the_loss_does_not_read_has_zeros_of_its_own_shape() -> None:
    build = Builder()
    x = floats(build, "x", 3)
    dead = build.add(Parameter("dead", DType.F32, (2, 5), "param"))
    found = gradient(build, total(build, x), dead, x=np.ones(3), dead=np.ones((2, 5)))
    np.testing.assert_array_equal(found, np.zeros((2, 5)), strict=True)


def test_a_parameter_behind_a_stopped_gradient_has_zeros_too() -> None:
    build = Builder()
    x = floats(build, "x", 3)
    loss = total(build, build.add(StopGradient(), x))
    found = gradient(build, loss, x, x=np.ones(3))
    np.testing.assert_array_equal(found, np.zeros(3), strict=True)


def test_the_gradient_of_a_value_within_the_graph() -> None:
    build = Builder()
    x = floats(build, "x", 3)
    inner = build.add(Tanh(), x)
    loss = total(build, build.add(Mul(), inner, build.add(Mul(), inner, x)))
    at = np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(gradient(build, loss, inner, x=at), 2 * np.tanh(at) * at)


def test_a_value_within_the_graph_keeps_its_gradient_beside_what_it_is_made_of() -> None:
    build = Builder()
    x = floats(build, "x", 3)
    inner = build.add(Tanh(), x)
    loss = total(build, build.add(Mul(), inner, inner))
    of_inner, of_x = differentiate(build, loss, (inner, x))
    at = np.array([0.1, 0.2, 0.3])
    graph = build.graph({"inner": of_inner, "x": of_x})
    found = evaluate(graph, {"x": at}, Precision.DOUBLE).outputs
    np.testing.assert_allclose(found["inner"], 2 * np.tanh(at))
    np.testing.assert_allclose(found["x"], 2 * np.tanh(at) * (1 - np.tanh(at) ** 2))


def test_a_loss_is_its_own_gradient() -> None:
    build = Builder()
    x = floats(build, "x")
    assert gradient(build, x, x, x=np.array(7.0)) == 1


def test_the_first_of_tied_maxima_takes_what_its_windows_get() -> None:
    build = Builder()
    x = floats(build, "x", 1, 1, 3, 3)
    pooled = build.add(MaxPool((2, 2), (1, 1), (0, 0)), x)
    upstream = floats(build, "upstream", 1, 1, 2, 2)
    loss = total(build, build.add(Mul(), upstream, pooled))
    weights = np.array([1.0, 10, 100, 1000]).reshape(1, 1, 2, 2)
    found = gradient(build, loss, x, x=np.ones((1, 1, 3, 3)), upstream=weights)
    np.testing.assert_array_equal(found[0, 0], [[1, 10, 0], [100, 1000, 0], [0, 0, 0]])


def test_all_that_are_largest_share_what_the_largest_gets() -> None:
    build = Builder()
    x = floats(build, "x", 2, 3)
    upstream = floats(build, "upstream", 2)
    loss = total(build, build.add(Mul(), upstream, build.add(ReduceMax((1,)), x)))
    at = np.array([[3.0, 1, 3], [2, 2, 2]])
    found = gradient(build, loss, x, x=at, upstream=np.array([8.0, 30]))
    np.testing.assert_array_equal(found, [[4, 0, 4], [10, 10, 10]])


@pytest.mark.parametrize("op", [Maximum(), Minimum()])
def test_two_equal_numbers_share_what_the_larger_gets(op: Op) -> None:
    build = Builder()
    a, b = floats(build, "a", 3), floats(build, "b", 3)
    loss = total(build, build.add(op, a, b))
    feeds = {"a": np.array([1.0, 5, 7]), "b": np.array([1.0, 7, 5])}
    wins = [0.5, 0, 1] if isinstance(op, Maximum) else [0.5, 1, 0]
    np.testing.assert_array_equal(gradient(build, loss, a, **feeds), wins)
    np.testing.assert_array_equal(gradient(build, loss, b, **feeds), [1 - each for each in wins])


def test_a_half_that_is_widened_has_a_gradient() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F16, (2,)))
    wide = build.add(Cast(DType.F32), x)
    loss = total(build, build.add(Mul(), wide, wide))
    graph = build.graph({"gradient": differentiate(build, loss, (x,))[0]})
    found = evaluate(graph, {"x": np.array([1, -3], np.float16)}).outputs["gradient"]
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, [2, -6])


def test_what_a_condition_does_not_choose_has_no_gradient() -> None:
    build = Builder()
    x = floats(build, "x", 3)
    zero = full(build, x.type, 0)
    loss = total(build, build.add(Where(), build.add(Compare("gt"), x, zero), x, zero))
    found = gradient(build, loss, x, x=np.array([-1.0, 0, 2]))
    np.testing.assert_array_equal(found, [0, 0, 1])


def test_integers_and_choices_carry_no_gradient() -> None:
    build = Builder()
    x = floats(build, "x", 2, 3)
    index = build.add(Cast(DType.F32), build.add(ArgMax(1), x))
    loss = total(build, build.add(Mul(), index, build.add(Sum((1,)), x)))
    found = gradient(build, loss, x, x=np.array([[1.0, 3, 2], [4, 0, 0]]))
    np.testing.assert_array_equal(found, [[1, 1, 1], [0, 0, 0]])


def test_a_seed_takes_the_place_of_the_scalar() -> None:
    build = Builder()
    x, seed = floats(build, "x", 3), floats(build, "seed", 3)
    out = build.add(Mul(), x, x)
    graph = build.graph({"gradient": differentiate(build, out, (x,), seed)[0]})
    feeds = {"x": np.array([1.0, 2, 3]), "seed": np.array([1.0, 10, 100])}
    found = evaluate(graph, feeds, Precision.DOUBLE).outputs["gradient"]
    np.testing.assert_array_equal(found, [2, 40, 600])


def test_only_a_scalar_float_is_a_loss() -> None:
    build = Builder()
    x = floats(build, "x", 3)
    with pytest.raises(TypeRuleError, match=r"f32\[3\]"):
        differentiate(build, x, (x,))
    with pytest.raises(TypeRuleError, match=r"i32\[\]"):
        differentiate(build, build.add(ArgMax(0), x), (x,))
    with pytest.raises(TypeRuleError, match="seed"):
        differentiate(build, x, (x,), build.add(Sum((0,)), x))


def test_there_is_no_gradient_by_an_integer() -> None:
    build = Builder()
    ids = build.add(Input("ids", DType.I32, ()))
    with pytest.raises(NotDifferentiableError, match=r"i32\[\]"):
        differentiate(build, floats(build, "x"), (ids,))


class Opaque(Unary):
    """An op that says nothing of its gradient."""

    element_cost = ElementCost.SIMPLE

    def evaluate(self, x: Array) -> Array:
        return x


def test_an_op_without_a_gradient_is_named() -> None:
    build = Builder()
    x = floats(build, "x")
    with pytest.raises(NotDifferentiableError, match="Opaque"):
        differentiate(build, build.add(Opaque(), x), (x,))


def test_a_gradient_comes_from_where_its_value_came_from() -> None:
    build = Builder()
    x = floats(build, "x", 3)
    with build.at(Origin(path="layer.1")):
        inner = build.add(Tanh(), x)
    made_before = len(build.values)
    with build.at(Origin(path="loss")):
        loss = total(build, inner)
    differentiate(build, loss, (x,))
    paths = {type(value.op): value.origin.path for value in build.values[made_before:]}
    assert paths[Broadcast] == "loss"
    assert paths[Mul] == "layer.1"
    assert build.origin == Origin()


def _residual_network(depth: int) -> int:
    """Returns the number of values of a network of `depth` layers and its gradients."""
    build = Builder()
    x = floats(build, "x", 2, 3)
    weights = [build.add(Parameter(f"w.{i}", DType.F32, (3, 3), "param")) for i in range(depth)]
    for weight in weights:
        x = build.add(Add(), x, build.add(Tanh(), build.add(MatMul(), x, weight)))
    differentiate(build, total(build, x), weights)
    return len(build.values)


def test_the_walk_is_linear_in_the_graph() -> None:
    """Residual layers share values: a walk along paths would visit 2**depth of them."""
    few, some, many = (_residual_network(depth) for depth in (250, 1000, 4000))
    assert (many - some) == 4 * (some - few)
    assert many > 16_000


def test_deep_squares_stay_small() -> None:
    """Forty squares of squares have 2**40 paths and 40 products."""
    build = Builder()
    x = floats(build, "x")
    power = x
    for _ in range(40):
        power = build.add(Mul(), power, power)
    found = gradient(build, power, x, x=np.array(1.0))
    assert found == 2.0**40
    assert len(build.values) < 200


def test_what_does_not_depend_on_what_is_moved_needs_no_gradient() -> None:
    build = Builder()
    x, s = (build.add(Input(name, DType.F32, (3,))) for name in "xs")
    fixed = build.add(SoftmaxGradient(0), s, s)  # which has none
    loss = build.add(Sum((0,)), build.add(Mul(), x, fixed))
    (gradient,) = differentiate(build, loss, (x,))
    feeds = {"x": np.ones(3, np.float32), "s": np.array([1, 2, 4], np.float32)}
    found = evaluate(build.graph({"dx": gradient, "fixed": fixed}), feeds).outputs
    np.testing.assert_array_equal(found["dx"], found["fixed"])
    with pytest.raises(NotDifferentiableError):
        differentiate(build, loss, (s,))
