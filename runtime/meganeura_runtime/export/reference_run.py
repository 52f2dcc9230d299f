"""Reference results for an exported model: the model itself on random inputs."""

from collections.abc import Mapping

import numpy as np

from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.index_checks import leaf_bounds
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_runtime.backends.base import leaf_types
from meganeura_runtime.backends.index_checks import with_indices_checked
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.io.tensors.stored_tensor import NUMPY


def reference_run(
    graph: Graph, values: Mapping[str, Array], inputs: Mapping[str, Array]
) -> Mapping[str, Array]:
    """The outputs of a graph with these parameters, by the reference backend."""
    with with_indices_checked(graph, ReferenceSession(graph), leaf_bounds(graph)) as session:
        session.load({name: values[name] for name in session.names})
        return session.step(inputs)


def exact_run(
    graph: Graph, values: Mapping[str, Array], inputs: Mapping[str, Array]
) -> Mapping[str, Array]:
    """The same outputs, computed in double precision."""
    interpreter = Interpreter(graph, Precision.DOUBLE)
    read = {name: array for name, array in values.items() if name in interpreter.leaves}
    return interpreter.run({**read, **inputs}).outputs


def random_inputs(graph: Graph, seed: int, rows: int = 2) -> dict[str, Array]:
    """Normal numbers, and indices that exist in any table of so many rows, and in their own."""
    generator, bounds = np.random.default_rng(seed), leaf_bounds(graph)
    inputs: dict[str, Array] = {}
    for name, wanted in leaf_types(graph)[1].items():
        shape = tuple(size for size in wanted.shape if isinstance(size, int))
        below = max(1, min(rows, bounds[name].count)) if name in bounds else rows
        drawn = (
            generator.normal(size=shape)
            if wanted.dtype.is_float
            else generator.integers(0, below, size=shape)
        )
        inputs[name] = drawn.astype(NUMPY[wanted.dtype])
    return inputs
