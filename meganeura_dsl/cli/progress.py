"""What a run shows while it runs: a live bar on a terminal, plain lines elsewhere."""

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Protocol, TextIO

from meganeura_dsl.cli.output import count
from meganeura_runtime.train.events import (
    Compiled,
    Compiling,
    Evaluated,
    Event,
    Finished,
    Logged,
    Saved,
    Started,
    Stepped,
)

NAMED = 4
"""Parameters named in a line."""


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

    from meganeura_dsl.cli.live import Live

    return Live(Console(file=stream))


class Lines:
    """One line for each log point and evaluation."""

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
                self._line(f"{self._place(event)}  {measured(event)}{self._speed(event)}")
            case Evaluated():
                self._line(held_out(event))
            case Stepped() | Saved() | Finished():
                pass

    def close(self) -> None:
        """Nothing is left to do."""

    def _place(self, event: Logged) -> str:
        run = self.run
        if run is None:
            return f"step {event.step}"
        total = run.epochs * run.steps_per_epoch
        epoch = f"epoch {event.epoch + 1:>{len(str(run.epochs))}}/{run.epochs}"
        return f"{epoch}  step {event.step:>{len(str(total))}}/{total}"

    def _speed(self, event: Logged) -> str:
        run = self.run
        if run is None or event.step == 1:
            return ""
        left = run.epochs * run.steps_per_epoch - event.step
        remaining = clock(left / event.steps_per_second)
        return f"  {event.steps_per_second:.0f} steps/s  {remaining} left"

    def _line(self, text: str) -> None:
        self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


def announcement(event: Started) -> str:
    """What is about to be trained, on how much."""
    held = f", {event.held_out:,} held out" if event.held_out else ", none held out"
    return (
        f"training {event.name}: {count(event.parameters, 'param')}, "
        f"{count(event.weights, 'weight')}, {count(event.examples, 'example')}{held}"
        f"{untouched(event.untouched)}"
    )


def untouched(names: Sequence[str]) -> str:
    """A line that names what stays as it is, a few of many; nothing where all parameters move."""
    if not names:
        return ""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"\n  no gradient reaches {', '.join(names[:NAMED])}{more}; left as they are"


def measured(event: Logged | Evaluated) -> str:
    """`loss 0.4321  accuracy 0.906`."""
    return "  ".join(
        f"{name} {value:.4g}" for name, value in numbers(event.loss, event.metrics).items()
    )


def numbers(loss: float, metrics: Mapping[str, float]) -> dict[str, float]:
    """The loss first, then the metrics in their order."""
    return {"loss": loss, **metrics}


def held_out(event: Evaluated) -> str:
    """The line of an evaluation."""
    best = "  (best so far)" if event.best else ""
    return f"held out after epoch {event.epoch + 1}: {measured(event)}{best}"


def clock(seconds: float) -> str:
    """`0:07`, `12:34`, `1:02:03`."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
