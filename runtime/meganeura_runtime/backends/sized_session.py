"""One set of parameters trained by several graphs: for each size of the batch, and part of a step.

Kernels, memory and strides of a plan are those of its sizes, so each graph has a session of its
own. All of them share what they keep. Which one makes a step follows from what it is fed.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from weakref import ref

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.base import Outputs, Session, Uploaded, foreign

Shapes = frozenset[tuple[str, tuple[int, ...]]]
"""The shape of each input by name."""
MOST = 4
"""Sessions that are open at a time; the least recently used one is closed for another."""


class SizedSession(Session):
    """Sessions of graphs that keep the same tensors, and differ in their inputs or their sizes.

    The first one holds the parameters and states; the graphs have them in the order of
    `persistent_first`. `open_for` opens the session of other inputs when a step first has them; it
    raises for what cannot be.
    """

    def __init__(
        self,
        first: Session,
        open_for: Callable[[Mapping[str, tuple[int, ...]]], Session],
        most: int = MOST,
    ) -> None:
        """`most` sessions are open at a time, the first among them."""
        super().__init__(first.parameters, first.inputs, first.guard)
        self._open_for = open_for
        self._first = first
        self._most = most
        self._opened: OrderedDict[Shapes, Session] = OrderedDict()
        self._opened[_shapes_of(first)] = first
        self._results: list[tuple[Session, ref[Outputs]]] = []
        """The outputs of each session that somebody may still read."""

    def add(self, other: Session) -> None:
        """Have a session ready for the shapes of its inputs, for which there is none yet."""
        other.share(self._first)
        self._opened[_shapes_of(other)] = other

    @property
    def opened(self) -> tuple[Session, ...]:
        """The sessions that are open, the least recently used first; staging may open others."""
        return tuple(self._opened.values())

    @property
    def ahead(self) -> int:
        """The largest number of steps ahead of any session."""
        return max(each.ahead for each in self.opened)

    @property
    def is_busy(self) -> bool:
        """True if any session is."""
        return any(each.is_busy for each in self.opened)

    @property
    def kernels(self) -> int:
        """The number of kernels of all open sessions."""
        return sum(each.kernels for each in self.opened)

    def own(self, examples: int) -> range:
        """Returns the examples that each session feeds."""
        return self._first.own(examples)

    def memory(self) -> Mapping[str, int] | None:
        """Returns the memory of the first session, which is the whole step."""
        return self._first.memory()

    def agree(self, *, wish: bool) -> bool:
        """True if any process wishes it."""
        return self._first.agree(wish=wish)

    def ready(self) -> None:
        """Wait for all that are open."""
        for each in self.opened:
            each.ready()

    def wait(self) -> None:
        """Wait for the steps of all."""
        for each in self.opened:
            each.wait()

    def close(self) -> None:
        """Give the memory of all back."""
        self._last = None
        for each in self.opened:
            if each is not self._first:
                each.close()
        self._first.close()

    def settle(self) -> None:
        """Wait for the steps of all."""
        for each in self.opened:
            each.settle()

    def persistent(self) -> dict[str, Array]:
        """Read all parameters and states."""
        self.settle()
        return self._first.persistent()

    def _put(self, name: str, array: Array) -> None:
        self._first.write(name, array)

    def _get(self, name: str) -> Array:
        self.settle()
        return self._first.read(name)

    def _fitting(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        return dict(feeds)  # each session has its own types, and checks them

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
        outputs = session.step(given)
        self._results = [each for each in self._results if each[1]() is not None]
        self._results.append((session, ref(outputs)))
        return outputs

    def _of(self, feeds: Mapping[str, Array]) -> Session:
        """The session that these inputs are for, opened if it is not."""
        shapes = frozenset((name, array.shape) for name, array in feeds.items())
        found = self._opened.get(shapes)
        if found is None:
            found = self._added(shapes, self._open_for(dict(shapes)))
        with suppress(KeyError):  # another thread may have closed it: to use it says so
            self._opened.move_to_end(shapes)
        return found

    def _added(self, shapes: Shapes, session: Session) -> Session:
        """A new session, unless another thread has opened one meanwhile."""
        with self.guard.alone():
            known = self._opened.get(shapes)
            if known is not None:
                session.close()
                return known
            self._make_room()
            self.add(session)
            return session

    def _make_room(self) -> None:
        """Close a session that has not been used for long, where there are many."""
        if len(self._opened) >= self._most:
            oldest = next(key for key, each in self._opened.items() if each is not self._first)
            session = self._opened.pop(oldest)
            session.settle()
            for owner, result in self._results:
                outputs = result() if owner is session else None
                if outputs is not None:
                    dict(outputs)  # what was computed is read before its memory goes
            session.close()


def _shapes_of(session: Session) -> Shapes:
    return frozenset((name, concrete_shape(each.shape)) for name, each in session.inputs.items())


class _Placed(Uploaded):
    """Inputs in one of the sessions."""

    def __init__(self, session: Session, inputs: Uploaded) -> None:
        self.session = session
        self.inputs = inputs

    def close(self) -> None:
        self.inputs.close()
