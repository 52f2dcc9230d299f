"""Settings of a process that runs one command; they are not for programs that import us."""

import gc
import sys
from typing import NoReturn

from meganeura_dsl.startup.collector import YOUNG_OBJECTS
from meganeura_dsl.startup.tricks import Trick, is_enabled


def prepare_process() -> None:
    """Apply the tricks of a whole process; raises `StartupError`."""
    if is_enabled(Trick.GC):
        gc.set_threshold(YOUNG_OBJECTS, 50, 50)


def end_process(code: int) -> NoReturn:
    """Exit; the garbage collector searches only objects created from here on.

    The interpreter frees memory that goes with the process anyway: it searches all objects for
    cycles, a third of the time of a short command.
    """
    if is_enabled(Trick.GC):
        gc.freeze()
    sys.exit(code)
