"""Tint, the compiler of Chromium, takes every kernel, and so does naga, that of wgpu."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import wgpu
from playwright.sync_api import Page

from meganeura_dsl import pipeline
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Adam
from meganeura_dsl.transforms.training_step import TrainingSettings, optimized_training_step
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.effort import effort
from tests.kinds import KINDS, concrete
from tests.narrow import NARROW
from tests.scans import forward as forward_of
from tests.stdlib_models.first_step import TRAININGS, job

pytestmark = [pytest.mark.adapter, pytest.mark.browser]

STOPPING = """
block Net()(x: [96, 96], w: [96, 96]) -> [96, 96], [6]:
  y = x
  scan t in 0..6 while max(y) < 2:
    y = tanh(y @ w) + softmax(y)
    z[t] = sum(y)
  return y, z

model net = Net()
"""
"""A loop whose kernels return early, those that meet at barriers too."""

CHECK = """async (kernels) => {
  const adapter = await navigator.gpu.requestAdapter();
  const device = await adapter.requestDevice({
    requiredFeatures: ["shader-f16"].filter((each) => adapter.features.has(each)),
  });
  const wrong = [];
  for (const code of kernels) {
    const { messages } = await device.createShaderModule({ code }).getCompilationInfo();
    for (const { type, message } of messages) if (type === "error") wrong.push(message);
  }
  device.destroy();
  return wrong;
}"""


def narrow(name: str) -> Graph:
    """A model that is soon compiled."""
    return RewriteOptions().optimize(NARROW[name].elaborate().graph, "infer").graph


def step_of_digits() -> Graph:
    """A training step with a clipped gradient."""
    sizes = {"batch": 8}
    forward = pipeline.elaborate_train(
        pipeline.load("digits_mlp"), sizes=sizes, training=True
    ).graph
    wanted = TrainingSettings(Adam(1e-3), clip_norm=1.0)
    return optimized_training_step(forward, wanted, RewriteOptions()).graph


def kind(name: str) -> Graph:
    """A standard model as it runs."""
    return RewriteOptions().optimize(concrete(name).graph, "infer").graph


def training(file: str, train: str) -> Graph:
    """The step of a `train` block of the standard files."""
    with TemporaryDirectory() as folder:
        return job(file, train, Path(folder)).spec.compiled


BY_DAY: Mapping[str, Callable[[], Graph]] = {
    "whisper_tiny": partial(narrow, "whisper_tiny"),
    "training of digits_mlp": step_of_digits,
    "a loop that stops": partial(forward_of, STOPPING),
}
AT_NIGHT: Mapping[str, Callable[[], Graph]] = {
    **BY_DAY,
    **{f"narrow {name}": partial(narrow, name) for name in NARROW},
    **{name: partial(kind, name) for name in KINDS},
    **{f"{file} {train}": partial(training, file, train) for file, train in TRAININGS},
}
GRAPHS = effort(BY_DAY, AT_NIGHT)


@pytest.mark.parametrize("name", GRAPHS)
def test_every_kernel_is_taken(name: str, page: Page) -> None:
    kernels = plan_graph(GRAPHS[name](), PORTABLE).kernels
    assert kernels
    assert name != "a loop that stops" or any("workgroupUniformLoad" in each for each in kernels)
    page.goto("about:blank")
    page.route("**/*", lambda route: route.fulfill(body="<!doctype html>"))
    page.goto("http://localhost/")
    assert page.evaluate(CHECK, ["nonsense", *kernels]) != []
    assert page.evaluate(CHECK, kernels) == []
    device = wgpu.gpu.request_adapter_sync().request_device_sync()
    with pytest.raises(wgpu.GPUValidationError):
        device.create_shader_module(code="nonsense")
    for code in kernels:
        device.create_shader_module(code=code)
