"""The state of a run in the cell that trains, renewed while it goes on."""

import sys
from collections import defaultdict
from html import escape
from importlib import import_module
from time import monotonic
from typing import Protocol, cast

from meganeura.notebook.curves import charts
from meganeura.notebook.views import measures
from meganeura_runtime.train.events import (
    Compiling,
    EpochEnded,
    Evaluated,
    Event,
    Finished,
    Logged,
    Sampled,
    Started,
    Stepped,
    StoppedEarly,
    Watch,
)

EVERY = 0.5
"""Seconds from one drawing to the next."""


class Cell(Protocol):
    """A place in the output of a cell, whose content may be replaced."""

    def update(self, obj: object, /) -> None:
        """Replace what is shown."""


class LiveRun:
    """Shows how far a run is, its last measurements and its curves."""

    def __init__(self) -> None:
        self._curves: defaultdict[str, defaultdict[str, list[tuple[float, float]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._cell: Cell | None = None
        self._started: Started | None = None
        self._began = self._drawn = monotonic()
        self._step = 0
        self._state = "begins"
        self._held_out = ""
        self._sample = ""

    def __call__(self, event: Event) -> None:
        """Takes in an event, and draws anew if the last drawing is a while ago."""
        now = True
        match event:
            case Started():
                self._started, self._began = event, monotonic()
            case Compiling():
                self._state = f"compiles {event.kernels:,} kernels"
            case Stepped():
                self._step, self._state, now = event.step, "trains", False
            case Logged():
                self._add("step", event.step, {"loss": event.loss, **event.metrics})
                now = False
            case EpochEnded():
                self._add("epoch", event.step, {"loss": event.loss})
                now = False
            case Evaluated():
                values = {"loss": event.loss, **event.metrics}
                self._add("held_out", event.step, values)
                self._held_out = measures(values.items())
                now = False
            case Sampled():
                self._sample = f"{event.prompt}{event.text}"
            case StoppedEarly():
                self._state = f"stopped early: {event.metric} was no better for {event.evaluations}"
            case Finished():
                self._step = event.steps
                if event.interrupted:
                    self._state = "stopped"
                elif not self._state.startswith("stopped early"):
                    self._state = "finished"
            case _:
                return
        if now or monotonic() - self._drawn >= EVERY:
            self._show()

    def __repr__(self) -> str:
        """`fit: finished, step 176 of 176`."""
        begun = self._started
        return "" if begun is None else f"{begun.name}: {self._state}, {self._of(begun.steps)}"

    def _of(self, steps: int) -> str:
        return f"step {self._step:,} of {steps:,}"

    def _repr_html_(self) -> str:
        """The HTML of the present state."""
        begun = self._started
        if begun is None:
            return ""
        of = self._of(begun.steps)
        held_out = self._held_out and f"held out: {self._held_out}"
        facts = [self._state, of, f"{monotonic() - self._began:,.0f} s", held_out]
        line = " &middot; ".join(escape(each) for each in facts if each)
        bar = f'<progress value="{self._step}" max="{begun.steps}" aria-label="{of}"></progress>'
        sample = f"<pre>{escape(self._sample)}</pre>" if self._sample else ""
        head = f"<div><b>{escape(begun.name)}</b> {bar} {line}</div>"
        return f"{head}{charts(self._curves, begun.steps)}{sample}"

    def _add(self, kind: str, step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._curves[name][kind].append((step, value))

    def _show(self) -> None:
        self._drawn = monotonic()
        if self._cell is None:
            self._cell = _shown(self)
        else:
            self._cell.update(self)


def _shown(content: object) -> Cell:
    display = import_module("IPython.display").display
    return cast("Cell", display(content, display_id=True))


def live_run() -> Watch | None:
    """Returns what shows a run in a notebook; None where Python runs in no notebook."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    # A terminal of IPython has no kernel, and cannot replace what it has shown.
    return LiveRun() if hasattr(running, "kernel") else None
