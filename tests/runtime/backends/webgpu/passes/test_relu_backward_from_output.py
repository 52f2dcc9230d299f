"""Conditions that read the result of a relu."""

from typing import Literal

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import Compare, Input, Log, Where
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.passes.relu_backward_from_output import (
    relu_backward_from_output,
)

Kind = Literal["le", "lt", "gt"]
TARGET = Target(DeviceLimits(), Style.GPU)
SPECIAL = [-1.5, -0.0, 0.0, 2.5, np.nan, np.inf, -np.inf]


def cut(kind: Kind = "le", level: float = 0) -> Graph:
    """A cut-off of x, and a gradient that goes through where x is not cut off."""
    build = Builder()
    x, slope = (build.add(Input(name, DType.F32, (7,))) for name in ("x", "slope"))
    low = full(build, x.type, level)
    condition = build.add(Compare(kind), x, low)
    y = build.add(Where(), condition, low, x)
    back = build.add(Where(), condition, full(build, x.type, 0), slope)
    return build.graph({"y": y, "back": back})


def readers_of_x(graph: Graph) -> list[str]:
    x = next(value for value in graph.values if value.op == Input("x", DType.F32, (7,)))
    return [type(value.op).__name__ for value in graph.values if x in value.operands]


def test_the_sign_of_x_is_read_off_relu() -> None:
    graph = relu_backward_from_output(cut(), TARGET)
    back = graph.outputs["back"]
    assert back.operands[0].operands[0] is graph.outputs["y"]
    feeds = {"x": np.array(SPECIAL, np.float32), "slope": np.arange(1, 8, dtype=np.float32)}
    found, expected = evaluate(graph, feeds).outputs, evaluate(cut(), feeds).outputs
    for name in ("y", "back"):
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize(("kind", "level"), [("lt", 0), ("le", 1), ("gt", 0)])
def test_nothing_else_is_a_relu(kind: Kind, level: float) -> None:
    graph = cut(kind, level)
    assert readers_of_x(relu_backward_from_output(graph, TARGET)) == readers_of_x(graph)
    back = relu_backward_from_output(graph, TARGET).outputs["back"]
    assert back.operands[0].operands[0].op == Input("x", DType.F32, (7,))


def test_another_choice_by_the_sign_of_x_is_no_relu() -> None:
    """Of a choice between 0 and log(x) nobody reads the sign of x: it is not that of log(x)."""
    build = Builder()
    x, slope = (build.add(Input(name, DType.F32, (7,))) for name in ("x", "slope"))
    zero = full(build, x.type, 0)
    for chosen in (build.add(Log(), x), slope):
        condition = build.add(Compare("le"), x, zero)
        y = build.add(Where(), condition, zero, chosen)
        back = build.add(Where(), condition, zero, slope)
        graph = build.graph({"y": y, "back": back})
        rewritten = relu_backward_from_output(graph, TARGET)
        assert rewritten.outputs["back"].operands[0].operands[0].op == x.op
