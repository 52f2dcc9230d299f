"""Sessions that hand on what they are asked: to one other, or to those of several sizes."""

from collections.abc import Callable, Mapping
from weakref import ref

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph
from meganeura_dsl.ir.ops import Add, Input, Parameter, Sum
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.base import (
    NOTHING_SHARED,
    Closing,
    Outputs,
    Session,
    SessionError,
    Uploaded,
)
from meganeura_runtime.backends.index_checks import with_indices_checked
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.sized_session import MOST, SizedSession
from meganeura_runtime.io.data.index_problems import Bound


def summing(rows: int) -> Graph:
    """Adds up all that it is fed."""
    build = Builder()
    total = build.add(Parameter("total", DType.F32, (), "state"))
    x = build.add(Input("x", DType.F32, (rows,)))
    added = build.add(Add(), total, build.add(Sum((0,)), x))
    return build.graph({"y": added}, {"total": added})


def fed(*values: float) -> dict[str, Array]:
    return {"x": np.array(values, np.float32)}


class Late(Outputs):
    """Outputs that are computed when they are first read, if their session is open then."""

    def __init__(self, computed: Outputs, session: "Noting") -> None:
        self._computed, self._session = computed, session
        self._read = dict[str, Array]()

    def request(self) -> None:
        """Nothing is begun before it is read."""

    def __getitem__(self, name: str) -> Array:
        if name not in self._read:
            assert self._session.is_open
            self._read[name] = self._computed[name]
        return self._read[name]

    def __iter__(self):  # noqa: ANN204
        return iter(self._computed)

    def __len__(self) -> int:
        return len(self._computed)


class Noting(ReferenceSession):
    """Answers as it is told to, and notes what it is to do."""

    is_open = True

    def __init__(
        self,
        rows: int,
        notes: list[str],
        *,
        ahead: int = 0,
        is_busy: bool = False,
        kernels: int = 0,
    ) -> None:
        super().__init__(summing(rows))
        self._rows, self._notes = rows, notes
        self._answers = ahead, is_busy, kernels

    def _note(self, what: str) -> None:
        self._notes.append(f"{self._rows} {what}")

    @property
    def ahead(self) -> int:
        return self._answers[0]

    @property
    def is_busy(self) -> bool:
        return self._answers[1]

    @property
    def kernels(self) -> int:
        return self._answers[2]

    def own(self, examples: int) -> range:
        return range(self._rows, examples)

    def memory(self) -> Mapping[str, int] | None:
        return {"inputs": 4 * self._rows}

    def agree(self, *, wish: bool) -> bool:
        self._note(f"wishes {wish}")
        return not wish

    def ready(self) -> None:
        self._note("is ready")

    def wait(self) -> None:
        self._note("waits")

    def settle(self) -> None:
        self._note("settles")

    def close(self) -> None:
        self._note("closes")
        self.is_open = False
        super().close()

    def _get(self, name: str) -> Array:
        self._note("reads")
        return super()._get(name)

    def _run(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        return Late(super()._run(feeds), self)


def unknown(shapes: Mapping[str, tuple[int, ...]]) -> Session:
    raise AssertionError(shapes)


def done(notes: list[str], action: Callable[[], object]) -> list[str]:
    """Returns the notes that an action makes."""
    notes.clear()
    action()
    return list(notes)


@pytest.mark.parametrize("is_first", [True, False])
def test_those_of_several_sizes_answer_together(*, is_first: bool) -> None:
    """Whichever of them is ahead, or busy."""
    notes: list[str] = []
    one = Noting(4, notes, ahead=3 if is_first else 1, is_busy=is_first, kernels=2)
    other = Noting(2, notes, ahead=1 if is_first else 3, is_busy=not is_first, kernels=5)
    session = SizedSession(one, unknown)
    session.add(other)
    assert (session.ahead, session.is_busy, session.kernels) == (3, True, 7)
    assert (session.own(9), session.memory()) == (range(4, 9), {"inputs": 16})
    assert [session.agree(wish=wish) for wish in (True, False)] == [False, True]
    assert done(notes, session.ready) == ["4 is ready", "2 is ready"]
    assert done(notes, session.wait) == ["4 waits", "2 waits"]
    assert done(notes, session.settle) == ["4 settles", "2 settles"]
    session.write("total", np.array(1, np.float32))
    assert done(notes, lambda: session.read("total")) == ["4 settles", "2 settles", "4 reads"]
    assert done(notes, session.persistent) == ["4 settles", "2 settles", "4 reads"]
    assert done(notes, session.close) == ["2 closes", "4 closes"], "the one that holds them is last"


def test_what_is_placed_is_for_its_size() -> None:
    session = SizedSession(Noting(4, []), unknown)
    session.add(Noting(2, []))
    session.load({"total": np.array(1, np.float32)})
    for place in (session.upload, session.stage):
        with place(fed(1, 2)) as two, place(fed(1, 2, 3, 4)) as four:
            before = float(session.read("total"))
            assert float(session.step(two)["y"]) == before + 3
            assert float(session.step(four)["y"]) == before + 13
        with pytest.raises(SessionError, match="given back"):
            session.step(two)
    with pytest.raises(SessionError, match="those of another session"):
        session.step(ReferenceSession(summing(2)).upload(fed(1, 2)))


def test_the_size_that_was_not_used_for_longest_is_closed_for_another() -> None:
    """The first one never is, and what somebody may still read is read before."""
    notes: list[str] = []

    def opened(shapes: Mapping[str, tuple[int, ...]]) -> Session:
        return Noting(shapes["x"][0], notes)

    first = Noting(1, notes)
    session = SizedSession(first, opened)
    session.load({"total": np.array(0, np.float32)})
    held = {rows: session.step(fed(*[1] * rows)) for rows in range(1, MOST + 1)}
    assert not notes
    session.step(fed(0, 0))  # two are used again, so that three were not for longest
    assert done(notes, lambda: session.step(fed(*[0] * 7))) == ["3 settles", "3 closes"]
    assert done(notes, lambda: session.step(fed(*[0] * 8))) == ["4 settles", "4 closes"]
    assert len(session.opened) == MOST
    assert first in session.opened
    assert [float(each["y"]) for each in held.values()] == [1, 3, 6, 10]
    assert done(notes, lambda: session.step(fed(*[0] * 3))) == ["2 settles", "2 closes"]
    assert float(session.read("total")) == 10


def test_a_session_hands_on_what_it_does_not_do_itself() -> None:
    notes: list[str] = []
    inner = Noting(4, notes, ahead=3, is_busy=True, kernels=5)
    session = with_indices_checked(summing(4), inner, {"nothing": Bound(1)})
    assert session is not inner
    assert (session.names, [*session.inputs]) == (("total",), ["x"])
    assert (session.ahead, session.is_busy, session.kernels) == (3, True, 5)
    assert (session.own(9), session.memory()) == (range(4, 9), {"inputs": 16})
    assert [session.agree(wish=wish) for wish in (True, False)] == [False, True]
    assert session.innermost is inner
    assert done(notes, session.ready) == ["4 is ready"]
    assert done(notes, session.wait) == ["4 waits"]
    session.begin(name for name in ("total",))
    assert session.caches == inner.caches == ("total",)
    assert float(session.step(session.upload(fed(1, 2, 3, 4)))["y"]) == 10
    assert float(session.step(session.stage(fed(1, 2, 3, 4)))["y"]) == 20
    session.reset()
    assert float(session.read("total")) == 0
    assert done(notes, session.close) == ["4 closes"]


def test_caches_are_all_that_begins_at_zero() -> None:
    session = ReferenceSession(summing(2))
    session.begin(name for name in ())
    with pytest.raises(SessionError, match="no value was written for `total`"):
        session.step(fed(1, 2))
    session.begin(name for name in ("total",))
    for _ in range(2):
        assert float(session.step(fed(1, 2))["y"]) == 3
        session.reset()
    assert (session.is_busy, session.ahead, session.kernels) == (False, 0, 0)


def test_a_session_that_is_closed_forgets_what_nobody_shares() -> None:
    first, second = (ReferenceSession(summing(rows)) for rows in (1, 2))
    second.share(first)
    first.write("total", np.array(3, np.float32))
    second.close()
    assert float(first.read("total")) == 3
    assert float(first.step(fed(1))["y"]) == 4
    first.write("total", np.array(5, np.float32))
    kept = ref(first._values["total"])
    first.close()
    assert kept() is None


def test_only_sessions_of_one_kind_share() -> None:
    here, there = ReferenceSession(summing(2)), choose_device("xla:cpu").open(summing(2))
    for one, other in ((here, there), (there, here)):
        with pytest.raises(SessionError, match=NOTHING_SHARED):
            one.share(other)
    there.close()


def test_what_holds_memory_gives_it_back_at_the_end_of_a_with() -> None:
    class Held(Closing):
        is_closed = False

        def close(self) -> None:
            self.is_closed = True

    with pytest.raises(KeyError), Held() as held:
        raise KeyError
    assert held.is_closed
