"""Tint, the compiler of Chromium, takes every kernel, as naga does in all other tests."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from meganeura_dsl import pipeline
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Adam
from meganeura_dsl.transforms.training_step import TrainingSettings, optimized_training_step
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.effort import effort
from tests.narrow import NARROW
from tests.scans import forward as forward_of

pytestmark = pytest.mark.browser

MODELS = tuple(NARROW) if effort(0, 1) else ("whisper_tiny",)
TRAININGS = (
    {"digits_cnn": {"batch": 8}, "lm_tiny": {"batch": 2, "s": 6}}
    if effort(0, 1)
    else {"digits_mlp": {"batch": 8}}
)

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


def plans() -> Iterator[tuple[str, ...]]:
    """The kernels of models and of training steps."""
    for name in MODELS:
        graph = RewriteOptions().optimize(NARROW[name].elaborate().graph, "infer").graph
        yield plan_graph(graph, PORTABLE).kernels
    for name, sizes in TRAININGS.items():
        forward = pipeline.elaborate_train(pipeline.load(name), sizes=sizes, training=True).graph
        wanted = TrainingSettings(Adam(1e-3), clip_norm=1.0)
        step = optimized_training_step(forward, wanted, RewriteOptions())
        yield plan_graph(step.graph, PORTABLE).kernels
    stopping = plan_graph(forward_of(STOPPING), PORTABLE).kernels
    assert any("workgroupUniformLoad" in each for each in stopping)
    yield stopping


def test_every_kernel_is_taken(page: Page) -> None:
    kernels = [text for each in plans() for text in each]
    assert len(kernels) > 20
    page.goto("about:blank")
    page.route("**/*", lambda route: route.fulfill(body="<!doctype html>"))
    page.goto("http://localhost/")
    assert page.evaluate(CHECK, ["nonsense", *kernels]) != []
    assert page.evaluate(CHECK, kernels) == []
