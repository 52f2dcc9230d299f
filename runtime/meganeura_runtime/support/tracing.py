"""Spans of a trace, which parts of a run report."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Span = Callable[[str], AbstractContextManager[object]]
"""Called with the name of some work, which is done while the context is entered."""

_NOTHING = nullcontext()


def unobserved(_: str) -> AbstractContextManager[object]:
    """A span that reports nothing."""
    return _NOTHING
