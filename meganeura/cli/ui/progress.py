"""Progress of a run: a live bar on a terminal, plain lines elsewhere."""

from time import perf_counter
from typing import Protocol, TextIO

from meganeura.cli.ui.narration import (
    announcement,
    clock,
    epoch_ended,
    held_out,
    loss_scaled,
    measured,
    not_finite,
    sampled,
    shown,
    speed,
    stopped_early,
)
from meganeura_dsl.diagnostics.plain_table import count
from meganeura_runtime.train.events import (
    Compiled,
    Compiling,
    EpochEnded,
    Evaluated,
    Event,
    Finished,
    Logged,
    LossScaled,
    NotFinite,
    Sampled,
    Saved,
    Started,
    Stepped,
    StoppedEarly,
)


class Display(Protocol):
    """Shows events, and clears up when the run is over, however it ends."""

    def watch(self, event: Event) -> None:
        """Show what happened."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""
        ...


def display(stream: TextIO) -> Display:
    """The display that fits where the output goes."""
    if not stream.isatty():
        return Lines(stream)

    from rich.console import Console

    from meganeura.cli.ui.progress_bar import ProgressBar

    return ProgressBar(Console(file=stream))


class Lines:
    """One line for each log point, epoch and evaluation."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.run: Started | None = None
        self.since = perf_counter()

    def watch(self, event: Event) -> None:
        """Write a line, if the event deserves one."""
        match event:
            case Started():
                self.run = event
                self._line(announcement(event))
            case Compiling(kernels):
                self._write(f"compiling {count(kernels, 'kernel')} ... ")
            case Compiled(seconds=seconds):
                self._line(f"{seconds:.1f} s")
            case Logged():
                self._line(f"{self._location(event)}  {measured(event)}{self._speed(event)}")
                for line in shown(event):
                    self._line(line)
            case EpochEnded():
                self._line(epoch_ended(event))
            case Evaluated():
                self._line(held_out(event))
            case Sampled():
                self._line(sampled(event))
            case NotFinite():
                self._line(not_finite(event))
            case LossScaled():
                self._line(loss_scaled(event))
            case StoppedEarly():
                self._line(stopped_early(event))
            case Stepped() | Saved() | Finished():
                pass

    def close(self) -> None:
        """Does nothing: all lines are written."""

    def _location(self, event: Logged) -> str:
        run = self.run
        if run is None:
            return f"step {event.step}"
        total = run.steps
        epoch = f"epoch {event.epoch + 1:>{len(str(run.epochs))}}/{run.epochs}"
        return f"{epoch}  step {event.step:>{len(str(total))}}/{total}"

    def _speed(self, event: Logged) -> str:
        run = self.run
        if run is None or event.step == 1:
            return ""
        left = run.steps - event.step
        remaining = clock(left / event.steps_per_second)
        return f"  {speed(event)}  {remaining} left"

    def _line(self, text: str) -> None:
        self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()
