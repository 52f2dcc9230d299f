"""A budget of steps for the work that a text may cause, so that any check ends.

A step is about one term of a size that is added, multiplied or evaluated: a microsecond or so.
Steps are counted and no clock is read, so that an answer is the same on every machine. Code that
may take long calls `spend`; its caller sets a budget with `at_most`. Outside of any budget
nothing is counted.

Budgets nest: what is spent inside counts outside too, and an inner budget is never larger than what
is left of the outer one.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from meganeura_dsl.limits.language_limits import MOST_TERMS, MOST_VALUES, VALUE

_ENDLESS = 10**18
_Result = TypeVar("_Result")


class OutOfWorkError(Exception):
    """A budget is spent; `reason` says what was too much."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Budget:
    """Steps that may still be taken."""

    __slots__ = ("left", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.left = limit

    @property
    def spent(self) -> int:
        """Steps taken so far."""
        return self.limit - self.left

    @property
    def is_spent(self) -> bool:
        """True if nothing is left."""
        return self.left < 0


_CURRENT: ContextVar[Budget | None] = ContextVar("budget", default=None)


def spend(steps: int) -> None:
    """Take some steps of the budget, if there is one. Raises `OutOfWorkError`."""
    budget = _CURRENT.get()
    if budget is not None:
        budget.left -= steps
        if budget.left < 0:
            raise OutOfWorkError("more steps than a check may take")


def require_terms(count: int) -> None:
    """Raise `OutOfWorkError` where a size gets too many terms, if there is a budget."""
    if count > MOST_TERMS and _is_bounded():
        raise OutOfWorkError(f"a size of more than {MOST_TERMS:,} terms")


def require_values(count: int, more: int = 1) -> None:
    """Take the steps of more values of a graph. Raises `OutOfWorkError` for too many."""
    if count + more > MOST_VALUES and _is_bounded():
        raise OutOfWorkError(f"a graph of more than {MOST_VALUES:,} values")
    spend(more * VALUE)


def _is_bounded() -> bool:
    budget = _CURRENT.get()
    return budget is not None and budget.limit < _ENDLESS


class within:  # noqa: N801  as `contextmanager`, which takes twice as long to enter
    """Count what happens inside against a budget, and against the one around it."""

    __slots__ = ("_before", "_budget", "_share")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def __enter__(self) -> None:
        outer, left = _CURRENT.get(), self._budget.left
        self._share = Budget(left if outer is None else min(left, outer.left))
        self._before = _CURRENT.set(self._share)

    def __exit__(self, *_: object) -> None:
        _CURRENT.reset(self._before)
        self._budget.left -= self._share.spent
        spend(self._share.spent)


def at_most(steps: int) -> within:
    """A budget for what happens inside."""
    return within(Budget(steps))


@contextmanager
def apart(steps: int) -> Generator[None]:
    """A budget for what happens inside, which does not count outside: it is done once for all."""
    before = _CURRENT.set(Budget(steps))
    try:
        yield
    finally:
        _CURRENT.reset(before)


def steps_left() -> int | None:
    """The steps that may still be taken; None without a budget."""
    budget = _CURRENT.get()
    return None if budget is None else budget.left


def measured(action: Callable[[], _Result]) -> tuple[_Result, int]:
    """Returns the result of an action and its number of steps, which the caller counts."""
    outer = _CURRENT.get()
    budget = Budget(_ENDLESS if outer is None else outer.left)
    before = _CURRENT.set(budget)
    try:
        return action(), budget.spent
    finally:
        _CURRENT.reset(before)
