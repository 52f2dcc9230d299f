"""Inputs of a session in one step: data, counter and learning rates."""

from collections.abc import Mapping, Sequence

import numpy as np

from meganeura_dsl.elaborate.declarations.written_settings import setting_key
from meganeura_dsl.ir.graph import Graph, Leaf
from meganeura_dsl.ir.reserved_names import COUNTER, LEARNING_RATE
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_runtime.io.tensors.stored_tensor import Array

NOT_DATA = (COUNTER, LEARNING_RATE)
"""Inputs that the loop itself feeds."""


def leaves(graph: Graph) -> tuple[Leaf, ...]:
    """Returns the inputs, parameters and states of a graph, in order."""
    return tuple(value.op for value in graph.values if isinstance(value.op, Leaf))


def feeds(
    graph: Graph, data: Mapping[str, Array], seed: int, step: int, *rates: float
) -> dict[str, Array]:
    """The inputs of one run: the data, and what else the graph asks for."""
    return {**data, **clock_values(clock_names(graph), seed, step, rates)}


def without_rate(fed: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the inputs of a step that moves no parameter."""
    return {name: array for name, array in fed.items() if name != LEARNING_RATE}


def clock_names(graph: Graph) -> frozenset[str]:
    """The inputs of a graph that the loop itself feeds."""
    return frozenset(leaf.name for leaf in leaves(graph)).intersection(NOT_DATA)


def fed_rates(rates: Sequence[float]) -> Array:
    """Learning rates as a step takes them: a scalar, or a vector where paths have their own."""
    return np.array(rates if len(rates) > 1 else rates[0], np.float32)


def named_rates(settings: RunSettings, rates: Sequence[float]) -> dict[str, float]:
    """The learning rates of a step by the names under which they are recorded."""
    named = zip((None, *settings.schedules), rates, strict=True)
    return {setting_key(LEARNING_RATE, glob): rate for glob, rate in named}


def clock_values(
    names: frozenset[str], seed: int, step: int, rates: Sequence[float]
) -> dict[str, Array]:
    """Returns the values of counter and learning rate in a step, for inputs of these names."""
    clock = {
        COUNTER: np.array([seed, step], np.uint32),
        LEARNING_RATE: fed_rates(rates),
    }
    return {name: each for name, each in clock.items() if name in names}
