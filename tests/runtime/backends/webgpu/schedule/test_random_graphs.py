"""Random graphs: the plan means what the graph means, fused or not, lowered or not."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meganeura_dsl.ir.interpreter import evaluate
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.passes.legalize import legalize
from tests.effort import effort
from tests.runtime.backends.webgpu.schedule.graphs import Example, examples
from tests.runtime.running import assert_as_reference, assert_close


@given(examples())
@settings(max_examples=effort(20, 1000))
def test_lowering_keeps_the_meaning(example: Example) -> None:
    target = Target(DeviceLimits(), Style.GPU)
    expected = evaluate(example.graph, example.feeds)
    actual = evaluate(legalize(example.graph, target), example.feeds)
    for name, value in {**expected.outputs, **expected.updates}.items():
        assert_close({**actual.outputs, **actual.updates}[name], value, name)


@pytest.mark.adapter
@given(example=examples(), style=st.sampled_from(Style))
@settings(max_examples=effort(12, 500))
def test_a_plan_keeps_the_meaning(example: Example, style: Style, device: Device) -> None:
    """On a GPU small kernels share launches."""
    assert_as_reference(example.graph, example.feeds, device, style)


@pytest.mark.adapter
@given(example=examples())
@settings(max_examples=effort(12, 250))
def test_a_plan_for_few_bindings_keeps_the_meaning(example: Example, device: Device) -> None:
    few = replace(device.limits, storage_buffers=4, workgroups=2)
    assert_as_reference(example.graph, example.feeds, device, Style.GPU, few)
