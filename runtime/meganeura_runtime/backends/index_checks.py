"""A session that checks indices: those it is given, and those it computes."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.index_checks import Bound, checks_of
from meganeura_dsl.ir.ops.primitive.gather_scatter import OutsideError
from meganeura_dsl.ir.outputs import IndexCheck
from meganeura_runtime.backends.base import Outputs, Session, Uploaded
from meganeura_runtime.backends.session_proxy import SessionProxy
from meganeura_runtime.io.data.index_problems import (
    ComputedIndexOutside,
    check_values,
    require_inside,
)


def with_indices_checked(graph: Graph, session: Session, bounds: Mapping[str, Bound]) -> Session:
    """A session of a graph that raises `ProblemError` for indices out of range.

    `bounds` are of inputs and parameters that are indices as they come, and are checked when they
    are given. Indices that `graph` checks are read with the outputs of their step; where a step
    changes what is kept, behind every step, and before that is read. A session that has nothing to
    check is returned as it is.
    """
    checks = checks_of(graph)
    if not bounds and not checks:
        return session
    kind = UpdatingSession if graph.updates else CheckedSession
    return kind(graph, session, bounds, checks)


class CheckedSession(SessionProxy):
    """Another session, whose outputs are read only if the indices of their step are in range."""

    def __init__(
        self,
        graph: Graph,
        inner: Session,
        bounds: Mapping[str, Bound],
        checks: Sequence[IndexCheck],
    ) -> None:
        super().__init__(graph, inner)
        self._bounds = bounds
        self._checks = checks

    def persistent(self) -> dict[str, Array]:
        """Read all parameters and states."""
        return self._inner.persistent()

    def _put(self, name: str, array: Array) -> None:
        if name in self._bounds:
            check_values(array, self._bounds[name], name)
        self._inner.write(name, array)

    def _get(self, name: str) -> Array:
        return self._inner.read(name)

    def _fitting(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        fitting = super()._fitting(feeds)
        for name, array in fitting.items():
            if name in self._bounds:
                check_values(array, self._bounds[name], name)
        return fitting

    def follow(self, feeds: Mapping[str, Array], links: Mapping[str, str]) -> Outputs:
        """Run a step some of whose inputs are outputs of the last one, and check it."""
        self.require_values()
        self._last = self._watched(lambda: self._inner.follow(feeds, links))
        return self._last

    def _run(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        return self._watched(lambda: self._inner.step(feeds))

    def _watched(self, run: Callable[[], Outputs]) -> Outputs:
        """The outputs of a step but for its checks."""
        try:
            return _Checked(run(), self._checks)
        except OutsideError as error:
            raise ProblemError(self._problem(error)) from error

    def _problem(self, error: OutsideError) -> ComputedIndexOutside:
        """Returns the problem that the reference found, with the place of the indexing."""
        locations = (check.location for check in self._checks if check.below == error.size)
        return ComputedIndexOutside(error.id, error.size, next(locations, ""))


class UpdatingSession(CheckedSession):
    """One whose steps change what is kept, so that no step may go unseen.

    A step is checked when the device is done with it, and before anything kept is read. After one
    that was wrong nothing can be read any more.
    """

    def __init__(
        self,
        graph: Graph,
        inner: Session,
        bounds: Mapping[str, Bound],
        checks: Sequence[IndexCheck],
    ) -> None:
        super().__init__(graph, inner, bounds, checks)
        self._unread: deque[_Checked] = deque()

    def settle(self) -> None:
        """Check all steps so far."""
        self._settle(0)

    def persistent(self) -> dict[str, Array]:
        """Read all parameters and states, once all steps are known to be right."""
        self._settle(0)
        return super().persistent()

    def _get(self, name: str) -> Array:
        self._settle(0)
        return super()._get(name)

    def _watched(self, run: Callable[[], Outputs]) -> Outputs:
        outputs = super()._watched(run)
        if self._checks and isinstance(outputs, _Checked):
            outputs.request()
            self._unread.append(outputs)
            self._settle(self._inner.ahead)
        return outputs

    def _settle(self, behind: int) -> None:
        """Check all steps but the last few; a wrong one stays, and is reported each time."""
        while len(self._unread) > behind:
            self._unread[0].look()
            self._unread.popleft()


class _Checked(Outputs):
    """The outputs of a step but for its checks, which are read before any other."""

    def __init__(self, outputs: Outputs, checks: Sequence[IndexCheck]) -> None:
        self._outputs = outputs
        self._checks = checks
        self._names = [name for name in outputs if name not in checks]
        self._is_right = not checks

    def request(self) -> None:
        """Have them brought to the host, with the checks."""
        self._outputs.request()

    def look(self) -> None:
        """Raise `ProblemError` unless the indices of the step are in range."""
        if not self._is_right:
            require_inside(self._checks, self._outputs)
            self._is_right = True

    def __getitem__(self, name: str) -> Array:
        self.look()
        return self._outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
