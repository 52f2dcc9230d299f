"""Comparison of the numbers of two graphs, and inputs for an optimized graph."""

from collections.abc import Collection, Mapping
from zlib import crc32

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Graph, Leaf, Value, by_application
from meganeura_dsl.ir.interpreter import Precision, Results, evaluate, storage_type
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.ir.verify import verify
from meganeura_dsl.transforms.egraph.encoding.schema import constructor_name
from meganeura_dsl.transforms.egraph.optimize import Optimized, optimize
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode

TOLERANCE = 1e-9


def numbers(leaf: Leaf) -> Array:
    """Numbers for a leaf: the same for the same name. A variance is not negative."""
    generator = np.random.default_rng(crc32(leaf.name.encode()))
    shape = concrete_shape(leaf.shape)
    if leaf.dtype.is_float:
        drawn = generator.normal(size=shape)
        return np.asarray(np.abs(drawn) + 0.5 if "var" in leaf.name else drawn)
    return np.asarray(generator.integers(0, 3, shape).astype(storage_type(leaf.dtype)))


def feeds(graph: Graph) -> dict[str, Array]:
    """Numbers for every leaf of a graph."""
    return {
        value.op.name: numbers(value.op) for value in graph.values if isinstance(value.op, Leaf)
    }


def run(graph: Graph, fed: Mapping[str, Array]) -> Results:
    """Returns the results of a graph in double precision."""
    return evaluate(graph, fed, Precision.DOUBLE)


def run_optimized(optimized: Optimized, fed: Mapping[str, Array]) -> Results:
    """Returns the results of an optimized graph; derived parameters are computed as by a loader."""
    load = {name: fed[name] for name in names(optimized.load)}
    derived = run(optimized.load, load).outputs
    everything = {**fed, **derived}
    return run(optimized.graph, {name: everything[name] for name in names(optimized.graph)})


def names(graph: Graph) -> list[str]:
    """The names of a graph's leaves."""
    return [value.op.name for value in graph.values if isinstance(value.op, Leaf)]


def assert_equal_results(actual: Results, expected: Results, tolerance: float = TOLERANCE) -> None:
    """The same names, the same numbers."""
    for found, wanted in ((actual.outputs, expected.outputs), (actual.updates, expected.updates)):
        assert list(found) == list(wanted)
        for name, array in wanted.items():
            numbers_found = found[name].astype(np.float64)
            np.testing.assert_allclose(numbers_found, array, tolerance, tolerance)


def check(graph: Graph, mode: Mode, disabled: Collection[str] = ()) -> Optimized:
    """Optimize, and hold the result against the graph."""
    optimized = optimize(graph, mode=mode, disabled=disabled)
    verify(optimized.graph)
    verify(optimized.load)
    fed = feeds(graph)
    assert_equal_results(run_optimized(optimized, fed), run(graph, fed))
    return optimized


def ops_of(graph: Graph) -> list[str]:
    """The names of a graph's ops, each application once, leaves left out, in order.

    A name has those of the optional operands.
    """
    applied = by_application(value for value in graph.values if value.operands)
    return [constructor_name(type(value.op), len(value.operands)) for value, *_ in applied]


def data(build: Builder, name: str, *shape: int, dtype: DType = DType.F32) -> Value:
    """An input."""
    return build.add(Input(name, dtype, shape))
