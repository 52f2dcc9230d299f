"""A session of a backend that computes on the host, in NumPy arrays."""

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.lib.array_utils import byte_bounds

from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.interpreter import Results
from meganeura_runtime.backends.base import (
    NOTHING_SHARED,
    Computed,
    Outputs,
    Session,
    SessionError,
    Uploaded,
    foreign,
    leaf_types,
)
from meganeura_runtime.backends.session_guard import Guard


class HostSession(Session):
    """Parameters and states are arrays, and a step is done when `step` returns."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(*leaf_types(graph), Guard(survives_fork=True))
        self._values: dict[str, Array] = {}

    @abstractmethod
    def _computed(self, given: Mapping[str, Array]) -> Results:
        """The outputs and updates of a step, from the values of all leaves."""

    @property
    def ahead(self) -> int:
        """A step is done when `step` returns."""
        return 0

    @property
    def kernels(self) -> int:
        """Nothing is compiled."""
        return 0

    def ready(self) -> None:
        """There is nothing to wait for."""

    def wait(self) -> None:
        """There is nothing to wait for."""

    def close(self) -> None:
        """Forget all values; a session that shares them has them still."""
        self._values = {}

    def _share(self, other: Session) -> None:
        if not isinstance(other, HostSession):
            raise SessionError(NOTHING_SHARED)
        self._values = other._values  # noqa: SLF001 - another session of this class

    def _put(self, name: str, array: Array) -> None:
        self._values[name] = np.array(array)

    def _get(self, name: str) -> Array:
        return np.array(self._values[name])

    def _upload(self, feeds: Mapping[str, Array]) -> Uploaded:
        return _Copies(self, {name: np.array(array) for name, array in feeds.items()})

    def _stage(self, feeds: Mapping[str, Array]) -> Uploaded:
        return self._upload(feeds)

    def _run(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        if isinstance(feeds, Uploaded):
            if not isinstance(feeds, _Copies) or feeds.session is not self:
                raise foreign()
            feeds = feeds.arrays
        results = self._computed({**self._values, **feeds})
        lasting = [each for name, each in self._values.items() if name not in results.updates]
        apart = Apart([*feeds.values(), *lasting])
        self._values.update(apart.owned(results.updates))
        return Computed(apart.owned(results.outputs))


class Apart:
    """Gives arrays that share no memory with each other, nor with those it begins with."""

    def __init__(self, arrays: Iterable[Array]) -> None:
        # What is taken as ranges of addresses that do not touch, in order.
        self._starts: list[int] = []
        self._ends: list[int] = []
        for array in arrays:
            self._take(array)

    def owned(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The arrays, copied where they share memory or are views of what may not be written."""
        return {name: self._own(array) for name, array in arrays.items()}

    def _own(self, array: Array) -> Array:
        if array.flags.writeable and self._take(array):
            return array
        copy = np.array(array)
        self._take(copy)
        return copy

    def _take(self, array: Array) -> bool:
        """Take its memory from first to last byte; whether none of it was taken before."""
        if not array.size:
            return True
        start, end = byte_bounds(array)
        first, behind = bisect_right(self._ends, start), bisect_left(self._starts, end)
        is_free = first == behind
        if not is_free:
            start, end = min(start, self._starts[first]), max(end, self._ends[behind - 1])
        self._starts[first:behind] = [start]
        self._ends[first:behind] = [end]
        return is_free


class _Copies(Uploaded):
    """Copies of inputs: nothing has to be moved."""

    def __init__(self, session: HostSession, arrays: Mapping[str, Array]) -> None:
        self.session: HostSession | None = session
        self.arrays: Mapping[str, Array] = arrays

    def close(self) -> None:
        self.session, self.arrays = None, {}
