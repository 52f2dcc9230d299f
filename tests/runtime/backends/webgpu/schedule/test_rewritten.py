"""Rewriting makes no plan worse: of the same model no more kernels, bytes moved or memory."""

from collections.abc import Mapping

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.plan import Plan
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.effort import effort

TRAINS: Mapping[str, str] = {
    "digits_cnn": "fit",
    "resnet": "digits",
    "repvgg": "digits",
    "whisper": "words",
    "lm": "text",
    "gpt2": "text",
    "vit": "digits",
    "unet": "denoise",
}
SOME = ["digits_cnn", "lm"]
"""Batch norm, attention, group norms with convolutions up and down; the others at night."""
LIMITS = DeviceLimits(storage_buffers=64, invocations=1024, workgroup_bytes=48 << 10)
"""Those of a large GPU, where no kernel is cut for having too many tensors."""
SGD = TrainingSettings(Sgd(0.1, momentum=0.9))
MERGING = ("part-of-product",)
SLACK = 1.01
"""Positions of tensors, and so the amount read of them, may differ a little."""


def forward(name: str, *, training: bool) -> Graph:
    program = pipeline.load(name)
    sizes = {"batch": 2}
    return pipeline.elaborate_train(program, TRAINS[name], sizes=sizes, training=training).graph


def planned(graph: Graph) -> Plan:
    return plan_graph(graph, LIMITS)


def moved(plan: Plan) -> int:
    return sum(each.bytes for each in plan.dispatches)


def step(graph: Graph) -> Graph:
    fused = optimize(graph, mode="forward", disabled=MERGING).graph
    return optimize(training_step(fused, SGD), mode="train", disabled=MERGING).graph


def assert_no_worse(after: Plan, before: Plan) -> None:
    assert len(after.dispatches) <= len(before.dispatches)
    assert moved(after) <= SLACK * moved(before)
    assert after.least_bytes <= SLACK * before.least_bytes


@pytest.mark.parametrize("name", effort(SOME, list(TRAINS)))
def test_a_training_step_is_planned_no_worse(name: str) -> None:
    graph = forward(name, training=True)
    assert_no_worse(planned(step(graph)), planned(training_step(graph, SGD)))


@pytest.mark.parametrize("name", effort(["whisper"], list(TRAINS)))
def test_inference_is_planned_no_worse(name: str) -> None:
    graph = forward(name, training=False)
    found = optimize(graph, mode="infer", disabled=MERGING).graph
    assert_no_worse(planned(found), planned(graph))


@pytest.mark.parametrize("name", effort(["lm"], ["whisper", "lm"]))
@pytest.mark.usefixtures("apart")
def test_projections_made_at_once_save_kernels_for_some_memory(name: str) -> None:
    # All of a product stays until its last part is read.
    graph = forward(name, training=False)
    before, after = planned(graph), planned(optimize(graph, mode="infer").graph)
    assert len(after.dispatches) <= len(before.dispatches) - 4
    assert moved(after) <= 1.03 * moved(before)
    assert after.least_bytes <= 1.3 * before.least_bytes
