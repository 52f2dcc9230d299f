"""A session that delegates to another one all that it does not do itself."""

from collections.abc import Iterable, Mapping

from meganeura_dsl.ir.graph import Array, Graph
from meganeura_runtime.backends.base import Session, Uploaded, leaf_types


class SessionProxy(Session):
    """The parameters, states and inputs of a graph, and another session that runs it."""

    def __init__(self, graph: Graph, inner: Session) -> None:
        super().__init__(leaf_types(graph)[0], inner.inputs, inner.guard)
        self._inner = inner

    @property
    def ahead(self) -> int:
        """The number of steps ahead of the other session."""
        return self._inner.ahead

    @property
    def is_busy(self) -> bool:
        """True if the other session is."""
        return self._inner.is_busy

    @property
    def kernels(self) -> int:
        """The number of kernels of the other session."""
        return self._inner.kernels

    def own(self, examples: int) -> range:
        """Returns the examples that the other session feeds."""
        return self._inner.own(examples)

    def memory(self) -> Mapping[str, int] | None:
        """Returns the memory of the other session."""
        return self._inner.memory()

    def agree(self, *, wish: bool) -> bool:
        """True if any process wishes it."""
        return self._inner.agree(wish=wish)

    def ready(self) -> None:
        """Wait until the other session is ready."""
        self._inner.ready()

    def wait(self) -> None:
        """Wait until the steps of the other session are done."""
        self._inner.wait()

    def close(self) -> None:
        """Give the memory back."""
        self._last = None
        self._inner.close()

    def _upload(self, feeds: Mapping[str, Array]) -> Uploaded:
        return self._inner.upload(feeds)

    def _stage(self, feeds: Mapping[str, Array]) -> Uploaded:
        return self._inner.stage(feeds)

    def begin(self, caches: Iterable[str]) -> None:
        """Have the other session clear the caches it has, as it can without the host."""
        cleared = tuple(caches)
        self._inner.begin([name for name in cleared if name in self._inner.names])
        super().begin(cleared)

    def reset(self) -> None:
        """Have the other session clear them again."""
        self._inner.reset()
        for name in self.caches:
            self._missing.pop(name, None)

    @property
    def innermost(self) -> Session:
        """The innermost session of the other one."""
        return self._inner.innermost

    def _share(self, other: Session) -> None:
        self._inner.share(other)
