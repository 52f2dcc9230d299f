"""Winograd's convolution on an adapter, at sizes that leave its tiles ragged."""

from collections.abc import Mapping

import numpy as np
import pytest

from meganeura_dsl.evaluate import Precision, evaluate
from meganeura_dsl.graph.core import Array, Builder, Value
from meganeura_dsl.ops import Conv, ConvInputGradient, ConvWeightGradient, Input
from meganeura_dsl.ops.contract import MatMul
from meganeura_dsl.ops.fused import (
    WinogradInput,
    WinogradKernel,
    WinogradKernelGradient,
    WinogradOutput,
    WinogradOutputGradient,
)
from meganeura_dsl.ops.rules import concrete_shape
from meganeura_dsl.shapes.tensor import DType
from meganeura_runtime.device import Device
from meganeura_runtime.kernels.limits import Style
from tests.runtime.running import assert_as_reference

pytestmark = pytest.mark.adapter

CASES = [
    (2, (1, 1, 1, 1), 1, (1, 1)),
    (4, (1, 3, 3, 3), 5, (0, 0)),
    (4, (2, 5, 5, 7), 3, (1, 2)),
    (2, (1, 2, 41, 3), 3, (2, 0)),
    (4, (1, 3, 8, 41), 2, (1, 1)),
    (4, (2, 17, 8, 12), 18, (1, 1)),
    (4, (3, 16, 14, 14), 20, (1, 1)),
]
cases = pytest.mark.parametrize(("m", "x", "k", "padding"), CASES, ids=str)


class Net:
    """Inputs of a convolution, and the numbers to feed them with."""

    def __init__(self) -> None:
        self.build = Builder()
        self.feeds: dict[str, Array] = {}

    def input(self, *shape: int) -> Value:
        name = f"x{len(self.feeds)}"
        generator = np.random.default_rng(sum(shape))
        self.feeds[name] = generator.standard_normal(shape, np.float32)
        return self.build.add(Input(name, DType.F32, shape))


def forward(net: Net, m: int, x: Value, w: Value, padding: tuple[int, int]) -> tuple[Value, Value]:
    """The products, and the convolution."""
    add = net.build.add
    kernel = add(WinogradKernel(m, mirrored=False), w)
    products = add(MatMul(), kernel, add(WinogradInput(m, padding), x))
    n, _, *spatial = concrete_shape(x.type.shape)
    outputs = tuple(size + 2 * around - 2 for size, around in zip(spatial, padding, strict=True))
    return products, add(WinogradOutput(m, n, outputs), products)


def check(net: Net, outputs: Mapping[str, Value], device: Device, style: Style) -> None:
    assert_as_reference(net.build.graph(outputs), net.feeds, device, style)


@pytest.mark.parametrize("style", Style)
@cases
def test_all_three_convolutions(
    m: int,
    x: tuple[int, int, int, int],
    k: int,
    padding: tuple[int, int],
    style: Style,
    device: Device,
) -> None:
    net = Net()
    add = net.build.add
    data, kernel = net.input(*x), net.input(k, x[1], 3, 3)
    _, y = forward(net, m, data, kernel, padding)
    dy = net.input(*concrete_shape(y.type.shape))
    around = (2 - padding[0], 2 - padding[1])
    mirrored = add(WinogradKernel(m, mirrored=True), kernel)
    back = add(MatMul(transpose_left=True), mirrored, add(WinogradInput(m, around), dy))
    dx = add(WinogradOutput(m, x[0], x[2:]), back)
    places = add(WinogradOutputGradient(m), dy)
    products = add(MatMul(transpose_right=True), places, add(WinogradInput(m, padding), data))
    dw = add(WinogradKernelGradient(m), products)
    geometry = ((1, 1), padding, (1, 1), 1)
    direct = {
        "y": add(Conv(*geometry), data, kernel),
        "dx": add(ConvInputGradient(*geometry, x[2:]), kernel, dy),
        "dw": add(ConvWeightGradient(*geometry, (3, 3)), data, dy),
    }
    wanted = evaluate(net.build.graph(direct), net.feeds, Precision.DOUBLE).outputs
    graph = net.build.graph({"y": y, "dx": dx, "dw": dw})
    found = evaluate(graph, net.feeds, Precision.DOUBLE).outputs
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, 1e-11, 1e-11)
    assert_as_reference(graph, net.feeds, device, style)
