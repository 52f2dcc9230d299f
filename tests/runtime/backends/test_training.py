"""A small network trained on an adapter and by the reference: the same losses, step by step."""

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Builder, Graph, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Constant,
    Conv,
    Input,
    MatMul,
    Maximum,
    MaxPool,
    Mul,
    Parameter,
    Reshape,
    Sum,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.optimizers.optimizers import Adam, Optimizer, Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.webgpu.config.limits import Style
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from tests.effort import effort

pytestmark = pytest.mark.adapter


def network() -> Graph:
    """Two convolutions, a pool and a linear layer; the loss is the mean square of what it gives."""
    build = Builder()

    def parameter(name: str, *shape: int) -> Value:
        return build.add(Parameter(name, DType.F32, shape, "param"))

    def biased(x: Value, name: str) -> Value:
        bias = parameter(f"{name}.bias", int(str(x.type.shape[1])))
        return build.add(Add(), x, build.add(Broadcast(x.type.shape, (1,)), bias))

    def convolved(x: Value, name: str, outputs: int, stride: int) -> Value:
        w = parameter(f"{name}.weight", outputs, int(str(x.type.shape[1])), 3, 3)
        y = biased(build.add(Conv((stride,) * 2, (1, 1), (1, 1), 1), x, w), name)
        return build.add(Maximum(), y, full(build, y.type, 0))

    x = build.add(Input("x", DType.F32, (4, 3, 8, 8)))
    y = convolved(convolved(x, "first", 8, 1), "second", 16, 2)
    y = build.add(Reshape((4, 64)), build.add(MaxPool((2, 2), (2, 2), (0, 0)), y))
    y = biased(build.add(MatMul(transpose_right=True), y, parameter("last.weight", 10, 64)), "last")
    square = build.add(Sum((0, 1)), build.add(Mul(), y, y))
    loss = build.add(Mul(), square, build.add(Constant(1 / 40, DType.F32)))
    return build.graph({"loss": loss})


@pytest.mark.parametrize("style", effort([Style.GPU], Style))
@pytest.mark.parametrize(
    "optimizer", [Sgd(lr=0.02, momentum=0.9), Adam(lr=0.01)], ids=["sgd", "adam"]
)
def test_the_losses_agree(optimizer: Optimizer, style: Style, device: Device) -> None:
    graph = training_step(network(), TrainingSettings(optimizer))
    plan = plan_graph(graph, device.limits, style)
    assert plan.copies == ()
    generator = np.random.default_rng(0)
    with WebGpuSession(plan, device) as actual, ReferenceSession(graph) as expected:
        for name in actual.names:
            tensor = next(one for one in plan.parameters if one.name == name)
            start = np.zeros(tensor.shape, np.int32 if tensor.dtype is DType.I32 else np.float32)
            if not name.startswith("optimizer"):
                start += 0.2 * generator.standard_normal(tensor.shape).astype(np.float32)
            actual.write(name, start)
            expected.write(name, start)
        for _ in range(effort(8, 20)):
            feeds = {"x": generator.standard_normal((4, 3, 8, 8)).astype(np.float32)}
            losses = [float(session.step(feeds)["loss"]) for session in (actual, expected)]
            assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_a_step_takes_few_dispatches(device: Device) -> None:
    graph = training_step(network(), TrainingSettings(Sgd(lr=0.02, momentum=0.9)))
    plan = plan_graph(graph, device.limits, Style.SOFTWARE_VULKAN)
    assert len(plan.dispatches) <= 15
