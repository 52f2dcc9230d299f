"""Winograd's convolution on an adapter, at sizes that leave its tiles ragged."""

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.ir.graph import Array, Builder, Graph, Leaf, Value
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops import (
    Conv,
    ConvInputGradient,
    ConvWeightGradient,
    Input,
    Mul,
    Parameter,
    Sub,
)
from meganeura_dsl.ir.ops.fused import (
    FusedWinogradOutput,
    WinogradKernelGradient,
    WinogradOutput,
)
from meganeura_dsl.ir.ops.fused.winograd import in_tiles
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.ops.primitive.elementwise import Tanh
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, optimized_training_step
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.io.weights import initial_values
from tests.dsl.transforms.egraph.winograd_cases import FORMS
from tests.effort import effort
from tests.runtime.running import assert_as_reference

pytestmark = [pytest.mark.adapter, pytest.mark.usefixtures("apart")]

CASES = [
    (2, (1, 1, 1, 1), 1, (1, 1)),
    (4, (2, 5, 5, 7), 3, (1, 2)),
    (2, (1, 2, 41, 3), 3, (2, 0)),
    (4, (2, 17, 8, 12), 18, (1, 1)),
    *effort(
        [],
        [
            (4, (1, 3, 3, 3), 5, (0, 0)),
            (4, (1, 3, 8, 41), 2, (1, 1)),
            (4, (3, 16, 14, 14), 20, (1, 1)),
        ],
    ),
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


@pytest.mark.parametrize("style", effort([Style.GPU], Style))
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
    geometry = ((1, 1), padding, (1, 1), 1)
    y = add(Conv(*geometry), data, kernel)
    dy = net.input(*concrete_shape(y.type.shape))
    ways: dict[str, tuple[Convolution, tuple[Value, Value]]] = {
        "y": (Conv(*geometry), (data, kernel)),
        "dx": (ConvInputGradient(*geometry, x[2:]), (kernel, dy)),
        "dw": (ConvWeightGradient(*geometry, (3, 3)), (data, dy)),
    }
    direct = {name: add(op, *factors) for name, (op, factors) in ways.items()}
    tiled = {n: in_tiles(net.build, op, factors, m) for n, (op, factors) in ways.items()}
    wanted = evaluate(net.build.graph(direct), net.feeds, Precision.DOUBLE).outputs
    graph = net.build.graph(tiled)
    found = evaluate(graph, net.feeds, Precision.DOUBLE).outputs
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, 1e-11, 1e-11)
    assert_as_reference(graph, net.feeds, device, style)


def kernels(graph: Graph) -> int:
    return len(plan_graph(graph, DeviceLimits(), Style.GPU).dispatches)


@pytest.mark.parametrize("size", [5, 8])
def test_what_follows_is_part_of_the_output_s_kernel(size: int, device: Device) -> None:
    net = Net()
    x, w = net.input(2, 17, size, size), net.input(18, 17, 3, 3)
    products = in_tiles(net.build, Conv((1, 1), (1, 1), (1, 1), 1), (x, w), 4).operands[0]
    bias, residual = net.input(18), net.input(2, 18, size, size)
    spatial = (size, size)
    fused = net.build.add(FusedWinogradOutput(4, 2, spatial, "gelu"), products, bias)
    added = FusedWinogradOutput(4, 2, spatial, "relu")
    y = net.build.add(added, products, bias, residual)
    assert kernels(net.build.graph({"y": y})) == 4
    graph = net.build.graph({"y": y, "fused": fused, "squared": net.build.add(Mul(), y, y)})
    assert kernels(graph) == 4
    assert_as_reference(graph, net.feeds, device, Style.GPU)


def test_what_comes_before_is_read_through_by_the_input_s_kernel(device: Device) -> None:
    net = Net()
    x, w = net.input(1, 3, 9, 9), net.input(2, 3, 3, 3)
    bent = net.build.add(Tanh(), x)
    y = in_tiles(net.build, Conv((1, 1), (1, 1), (1, 1), 1), (bent, w), 4)
    graph = net.build.graph({"y": y})
    assert kernels(graph) == 4
    assert_as_reference(graph, net.feeds, device, Style.GPU)


def test_a_weight_is_updated_by_the_kernel_of_its_gradient(device: Device) -> None:
    net = Net()
    add = net.build.add
    x, dy = net.input(2, 3, 6, 6), net.input(2, 4, 6, 6)
    net.feeds["w"] = np.ones((4, 3, 3, 3), np.float32)
    w = add(Parameter("w", DType.F32, (4, 3, 3, 3), "param"))
    to_w = ConvWeightGradient((1, 1), (1, 1), (1, 1), 1, (3, 3))
    step = in_tiles(net.build, to_w, (x, dy), 4)
    new = add(Sub(), w, add(Mul(), step, full(net.build, w.type, 0.1)))
    graph = net.build.graph({}, {"w": new})
    assert kernels(graph) == 4
    assert_as_reference(graph, net.feeds, device, Style.GPU)


def test_a_step_transforms_everything_once(device: Device) -> None:
    """Forward and both gradients: kernel and mirror image at once, the input kept for the end."""
    net = Net()
    x, w = net.input(2, 4, 8, 8), net.input(4, 4, 3, 3)
    geometry = ((1, 1), (1, 1), (1, 1), 1)
    y = in_tiles(net.build, Conv(*geometry), (x, w), 4)
    dx = in_tiles(net.build, ConvInputGradient(*geometry, (8, 8)), (w, y), 4)
    dw = in_tiles(net.build, ConvWeightGradient(*geometry, (3, 3)), (x, y), 4)
    graph = net.build.graph({"y": y, "dx": dx, "dw": dw})
    assert kernels(graph) == 9
    assert_as_reference(graph, net.feeds, device, Style.GPU)


@pytest.mark.parametrize(
    ("padding", "channels", "count"), [((1, 1), 5, 7), ((0, 1), 5, 8), ((1, 1), 3, 6)]
)
def test_what_both_gradients_read_is_read_once(
    padding: tuple[int, int], channels: int, count: int, device: Device
) -> None:
    """With as many channels on both sides, one kernel makes the tiles of both images."""
    net = Net()
    geometry = ((1, 1), padding, (1, 1), 1)
    x, w = net.input(2, channels, 9, 8), net.input(3, channels, 3, 3)
    dy = net.input(2, 3, 7 + 2 * padding[0], 6 + 2 * padding[1])
    dx = in_tiles(net.build, ConvInputGradient(*geometry, (9, 8)), (w, dy), 4)
    dw = in_tiles(net.build, ConvWeightGradient(*geometry, (3, 3)), (x, dy), 4)
    graph = net.build.graph({"dx": dx, "dw": dw})
    assert kernels(graph) == count
    assert_as_reference(graph, net.feeds, device, Style.GPU)


def test_a_kernel_makes_the_tiles_of_three_images_at_most(device: Device) -> None:
    """Of four that are of one size and in pairs for the same readers."""
    net = Net()
    x = net.input(1, 3, 6, 6)
    to_w = ConvWeightGradient((1, 1), (1, 1), (1, 1), 1, (3, 3))
    images = [net.input(1, 3, 6, 6) for _ in range(3)]
    net.feeds |= {name: array + number for number, (name, array) in enumerate(net.feeds.items())}
    steps = {f"dw{n}": in_tiles(net.build, to_w, (x, dy), 4) for n, dy in enumerate(images)}
    graph = net.build.graph(steps)
    assert kernels(graph) == 2 + 3 + 3
    assert_as_reference(graph, net.feeds, device, Style.GPU)


def test_more_workgroups_than_one_dimension_holds(device: Device) -> None:
    net = Net()
    factors = net.input(3, 20, 13, 11), net.input(7, 20, 3, 3)
    y = in_tiles(net.build, Conv((1, 1), (1, 1), (1, 1), 1), factors, 2)
    graph = net.build.graph({"y": y})
    assert_as_reference(graph, net.feeds, device, Style.GPU, DeviceLimits(workgroups=3))


@pytest.mark.parametrize(("m", "bound"), [(2, 2e-6), (4, 1e-5)])
@pytest.mark.parametrize("channels", [64, 512])
def test_single_precision_is_enough(m: int, bound: float, channels: int) -> None:
    net = Net()
    geometry = ((1, 1), (1, 1), (1, 1), 1)
    x, w = net.input(2, channels, 8, 8), net.input(16, channels, 3, 3)
    dy = net.input(2, 16, 8, 8)
    ways: dict[str, Value] = {
        "y": in_tiles(net.build, Conv(*geometry), (x, w), m),
        "dx": in_tiles(net.build, ConvInputGradient(*geometry, (8, 8)), (w, dy), m),
        "dw": in_tiles(net.build, ConvWeightGradient(*geometry, (3, 3)), (x, dy), m),
    }
    graph = net.build.graph(ways)
    exact = evaluate(graph, net.feeds, Precision.DOUBLE).outputs
    for name, found in evaluate(graph, net.feeds).outputs.items():
        assert np.abs(found - exact[name]).max() < bound * np.abs(exact[name]).max()


def test_a_training_step_in_tiles(device: Device) -> None:
    program = pipeline.load("digits_cnn")
    forward = pipeline.elaborate_train(program, sizes={"batch": 2}, training=True)
    settings = TrainingSettings(Sgd(0.1, momentum=0.9))
    step = optimized_training_step(forward.graph, settings, RewriteOptions(device=FORMS)).graph
    initial = initial_values(forward.parameters, 0)
    generator = np.random.default_rng(0)
    feeds: dict[str, Array] = {}
    for value in step.values:
        if not isinstance(value.op, Leaf):
            continue
        shape = concrete_shape(value.op.shape)
        if value.op.name in initial:
            feeds[value.op.name] = initial[value.op.name]
        elif value.op.dtype is DType.F32:
            feeds[value.op.name] = generator.standard_normal(shape, np.float32)
        else:
            feeds[value.op.name] = generator.integers(0, 10, shape).astype(np.int32)
    assert {WinogradOutput, WinogradKernelGradient} <= {type(value.op) for value in step.values}
    assert_as_reference(step, feeds, device, Style.GPU)


@pytest.mark.parametrize(("tiles", "squares"), [(4, 4), (3, 1)])
def test_a_cpu_transforms_four_neighbours_at_once(tiles: int, squares: int) -> None:
    net = Net()
    data, kernel = net.input(1, 64, 4, 4 * tiles), net.input(64, 64, 3, 3)
    y = in_tiles(net.build, Conv((1, 1), (1, 1), (1, 1), 1), (data, kernel), 4)
    graph = net.build.graph({"y": y})
    for style, each in ((Style.GPU, 1), (Style.SOFTWARE_VULKAN, squares)):
        plan = plan_graph(graph, DeviceLimits(), style)
        (found,) = (one for one in plan.dispatches if one.kind == "winograd input")
        assert found.workgroups == (tiles // each, 1, 1)
