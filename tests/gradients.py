"""Gradients measured by central differences in double precision, element by element."""

from collections.abc import Mapping, Sequence
from functools import reduce
from zlib import crc32

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Graph, Value
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.ops import Add, Input, Mul, Sum
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.ops.type_rules import concrete_shape

STEP = 1e-5


def weighted_loss(build: Builder, values: Sequence[Value], name: str = "weights") -> Value:
    """Three times the sum of all elements, each with its own weight.

    So every value stands in the middle of the graph, under a cotangent that is neither one nor
    uniform. The weights are inputs named `weights.0`, `weights.1` and so on.
    """
    parts: list[Value] = []
    for index, value in enumerate(values):
        weights = build.add(Input(f"{name}.{index}", value.type.dtype, value.type.shape))
        product = build.add(Mul(), weights, build.add(Mul(), full(build, value.type, 3), value))
        parts.append(build.add(Sum(tuple(range(value.type.rank))), product))
    return reduce(lambda total, part: build.add(Add(), total, part), parts)


def fed(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The feeds, and for every input that has none numbers in [0.5, 2] of either sign."""
    complete = dict(feeds)
    for value in graph.values:
        if isinstance(value.op, Input) and value.op.name not in complete:
            generator = np.random.default_rng(crc32(value.op.name.encode()))
            shape = concrete_shape(value.op.shape)
            signs = generator.choice((-1, 1), shape)
            complete[value.op.name] = np.asarray(signs * generator.uniform(0.5, 2, shape))
    return complete


def numeric_gradient(graph: Graph, feeds: Mapping[str, Array], name: str) -> Array:
    """(loss(x + h) - loss(x - h)) / 2h for each element x of the input `name`."""
    interpreter = Interpreter(graph, Precision.DOUBLE)
    start = feeds[name].astype(np.float64)
    slopes = np.zeros(start.shape)
    for index in np.ndindex(start.shape):
        losses: list[float] = []
        for sign in (1, -1):
            moved = np.array(start)
            moved[index] += sign * STEP
            losses.append(float(interpreter.run({**feeds, name: moved}).outputs["loss"]))
        slopes[index] = (losses[0] - losses[1]) / (2 * STEP)
    return slopes


def assert_same(actual: Array, expected: Array, rtol: float = 1e-6, atol: float = 1e-6) -> None:
    """Every element agrees: |a - e| <= atol + rtol max(|a|, |e|)."""
    assert actual.shape == expected.shape
    allowed = atol + rtol * np.maximum(np.abs(actual), np.abs(expected))
    worst = np.argmax(np.abs(actual - expected) - allowed)
    assert np.all(np.abs(actual - expected) <= allowed), (
        f"at {np.unravel_index(worst, actual.shape)}: {actual.flat[worst]}"
        f" is not {expected.flat[worst]}"
    )
