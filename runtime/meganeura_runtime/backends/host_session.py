"""A session of a backend that computes on the host, in NumPy arrays."""

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np

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
        """The number of kernels to compile, which is 0."""
        return 0

    def ready(self) -> None:
        """Returns at once: there is nothing to wait for."""

    def wait(self) -> None:
        """Returns at once: there is nothing to wait for."""

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
        lasting = (each for name, each in self._values.items() if name not in results.updates)
        taken = {id(each) for each in (*feeds.values(), *lasting)}
        self._values.update(owned(results.updates, taken))
        return Computed(owned(results.outputs, taken))


def owned(arrays: Mapping[str, Array], taken: set[int]) -> dict[str, Array]:
    """Arrays with memory that nothing else has, which are copies where they are not.

    `taken` has the ids of those that others have, to which these are added. A view is copied, and
    so is a constant, which may not be written.
    """
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        flags = array.flags
        is_own = flags.owndata and flags.writeable and id(array) not in taken
        found[name] = array if is_own else np.array(array)
        taken.add(id(found[name]))
    return found


class _Copies(Uploaded):
    """Copies of inputs: nothing has to be moved."""

    def __init__(self, session: HostSession, arrays: Mapping[str, Array]) -> None:
        self.session: HostSession | None = session
        self.arrays: Mapping[str, Array] = arrays

    def close(self) -> None:
        self.session, self.arrays = None, {}
