"""Input gradients of strided pointwise convolutions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import ConvInputGradient, Input, Pad
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.passes.strided_to_interior_pad import (
    strided_to_interior_pad,
)

TARGET = Target(DeviceLimits(), Style.GPU)
ALONG_AN_AXIS = st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 3))
"""Pixels of the input, the stride, and a dilation that one tap has no use for."""


def gradient(axes: list[tuple[int, int, int]], groups: int) -> Graph:
    """The gradient in the input of a pointwise convolution of 4 channels."""
    spatial, stride, dilation = (tuple(each) for each in zip(*axes, strict=True))
    pixels = tuple((size - 1) // step + 1 for size, step in zip(spatial, stride, strict=True))
    ones, none = (1,) * len(axes), (0,) * len(axes)
    build = Builder()
    w = build.add(Input("w", DType.F32, (6, 4 // groups, *ones)))
    dy = build.add(Input("dy", DType.F32, (2, 6, *pixels)))
    op = ConvInputGradient(stride, none, dilation, groups, spatial)
    return build.graph({"dx": build.add(op, w, dy)})


@given(st.lists(ALONG_AN_AXIS, min_size=1, max_size=3), st.sampled_from([1, 2]))
def test_the_padded_gradient_is_the_strided_one(
    axes: list[tuple[int, int, int]], groups: int
) -> None:
    graph = gradient(axes, groups)
    padded = strided_to_interior_pad(graph, TARGET)
    strided = any(step > 1 for _, step, _ in axes)
    assert any(isinstance(value.op, Pad) for value in padded.values) == strided
    generator = np.random.default_rng(0)
    feeds = {
        value.op.name: generator.standard_normal(concrete_shape(value.op.shape)).astype(np.float32)
        for value in graph.values
        if isinstance(value.op, Input)
    }
    found, expected = (evaluate(each, feeds).outputs["dx"] for each in (padded, graph))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_a_padded_image_keeps_its_gradient() -> None:
    """Its first tap reads the padding, so that the first pixel's gradient is no product."""
    build = Builder()
    w = build.add(Input("w", DType.F32, (6, 4, 1)))
    dy = build.add(Input("dy", DType.F32, (2, 6, 5)))
    graph = build.graph({"dx": build.add(ConvInputGradient((2,), (1,), (1,), 1, (7,)), w, dy)})
    kept = strided_to_interior_pad(graph, TARGET).outputs["dx"]
    assert kept.op == graph.outputs["dx"].op
