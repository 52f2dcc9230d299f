"""The session that needs no GPU: NumPy computes the reference semantics."""

from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache
from math import prod, sqrt

from threadpoolctl import ThreadpoolController

from meganeura_dsl.ir.graph import Array, Graph, Value
from meganeura_dsl.ir.interpreter import Interpreter, Results, Watch
from meganeura_dsl.ir.ops import OPS
from meganeura_dsl.ir.traits import Trait
from meganeura_runtime.backends.host_session import HostSession
from meganeura_runtime.backends.memory_estimate import require_memory
from meganeura_runtime.backends.op_support import OpSupport

SUPPORT = OpSupport("cpu", frozenset(OPS))
"""Every primitive: each op class has its reference semantics in NumPy."""
WORTH_THREADS = 5e7
"""Multiply-adds of a contraction below which threads cost more than they gain.

They wait for each other in a busy loop: where another program has one of the cores, a step of a
small network took ten times as long with two threads as with one.
"""


class ReferenceSession(HostSession):
    """A graph run by the reference interpreter, one op after another.

    Fused ops are expanded: NumPy has no kernel for them, and two that use the same statistics
    would compute them twice.
    """

    watch: Watch | None = None
    """A callback with the begin and end of each op."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        expanded = SUPPORT.supported(graph)
        require_memory(expanded)
        self._interpreter = Interpreter(expanded, in_place=True)
        largest = max(map(_multiply_adds, expanded.values), default=0)
        self._threads = None if largest >= WORTH_THREADS else _thread_pools()

    def _computed(self, given: Mapping[str, Array]) -> Results:
        alone = nullcontext() if self._threads is None else self._threads.limit(limits=1)
        with alone:
            return self._interpreter.run(given, self.watch)


@cache
def _thread_pools() -> ThreadpoolController:
    """The thread pools of NumPy's libraries, which are all loaded with it."""
    return ThreadpoolController()


def _multiply_adds(value: Value) -> float:
    """The work of a contraction, from the sizes of its operands and result: sqrt(mk * kn * mn)."""
    if Trait.CONTRACTION not in value.op.traits:
        return 0
    sizes = (prod(tensor.type.shape) for tensor in (value, *value.operands))
    return sqrt(prod(size for size in sizes if isinstance(size, int)))
