"""Products of a matrix and a vector: row reductions, with what surrounds them in their kernels."""

from itertools import product

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Builder, Graph, Value
from meganeura_dsl.ir.ops import Add, Input, MatMul, Mul, Parameter, Tanh
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.config.kernel_config import KernelConfig
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style
from meganeura_runtime.backends.webgpu.config.tuned_configs import TunedConfigs
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.runtime.running import assert_as_reference

pytestmark = [pytest.mark.adapter, pytest.mark.usefixtures("apart")]

Shape = tuple[int, ...]


class Net:
    """A graph being built."""

    def __init__(self) -> None:
        self.build = Builder()

    def input(self, name: str, *shape: int) -> Value:
        return self.build.add(Input(name, DType.F32, shape))

    def weight(self, name: str, *shape: int) -> Value:
        return self.build.add(Parameter(name, DType.F32, shape, "param"))


def check(graph: Graph, device: Device, dispatches: int) -> None:
    generator = np.random.default_rng(0)
    feeds = {
        value.op.name: generator.standard_normal(concrete_shape(value.op.shape)).astype(np.float32)
        for value in graph.values
        if isinstance(value.op, Input | Parameter)
    }
    assert len(plan_graph(graph, DeviceLimits(), Style.GPU).dispatches) == dispatches
    assert_as_reference(graph, feeds, device, Style.GPU, DeviceLimits())


SIZES = ((1, 32), (3, 33), (5, 64), (130, 70), (37, 301), (9, 2050))
"""Sums, and their terms."""


@pytest.mark.parametrize(("count", "terms"), SIZES)
@pytest.mark.parametrize("transposed", [False, True])
def test_one_row(count: int, terms: int, transposed: bool, device: Device) -> None:  # noqa: FBT001
    net = Net()
    shape = (count, terms) if transposed else (terms, count)
    op = MatMul(transpose_right=transposed)
    wide = net.build.add(op, net.input("x", 1, 1, terms), net.weight("w", *shape))
    flat = net.build.add(op, net.input("y", 1, terms), net.weight("v", *shape))
    in_parts = count < 32 and terms > 2048
    check(net.build.graph({"x": wide, "y": flat}), device, 4 if in_parts else 2)


@pytest.mark.parametrize(("left", "right"), list(product((False, True), repeat=2)))
@pytest.mark.parametrize("vector", ["row", "column"])
def test_batches(left: bool, right: bool, vector: str, device: Device) -> None:  # noqa: FBT001
    net = Net()
    rows, columns = (1, 7) if vector == "row" else (7, 1)
    a = net.input("a", 3, 2, *((45, rows) if left else (rows, 45)))
    b = net.input("b", 3, 2, *((columns, 45) if right else (45, columns)))
    check(net.build.graph({"y": net.build.add(MatMul(left, right), a, b)}), device, 1)


def test_a_gate_its_two_products_and_a_residual_are_two_kernels(device: Device) -> None:
    net = Net()
    add, by_outputs = net.build.add, MatMul(transpose_right=True)
    x = net.input("x", 1, 36)
    gate, up = (add(by_outputs, x, net.weight(name, 50, 36)) for name in ("gate", "up"))
    down = add(by_outputs, add(Mul(), add(Tanh(), gate), up), net.weight("down", 36, 50))
    bias = add(Broadcast((1, 36), (1,)), net.weight("bias", 36))
    check(net.build.graph({"y": add(Add(), x, add(Add(), down, bias))}), device, 2)


def test_residual_connections_are_added_up_as_they_come(device: Device) -> None:
    net = Net()
    add, x = net.build.add, net.input("x", 1, 40)
    for layer in range(4):
        inner = add(MatMul(), add(Tanh(), x), net.weight(f"a{layer}", 40, 40))
        x = add(Add(), x, inner)
    plan = plan_graph(graph := net.build.graph({"y": x}), DeviceLimits(), Style.GPU)
    assert max(len(dispatch.slots) for dispatch in plan.dispatches) <= 4
    check(graph, device, len(plan.dispatches))


def test_what_a_tuner_found_is_done_instead() -> None:
    net = Net()
    product = net.build.add(MatMul(), net.input("x", 1, 64), net.weight("w", 64, 64))
    graph = net.build.graph({"y": product})
    name = "MatMul(transpose_left=False, transpose_right=False) f32[1, 64] f32[64, 64]"
    tuned = TunedConfigs("", {name: KernelConfig(split_k=4)})
    kinds = [each.kind for each in plan_graph(graph, DeviceLimits(), Style.GPU, tuned).dispatches]
    assert kinds[0] == "matmul"
    assert [each.kind for each in plan_graph(graph, DeviceLimits()).dispatches] == ["sum"]
