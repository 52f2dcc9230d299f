"""Guards a session: one thread at a time uses it, in the process that opened it.

A step writes its inputs to the memory that the last one read from, so two threads would read each
other's. All backends check it here.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from threading import RLock
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from meganeura_runtime.backends.forked_process import CURE

P = ParamSpec("P")
R = TypeVar("R")

ALONE = frozenset(
    {
        "begin",
        "follow",
        "load",
        "outputs",
        "persistent",
        "read",
        "ready",
        "require_values",
        "reset",
        "run",
        "settle",
        "share",
        "step",
        "upload",
        "write",
    }
)
"""Methods of an open session that one thread at a time runs."""
ALONE_AT_ANY_TIME = frozenset({"wait"})
"""Methods that a closed session allows too: there is nothing to wait for."""
BESIDE = frozenset({"stage"})
"""Methods that a thread may run while another one runs one of those."""


class SessionError(Exception):
    """A session was used at a time when that has no meaning."""


class Closing(ABC):
    """A holder of device memory, which is freed at the end of a `with`."""

    @abstractmethod
    def close(self) -> None:
        """Give the memory back."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Guard:
    """The guard of sessions that share memory: their process, and the thread that holds it."""

    def __init__(self, *, survives_fork: bool = False) -> None:
        """Arrays of the host survive a fork, an open device does not."""
        self._survives_fork = survives_fork
        self._process = os.getpid()
        self._lock = RLock()

    def alone(self) -> AbstractContextManager[object]:
        """A lock that one thread has at a time; raises `SessionError` in a forked process."""
        self.require_process()
        return self._lock

    def require_process(self) -> None:
        """Raise `SessionError` in a process that was forked from the one that opened the device."""
        if not self.is_forked:
            return
        if not self._survives_fork:
            text = "the session has a device that the process opened which this one was forked from"
            raise SessionError(f"{text}, {CURE}")
        self._lock = RLock()  # a thread that is not in this process may have held it
        self._process = os.getpid()

    @property
    def is_forked(self) -> bool:
        """True if this is another process than the one that opened the device."""
        return self._process != os.getpid()


class Guarded(Closing):
    """A class of sessions: whatever it defines of `ALONE` and `BESIDE` is guarded."""

    guard: Guard
    is_closed = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for names, guarded in (
            (ALONE, _alone),
            (ALONE_AT_ANY_TIME, _alone_at_any_time),
            (BESIDE, _beside),
            ({"close"}, _closing),
        ):
            for name in names & vars(cls).keys():
                setattr(cls, name, guarded(vars(cls)[name]))


def require_open(session: Guarded) -> None:
    """Raise `SessionError` for a session that was closed."""
    if session.is_closed:
        raise SessionError("the session is closed")


S = TypeVar("S", bound=Guarded)


def _alone(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    @wraps(method)
    def guarded(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.guard.alone():
            require_open(self)
            return method(self, *args, **kwargs)

    return guarded


def _alone_at_any_time(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    @wraps(method)
    def guarded(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.guard.alone():
            return method(self, *args, **kwargs)

    return guarded


def _beside(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    @wraps(method)
    def guarded(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        self.guard.require_process()
        require_open(self)
        return method(self, *args, **kwargs)

    return guarded


def _closing(method: Callable[[S], None]) -> Callable[[S], None]:
    """Close it once; in a forked process there is nothing to give back."""

    @wraps(method)
    def guarded(self: S) -> None:
        if not self.guard.is_forked:
            with self.guard.alone():
                method(self)
        self.is_closed = True

    return guarded
