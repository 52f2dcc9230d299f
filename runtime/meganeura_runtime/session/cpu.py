"""The session that needs no GPU: NumPy computes the reference semantics."""

from collections.abc import Mapping

import numpy as np

from meganeura_dsl.evaluate import Interpreter
from meganeura_dsl.graph.core import Array, Graph, Leaf
from meganeura_dsl.ops import Input
from meganeura_dsl.shapes.tensor import TensorType
from meganeura_runtime.session.base import Outputs, Session


class CpuSession(Session):
    """A graph run by the reference interpreter, one op after another."""

    def __init__(self, graph: Graph) -> None:
        inputs: dict[str, TensorType] = {}
        kept: dict[str, TensorType] = {}
        for value in graph.values:
            if isinstance(value.op, Leaf):
                leaves = inputs if isinstance(value.op, Input) else kept
                leaves[value.op.name] = value.type
        super().__init__(kept, inputs)
        self._interpreter = Interpreter(graph)
        self._values: dict[str, Array] = {}

    def close(self) -> None:
        """Forget all values."""
        self._values.clear()

    def _put(self, name: str, array: Array) -> None:
        self._values[name] = np.array(array)

    def _get(self, name: str) -> Array:
        return np.array(self._values[name])

    def _run(self, feeds: Mapping[str, Array]) -> Outputs:
        results = self._interpreter.run({**self._values, **feeds})
        self._values.update(results.updates)
        return results.outputs
