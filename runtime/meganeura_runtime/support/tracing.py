"""How the parts of a run tell what they are doing, to whoever wants to know when."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Span = Callable[[str], AbstractContextManager[object]]
"""Called with what is about to be done, which is done while the context is entered."""

_NOTHING = nullcontext()


def unobserved(_: str) -> AbstractContextManager[object]:
    """Nobody wants to know."""
    return _NOTHING
