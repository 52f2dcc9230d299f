"""The start-up tricks, and the environment variable that switches them off.

docs/performance.md has the measured gain of each. `MEGANEURA_STARTUP=plain` switches all of them
off, `MEGANEURA_STARTUP=numpy,gc` those two. Results are the same either way.
"""

import os
from enum import StrEnum
from functools import cache

VARIABLE = "MEGANEURA_STARTUP"
PLAIN = "plain"


class Trick(StrEnum):
    """A trick that makes a process start faster, by the name that switches it off."""

    CFFI = "cffi"
    """Declarations of wgpu's library come as cached tables instead of a parsed header."""
    EGGLOG = "egglog"
    """The native module of egglog is loaded without its package."""
    GC = "gc"
    """The garbage collector starts later, and leaves out what is there when the process ends."""
    NUMPY = "numpy"
    """NumPy is imported at its first use."""
    PREFETCH = "prefetch"
    """A thread opens the device of `train` while the program is read."""
    PRUNING = "pruning"
    """Rewrite rules that cannot match a graph are not compiled."""


class StartupError(ValueError):
    """`MEGANEURA_STARTUP` names a trick that does not exist."""


def is_enabled(trick: Trick) -> bool:
    """True if a trick is used; raises `StartupError`."""
    return trick not in _disabled(os.environ.get(VARIABLE, ""))


@cache
def _disabled(text: str) -> frozenset[Trick]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == [PLAIN]:
        return frozenset(Trick)
    unknown = sorted({*names} - {*Trick})
    if unknown:
        known = ", ".join((PLAIN, *Trick))
        raise StartupError(f"{VARIABLE} names `{unknown[0]}`; there are {known}")
    return frozenset(map(Trick, names))
