"""Comparison of a graph with what a pass makes of it, on random inputs."""

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Graph, Value
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import (
    Constant,
    Input,
)
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType


def same_results(graph: Graph, rewritten: Graph) -> bool:
    """For random inputs, of which none is that of another."""
    generator = np.random.default_rng(0)
    feeds: dict[str, Array] = {
        value.op.name: generator.standard_normal(concrete_shape(value.type.shape)).astype("f4")
        for value in graph.values
        if isinstance(value.op, Input)
    }
    found, expected = evaluate(rewritten, feeds).outputs, evaluate(graph, feeds).outputs
    return all(np.allclose(found[name], expected[name], 1e-5, 1e-5) for name in expected)


def number(build: Builder, value: float) -> Value:
    return build.add(Constant(value, DType.F32))
