"""Logs of other tools that a run writes beside its own: TensorBoard, Weights & Biases."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, assert_never, cast

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.reserved_names import LEARNING_RATE
from meganeura_dsl.settings.log_format import LogFormat
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.transforms.training_step import LOSS
from meganeura_runtime.support.optional_imports import load
from meganeura_runtime.train.events import EpochEnded, Evaluated, Event, Logged, Watch
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.training_problems import LogRefused


@dataclass(frozen=True)
class LogStart:
    """The description of a run at the start of its log."""

    folder: RunFolder
    settings: RunSettings
    step: int
    """Steps that were made already, of a run that goes on; what was logged after them is void."""


OpenLog = Callable[[LogStart], AbstractContextManager[Watch]]
"""Begins a log, which takes in events until the block ends."""


def log_openers(settings: RunSettings) -> tuple[OpenLog, ...]:
    """Returns functions that open the logs; raises `ProblemError` for a missing library."""
    return tuple(_opener(LogFormat(each)) for each in dict.fromkeys(settings.log))


def _opener(wanted: LogFormat) -> OpenLog:
    match wanted:
        case LogFormat.TENSORBOARD:
            purpose = "write event files for TensorBoard"
            return _tensorboard(cast("_TensorboardX", load("tensorboardX", wanted, purpose)))
        case LogFormat.WANDB:
            purpose = "log to Weights & Biases"
            return _wandb(cast("_Wandb", load("wandb", wanted, purpose)))
        case _:
            assert_never(wanted)


@contextmanager
def logged(start: LogStart, watch: Watch) -> Generator[Watch]:
    """Keep the logs of a run until the block ends; gives what watches it in place of `watch`."""
    with ExitStack() as held:
        openers = log_openers(start.settings) if start.folder.writes else ()
        watching = [held.enter_context(each(start)) for each in openers]

        def watched(event: Event) -> None:
            for each in (*watching, watch):
                each(event)

        yield watched


def scalars(event: Event) -> Iterator[tuple[str, float]]:
    """The numbers of an event, with the names that they have in a log."""
    match event:
        case Logged():
            numbers = {LOSS: event.loss, **event.metrics, LEARNING_RATE: event.learning_rate}
            yield from _named("train", {**numbers, "steps_per_second": event.steps_per_second})
        case EpochEnded():
            yield from _named("epoch", {LOSS: event.loss})
        case Evaluated():
            yield from _named("held_out", {LOSS: event.loss, **event.metrics})
        case _:
            pass


def _named(kind: str, numbers: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    for name, value in numbers.items():
        yield f"{kind}/{name}", value


# --- the libraries, as far as they are used ------------------------------------------------------


class _SummaryWriter(Protocol):
    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> object: ...
    def add_text(self, tag: str, text_string: str) -> object: ...
    def close(self) -> None: ...


class _TensorboardX(Protocol):
    def SummaryWriter(  # noqa: N802
        self, logdir: str, *, purge_step: int | None, filename_suffix: str
    ) -> _SummaryWriter: ...


class _WandbRun(Protocol):
    def log(self, data: Mapping[str, float], step: int) -> None: ...
    def finish(self, exit_code: int) -> None: ...


class _Wandb(Protocol):
    Error: type[Exception]

    def init(self, **options: object) -> _WandbRun: ...


def _tensorboard(library: _TensorboardX) -> OpenLog:
    """Event files in the folder `tensorboard` of the run."""

    @contextmanager
    def opened(start: LogStart) -> Generator[Watch]:
        path = str(start.folder.path / "tensorboard")
        suffix = f".from-{start.step}"  # without it, a second file of one second replaces the first
        writer = library.SummaryWriter(
            path, purge_step=start.step + 1 if start.step else None, filename_suffix=suffix
        )
        try:
            writer.add_text("settings", f"    {start.settings.model_dump_json()}")

            def watch(event: Event) -> None:
                if isinstance(event, Logged | EpochEnded | Evaluated):
                    for name, value in scalars(event):
                        writer.add_scalar(name, value, event.step)

            yield watch
        finally:
            writer.close()

    return opened


def _wandb(library: _Wandb) -> OpenLog:
    """A run of Weights & Biases with the name of the folder, whose files are kept in it."""

    @contextmanager
    def opened(start: LogStart) -> Generator[Watch]:
        folder: Path = start.folder.path.resolve()
        try:
            run = library.init(
                project="meganeura",
                name=folder.name,
                dir=str(folder),
                config=start.settings.model_dump(mode="json"),
            )
        except library.Error as error:
            raise ProblemError(LogRefused("wandb", str(error))) from None

        def watch(event: Event) -> None:
            if isinstance(event, Logged | EpochEnded | Evaluated):
                run.log(dict(scalars(event)), step=event.step)

        try:
            yield watch
        except BaseException:
            run.finish(exit_code=1)
            raise
        run.finish(exit_code=0)

    return opened
