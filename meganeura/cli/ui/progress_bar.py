"""Progress of a run on a terminal: a bar that moves."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from meganeura.cli.ui.narration import (
    announcement,
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


class ProgressBar:
    """A bar that moves with every step, and a line above it for each epoch and evaluation."""

    def __init__(self, console: Console) -> None:
        self.progress = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=None),
            TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[measured]}"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(compact=True),
            console=console,
        )
        self.task = TaskID(0)
        self.epochs = 0

    def watch(self, event: Event) -> None:
        """Move the bar, or write above it."""
        match event:
            case Started():
                self._start(event)
            case Compiling(kernels):
                self.progress.update(
                    self.task, measured=f"compiling {count(kernels, 'kernel')}", refresh=True
                )
            case Compiled(kernels, seconds):
                done = f"compiled {count(kernels, 'kernel')} in {seconds:.1f} s"
                self.progress.console.print(done, highlight=False)
                self.progress.update(self.task, measured="")
            case Stepped():
                epoch = f"{event.epoch + 1}/{self.epochs}"
                self.progress.update(self.task, completed=event.step, epoch=epoch)
            case Logged():
                rate = speed(event) if event.step > 1 else ""
                self.progress.update(self.task, measured=measured(event), speed=rate)
                for line in shown(event):
                    self.progress.console.print(line, highlight=False, markup=False)
            case EpochEnded():
                self.progress.console.print(epoch_ended(event), highlight=False)
            case Evaluated():
                self.progress.console.print(held_out(event), highlight=False)
            case Sampled():
                self.progress.console.print(sampled(event), highlight=False, markup=False)
            case NotFinite():
                self.progress.console.print(not_finite(event), highlight=False)
            case LossScaled():
                self.progress.console.print(loss_scaled(event), highlight=False)
            case StoppedEarly():
                self.progress.console.print(stopped_early(event), highlight=False)
            case Finished():
                self.progress.stop()
            case Saved():
                pass

    def close(self) -> None:
        """Stop drawing."""
        self.progress.stop()

    def _start(self, event: Started) -> None:
        self.epochs = event.epochs
        self.progress.console.print(announcement(event), highlight=False)
        self.task = self.progress.add_task(
            event.name,
            total=event.steps,
            epoch=f"1/{event.epochs}",
            measured="",
            speed="",
        )
        self.progress.start()
