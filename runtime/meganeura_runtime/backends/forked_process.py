"""An open device does not follow a fork: its threads stay behind, and to use it waits for ever."""

import os
from functools import cache

from meganeura_runtime.backends.errors import DeviceError

CURE = (
    "which does not follow a fork: start processes by `spawn` "
    '(`multiprocessing.set_start_method("spawn")`), or open it in the new process alone'
)


def require_unforked(library: str) -> None:
    """Raise `DeviceError` in a process forked from one that has looked for devices of a library."""
    if _first_process(library) != os.getpid():
        raise DeviceError(
            f"`{library}` was opened by the process that this one was forked from, {CURE}"
        )


@cache
def _first_process(library: str) -> int:
    """The process that asked first."""
    del library
    return os.getpid()
