"""The intervals at which the garbage collector looks for cycles."""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

from meganeura_dsl.startup.tricks import Trick, is_enabled

YOUNG_OBJECTS = 500_000
"""New objects before the garbage collector runs.

The graph of a large model is some 100,000 objects, which live as long as the process.
"""


class _Patience:
    """The number of waits for fewer collections, in all threads, and the threshold before them."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = 0
        self.before = 0


_PATIENCE = _Patience()


@contextmanager
def few_collections() -> Generator[None]:
    """The garbage collector runs once in 500,000 new objects meanwhile, unless it is off.

    A check makes more objects than it leaves, and hardly a cycle. In a process that holds much, a
    search through all of it takes as long as the check of a small program.
    """
    patience = _PATIENCE
    with patience.lock:
        if patience.count == 0:
            patience.before = gc.get_threshold()[0]
            if 0 < patience.before < YOUNG_OBJECTS and is_enabled(Trick.GC):
                gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
        patience.count += 1
    try:
        yield
    finally:
        with patience.lock:
            patience.count -= 1
            if patience.count == 0 and gc.get_threshold()[0] == YOUNG_OBJECTS:
                gc.set_threshold(patience.before, *gc.get_threshold()[1:])
