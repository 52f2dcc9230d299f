"""The session that needs no GPU: NumPy computes the reference semantics."""

from collections.abc import Mapping
from contextlib import nullcontext
from math import prod, sqrt

import numpy as np
from threadpoolctl import ThreadpoolController

from meganeura_dsl.ir.graph import Array, Graph, Value
from meganeura_dsl.ir.interpreter import Interpreter, Watch
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.transforms.expand_fused import expand_fused
from meganeura_runtime.backends.base import (
    Computed,
    Outputs,
    Session,
    Uploaded,
    foreign,
    leaf_types,
)
from meganeura_runtime.backends.memory_estimate import require_memory

WORTH_THREADS = 5e7
"""Multiply-adds of a contraction below which threads cost more than they gain.

They wait for each other in a busy loop: where another program has one of the cores, a step of a
small network took ten times as long with two threads as with one.
"""


class ReferenceSession(Session):
    """A graph run by the reference interpreter, one op after another.

    Fused ops are spelled out: NumPy has no kernel for them, and two that use the same statistics
    would compute them twice.
    """

    watch: Watch | None = None
    """Who is told when each op began and ended."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(*leaf_types(graph))
        expanded = expand_fused(graph)
        require_memory(expanded)
        self._interpreter = Interpreter(expanded)
        self._values: dict[str, Array] = {}
        largest = max(map(_multiply_adds, expanded.values), default=0)
        self._threads = None if largest >= WORTH_THREADS else ThreadpoolController()

    @property
    def ahead(self) -> int:
        """A step is done when `step` returns."""
        return 0

    @property
    def kernels(self) -> int:
        """NumPy has compiled its own."""
        return 0

    def ready(self) -> None:
        """There is nothing to wait for."""

    def close(self) -> None:
        """Forget all values."""
        self._values.clear()

    def _put(self, name: str, array: Array) -> None:
        self._values[name] = np.array(array)

    def _get(self, name: str) -> Array:
        return np.array(self._values[name])

    def _upload(self, feeds: Mapping[str, Array]) -> Uploaded:
        return _Kept(self, {name: np.array(array) for name, array in feeds.items()})

    def _stage(self, feeds: Mapping[str, Array]) -> Uploaded:
        return self._upload(feeds)

    def _run(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        if isinstance(feeds, Uploaded):
            if not isinstance(feeds, _Kept) or feeds.session is not self:
                raise foreign()
            feeds = feeds.arrays
        alone = nullcontext() if self._threads is None else self._threads.limit(limits=1)
        given = {**self._values, **feeds}
        with alone:
            if self.watch is None:
                results = self._interpreter.run(given)
            else:
                results = self._interpreter.watched(given, self.watch)
        self._values.update(results.updates)
        return Computed(results.outputs)


class _Kept(Uploaded):
    """Copies of inputs: nothing has to be moved."""

    def __init__(self, session: ReferenceSession, arrays: Mapping[str, Array]) -> None:
        self.session: ReferenceSession | None = session
        self.arrays: Mapping[str, Array] = arrays

    def close(self) -> None:
        self.session, self.arrays = None, {}


def _multiply_adds(value: Value) -> float:
    """The work of a contraction, from the sizes of its operands and result: sqrt(mk * kn * mn)."""
    if Trait.CONTRACTION not in value.op.traits:
        return 0
    sizes = (prod(tensor.type.shape) for tensor in (value, *value.operands))
    return sqrt(prod(size for size in sizes if isinstance(size, int)))
