"""Merges in inference, and limits of all rewrites."""

from collections.abc import Callable

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Graph, Op, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Compare,
    Div,
    Iota,
    MatMul,
    Mul,
    Neg,
    RandomBits,
    Sub,
    Where,
)
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode
from meganeura_dsl.transforms.egraph.saturate.saturation import OptimizerError
from tests.dsl.transforms.egraph.classes import examine
from tests.dsl.transforms.egraph.compare import check, feeds, names, ops_of, run
from tests.dsl.transforms.egraph.net import Net

Make = Callable[[Net], Value]


# --- inference -----------------------------------------------------------------------------------


def convolutions(graph: Graph) -> int:
    return sum(name in ("Conv", "FusedConv", "FusedConv_residual") for name in ops_of(graph))


def merged(make: Make, mode: Mode = "infer") -> int:
    """Returns the number of convolutions that remain."""
    net = Net()
    _, optimized = examine(net.graph(make(net)), mode)
    return convolutions(optimized.graph)


def _pair(**other: int) -> Make:
    def make(net: Net) -> Value:
        x = net.x(1, 4, 6)
        one = net.conv(x, net.w(4, 4, 3), 1)
        groups = other.get("groups", 1)
        kernel = other.get("kernel", 3)
        w = net.w(4, 4 // groups, kernel)
        dilation = other.get("dilation", 1)
        padding = other.get("padding", dilation * (kernel - 1) // 2)
        two = net.conv(x, w, padding, dilation=dilation, groups=groups)
        return net.do(Add(), one, two)

    return make


def test_equal_geometry_is_merged() -> None:
    assert merged(_pair()) == 1
    assert merged(_pair(kernel=1)) == 1
    assert merged(_pair(kernel=5)) == 1


def test_other_geometry_is_not() -> None:
    assert merged(_pair(groups=2)) == 2
    assert merged(_pair(dilation=2)) == 2


def test_parameters_in_training_are_not_constant() -> None:
    assert merged(_pair(), "train") == 2


@pytest.mark.parametrize("mode", ["forward", "train"])
def test_nothing_is_loaded_for_training(mode: Mode) -> None:
    """Also of parameters that nothing moves."""
    net = Net()
    weight = net.do(MatMul(), net.w(8, 8, kind="frozen"), net.w(8, 8))
    optimized = optimize(net.graph(net.do(MatMul(), net.x(8, 8), weight)), mode=mode)
    assert optimized.load.values == ()
    assert ops_of(optimized.graph) == ["MatMul", "MatMul"]


def test_kernels_that_do_not_stand_in_one_middle_are_not_merged() -> None:
    def make(net: Net) -> Value:
        x = net.x(1, 2, 5, 5)
        one = net.conv(x, net.w(2, 2, 3, 3), (1, 1))
        two = net.conv(x, net.w(2, 2, 3, 1), (1, 0))
        three = net.conv(x, net.w(2, 2, 2, 2), (1, 1))
        four = net.conv(three, net.w(2, 2, 2, 2), (0, 0))
        return net.do(Add(), net.do(Add(), one, two), four)

    assert merged(make) == 3


def test_other_inputs_are_not_merged() -> None:
    def make(net: Net) -> Value:
        return net.do(Add(), *(net.conv(net.x(1, 2, 5), net.w(2, 2, 3), 1) for _ in range(2)))

    assert merged(make) == 2


def test_what_a_run_updates_is_no_constant() -> None:
    net = Net()
    x, w, mean = net.x(1, 2, 5), net.w(2, 2, 1), net.w(2, kind="state")
    y = net.do(Sub(), net.conv(x, w), net.spread(mean, x, 1))
    graph = net.graph(y, updates={"w3": net.do(Add(), mean, mean)})
    optimized = check(graph, "infer")
    assert "w3" in names(optimized.graph)
    assert list(optimized.graph.updates) == ["w3"]


@pytest.mark.parametrize("op", [Mul(), Div()])
@pytest.mark.parametrize("product", ["Conv", "MatMul"])
def test_a_number_is_taken_from_the_data_to_the_weights_that_are_loaded(
    op: Op, product: str
) -> None:
    """By a division a rule invents the number that weights are multiplied with."""
    net = Net()
    x = net.x(4, 4, 8)
    scaled = net.do(op, x, net.full(3, x))
    y = (
        net.conv(scaled, net.w(4, 4, 3))
        if product == "Conv"
        else net.do(MatMul(), scaled, net.w(8, 8))
    )
    optimized = check(net.graph(y), "infer")
    assert ops_of(optimized.graph) == [product]
    assert names(optimized.graph) == ["x1", "derived.0"]


def test_a_strided_branch_has_no_identity() -> None:
    def make(net: Net) -> Value:
        x = net.x(1, 2, 1)
        return net.do(Add(), net.batch_norm(net.conv(x, net.w(2, 2, 3), 1, stride=2)), x)

    net = Net()
    explored, _ = examine(net.graph(make(net)), "infer")
    assert all(node.op != Iota(2) for node in explored.found.nodes)


# --- what must never happen ----------------------------------------------------------------------


def test_two_dropouts_of_one_tensor_stay_two() -> None:
    net = Net()
    x, counter = net.x(4), net.x(2, dtype=DType.U32)
    bits = [net.do(RandomBits(stream, (4,)), counter) for stream in (3, 4)]
    limit = net.do(Broadcast((4,), ()), net.x(dtype=DType.U32))
    dropped = [
        net.do(Where(), net.do(Compare("lt"), each, limit), x, net.full(0, x)) for each in bits
    ]
    graph = net.graph(*dropped, net.do(Add(), *dropped))
    for mode in ("forward", "train", "infer"):
        optimized = check(graph, mode)
        assert ops_of(optimized.graph).count("RandomBits") == 2
        assert optimized.graph.outputs["y0"] is not optimized.graph.outputs["y1"]


@pytest.mark.parametrize("op", [Mul(), Div(), Neg()])
def test_a_zero_of_numbers_keeps_its_sign(op: Op) -> None:
    """1 / (0 * -3), 1 / (0 / -3) and 1 / -0 are minus infinity."""
    net = Net()
    x = net.x(3)
    zero = net.do(op, *(net.full(each, x) for each in (0, -3)[: 1 if op == Neg() else 2]))
    graph = net.graph(net.do(Add(), x, net.do(Div(), net.full(1, x), zero)))
    assert np.all(run(check(graph, "train").graph, feeds(graph)).outputs["y0"] == -np.inf)


def test_every_output_stays_even_if_it_is_an_input_or_another() -> None:
    net = Net()
    x = net.x(3)
    back = net.do(Neg(), net.do(Neg(), x))
    optimized = check(net.graph(x, back, back), "train")
    assert list(optimized.graph.outputs) == ["y0", "y1", "y2"]
    assert len(set(map(id, optimized.graph.outputs.values()))) == 1


def test_a_shared_product_is_computed_once() -> None:
    net = Net()
    product = net.do(MatMul(), net.x(1024, 1024), net.x(1024, 1024))
    outputs = [net.do(Add(), product, net.spread(net.x(1024), product, 1)) for _ in range(4)]
    ops = ops_of(optimize(net.graph(*outputs), mode="train").graph)
    assert [name for name in ops if "MatMul" in name] == ["MatMul"]


def test_residual_depth_costs_no_more_than_its_length() -> None:
    net = Net()
    x = net.x(2)
    for _ in range(100):
        x = net.do(Add(), x, net.relu(x))
    optimized = optimize(net.graph(x), mode="train")
    assert ops_of(optimized.graph).count("Activation") == 100
    assert optimized.report.enodes < 1000


def test_a_rule_that_is_disabled_stays_out() -> None:
    net = Net()
    x = net.x(3)
    graph = net.graph(net.relu(x))
    assert ops_of(check(graph, "train").graph) == ["Activation"]
    assert ops_of(check(graph, "train", disabled=["relu"]).graph) == [
        "Broadcast",
        "Compare",
        "Where",
    ]


def test_a_rule_that_does_not_exist_cannot_be_disabled() -> None:
    net = Net()
    with pytest.raises(OptimizerError, match="`rleu`"):
        optimize(net.graph(net.x(1)), mode="train", disabled=["rleu"])
