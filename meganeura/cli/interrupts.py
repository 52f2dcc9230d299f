"""Ctrl-C as a wish: the first one ends a run after the step at hand, the second one at once.

So does SIGTERM, which `kill`, containers and batch systems send, SIGHUP of a terminal that is gone,
and a reader of the output that is gone, as in `| head`.
"""

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Self

from meganeura.cli.ui.console import say
from meganeura.cli.ui.streams import write_no_more
from meganeura_runtime.train.events import Event

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
HANGUP = getattr(signal, "SIGHUP", None)
BROKEN_PIPE = 13
"""SIGPIPE, which Windows has not."""

Watch = Callable[[Event], None]


class Interruption:
    """While entered, remembers a first interrupt; a second one does what it always does."""

    def __init__(self) -> None:
        self._signal: int | None = None
        self._is_mute = False
        self._before = ExitStack()

    def __enter__(self) -> Self:
        for each in SIGNALS:
            if each == HANGUP and signal.getsignal(each) is signal.SIG_IGN:
                continue  # as `nohup` wishes
            self._before.callback(signal.signal, each, signal.getsignal(each))
            signal.signal(each, self._remember)
        return self

    def __exit__(self, *_: object) -> None:
        self._before.close()

    def is_wanted(self) -> bool:
        """True if there was an interrupt."""
        return self._is_mute or self._signal is not None

    @property
    def exit_code(self) -> int:
        """The exit status of a program that a signal ended: 128 + its number; 0 without a signal.

        1 where the output could not be written.
        """
        return int(self._is_mute) if self._signal is None else 128 + self._signal

    def ended_with(self, watch: Watch) -> Watch:
        """Show events, until the output cannot be written to: a first interrupt, like the others.

        It goes nowhere from then on.
        """

        def shown(event: Event) -> None:
            try:
                watch(event)
            except OSError as error:
                write_no_more()
                self._is_mute = True
                if isinstance(error, BrokenPipeError):
                    self._signal = self._signal or BROKEN_PIPE
                reason = os.strerror(error.errno or 0)
                say(f"stopping after this step: the output cannot be written: {reason}", err=True)

        return shown

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self._signal = number
        self._before.close()
        say("\nstopping after this step; once more stops at once", err=True)
