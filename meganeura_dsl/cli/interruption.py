"""Ctrl-C as a wish: the first one ends a run after the step at hand, the second one at once."""

import signal
from contextlib import ExitStack
from types import FrameType
from typing import Self

from meganeura_dsl.cli.output import say

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """While entered, remembers a first interrupt; a second one does what it always does."""

    def __init__(self) -> None:
        self._wanted = False
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
        return self._wanted

    def _remember(self, _number: int, _frame: FrameType | None) -> None:
        self._wanted = True
        self._before.close()
        say("\nstopping after this step; once more stops at once", err=True)
