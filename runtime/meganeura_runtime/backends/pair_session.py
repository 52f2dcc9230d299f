"""One set of parameters trained by two graphs: full batches, and a last one that is smaller.

Kernels, memory and strides of a plan are those of its sizes, so each graph has a session of its
own. The parameters go from one to the other when the size of the batch changes, which is twice an
epoch.
"""

from collections.abc import Mapping

from meganeura_dsl.ir.graph import Array, Graph
from meganeura_runtime.backends.base import (
    OpenSession,
    Outputs,
    Session,
    Uploaded,
    foreign,
    leaf_types,
)


class PairSession(Session):
    """Two sessions of graphs that keep the same tensors, and differ in the size of an input.

    Takes the memory of both, the parameters and states among it.
    """

    def __init__(
        self,
        large: Graph,
        small: Graph,
        sized: str,
        open_session: OpenSession,
    ) -> None:
        """`sized` names the input whose size says which graph a step runs."""
        super().__init__(*leaf_types(large))
        self._sized = sized
        self._large = open_session(large)
        try:
            self._small = open_session(small)
        except BaseException:
            self._large.close()
            raise
        self._current = self._large
        """The session whose parameters are up to date."""

    @property
    def ahead(self) -> int:
        """As many as of either session."""
        return max(self._large.ahead, self._small.ahead)

    @property
    def kernels(self) -> int:
        """Those of both."""
        return self._large.kernels + self._small.kernels

    def own(self, examples: int) -> range:
        """Those that either session feeds."""
        return self._large.own(examples)

    def agree(self, *, wish: bool) -> bool:
        """Whether any process wishes it."""
        return self._large.agree(wish=wish)

    def ready(self) -> None:
        """Wait for both."""
        self._large.ready()
        self._small.ready()

    def wait(self) -> None:
        """Wait for the steps of both."""
        self._large.wait()
        self._small.wait()

    def close(self) -> None:
        """Give the memory of both back."""
        self._large.close()
        self._small.close()

    def kept(self) -> dict[str, Array]:
        """Read all parameters and states."""
        return self._current.kept()

    def _put(self, name: str, array: Array) -> None:
        self._current.write(name, array)

    def _get(self, name: str) -> Array:
        return self._current.read(name)

    def _fitting(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        return dict(feeds)  # each of the two has types of its own, and checks them

    def _upload(self, feeds: Mapping[str, Array]) -> Uploaded:
        session = self._of(feeds)
        return _Placed(session, session.upload(feeds))

    def _stage(self, feeds: Mapping[str, Array]) -> Uploaded:
        session = self._of(feeds)
        return _Placed(session, session.stage(feeds))

    def _run(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        match feeds:
            case _Placed():
                session, given = feeds.session, feeds.inputs
            case Uploaded():
                raise foreign()
            case _:
                session, given = self._of(feeds), feeds
        if session is not self._current:
            session.adopt(self._current)
            self._current = session
        return session.step(given)

    def _of(self, feeds: Mapping[str, Array]) -> Session:
        """The session that these inputs are for."""
        is_small = feeds[self._sized].shape == self._small.inputs[self._sized].shape
        return self._small if is_small else self._large


class _Placed(Uploaded):
    """Inputs in one of the two sessions."""

    def __init__(self, session: Session, inputs: Uploaded) -> None:
        self.session = session
        self.inputs = inputs

    def close(self) -> None:
        self.inputs.close()
