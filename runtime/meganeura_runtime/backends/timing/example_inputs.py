"""Something to compute with where only time matters: parameters and inputs of any graph."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.ir.graph import Array, Graph, Leaf
from meganeura_dsl.ir.index_checks import Bound, leaf_bounds
from meganeura_dsl.ir.interpreter import storage_type
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.reserved_names import LEARNING_RATE
from meganeura_dsl.transforms.expand_fused import expand_fused


@dataclass(frozen=True)
class Example:
    """The values that a session is loaded with, and the inputs of a step."""

    persistent: Mapping[str, Array]
    feeds: Mapping[str, Array]


def example_of(graph: Graph, seed: int = 0) -> Example:
    """Random numbers, the same each time; integers that pick something do pick something.

    What is kept is positive, as variances have to be, and a learning rate is 0, so that however
    many steps are made all numbers stay finite. None is near 0: Adam divides by the roots of second
    moments, and of a hundred million normal numbers some are 0.
    """
    generator = np.random.default_rng(seed)
    bounds = leaf_bounds(expand_fused(graph))
    persistent: dict[str, Array] = {}
    feeds: dict[str, Array] = {}
    for value in graph.values:
        leaf = value.op
        if not isinstance(leaf, Leaf):
            continue
        found = _numbers(generator, leaf, bounds.get(leaf.name))
        if leaf.is_persistent:
            persistent[leaf.name] = _kept(found)
        else:
            feeds[leaf.name] = np.zeros_like(found) if leaf.name == LEARNING_RATE else found
    return Example(persistent, feeds)


def _kept(found: Array) -> Array:
    if not np.issubdtype(found.dtype, np.floating):
        return np.abs(found)
    least, scale = map(found.dtype.type, (0.01, 0.1))
    return least + np.abs(found) * scale


def _numbers(generator: np.random.Generator, leaf: Leaf, bound: Bound | None) -> Array:
    shape, dtype = concrete_shape(leaf.shape), storage_type(leaf.dtype)
    if leaf.dtype.is_float:
        return generator.standard_normal(shape, np.float32).astype(dtype)
    return generator.integers(0, 2 if bound is None else bound.count, shape).astype(dtype)
