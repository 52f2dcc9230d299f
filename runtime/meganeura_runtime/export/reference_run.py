"""What an exported model is compared with: the model itself on random inputs, by the reference."""

from collections.abc import Mapping

import numpy as np

from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.index_checks import leaf_bounds
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


def random_inputs(graph: Graph, seed: int, rows: int = 2) -> dict[str, Array]:
    """Normal numbers, and indices that exist in any table of so many rows."""
    generator = np.random.default_rng(seed)
    inputs: dict[str, Array] = {}
    for name, wanted in leaf_types(graph)[1].items():
        shape = tuple(size for size in wanted.shape if isinstance(size, int))
        drawn = (
            generator.normal(size=shape)
            if wanted.dtype.is_float
            else generator.integers(0, rows, size=shape)
        )
        inputs[name] = drawn.astype(NUMPY[wanted.dtype])
    return inputs
