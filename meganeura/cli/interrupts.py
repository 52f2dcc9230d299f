"""Ctrl-C as a wish: the first one ends a run after the step at hand, the second one at once.

So does SIGTERM, which `kill`, containers and batch systems send.
"""

import signal
from contextlib import ExitStack
from types import FrameType
from typing import Self

from meganeura.cli.ui.console import say

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """While entered, remembers a first interrupt; a second one does what it always does."""

    def __init__(self) -> None:
        self._signal: int | None = None
        self._before = ExitStack()

    def __enter__(self) -> Self:
        for each in SIGNALS:
            self._before.callback(signal.signal, each, signal.getsignal(each))
            signal.signal(each, self._remember)
        return self

    def __exit__(self, *_: object) -> None:
        self._before.close()

    def is_wanted(self) -> bool:
        """Whether there was an interrupt."""
        return self._signal is not None

    @property
    def exit_code(self) -> int:
        """What shells give a program that the signal ended: 128 + its number; 0 without one."""
        return 0 if self._signal is None else 128 + self._signal

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self._signal = number
        self._before.close()
        say("\nstopping after this step; once more stops at once", err=True)
