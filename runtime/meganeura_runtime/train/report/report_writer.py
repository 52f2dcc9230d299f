"""Writes the page of a run while it trains, by a thread, and completes it when the run ends."""

from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event as Signal
from time import perf_counter, thread_time

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.backends.backend import OpenDevice
from meganeura_runtime.io.files.atomic_write import write_text
from meganeura_runtime.support.background import begin
from meganeura_runtime.train.events import (
    Compiled,
    Event,
    Finished,
    Started,
    StoppedEarly,
    Watch,
)
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.report.page import run_page
from meganeura_runtime.train.report.run_description import (
    RunDescription,
    Status,
    describe,
    memory_of,
    read_description,
)
from meganeura_runtime.train.report.run_origin import Repository, repository_of
from meganeura_runtime.train.report.run_records import RunRecords
from meganeura_runtime.train.report.run_summary import RunSummary, read_settings
from meganeura_runtime.train.spec.train_job import TrainJob
from meganeura_runtime.train.spec.train_spec import TrainSpec

PAUSE = 3.0
"""Seconds between two versions of the page, at least."""
SHARE = 0.004
"""The share of a processor, over the time of a run, for its page."""


@contextmanager
def reported(
    job: TrainJob,
    folder: RunFolder,
    device: OpenDevice | None,
    watch: Watch,
    command: str = "",
) -> Generator[Watch]:
    """Write the page of a run until the block ends; yields the observer of the run.

    `command` is the command line that began it or goes on with it; empty from Python.
    Raises `ProblemError` where the page cannot be written.
    """
    if not folder.writes:
        yield watch
        return
    writer = ReportWriter(job.spec, folder, device, job, command)

    def watched(event: Event) -> None:
        writer.take_in(event)
        watch(event)

    try:
        yield watched
    except BaseException as error:
        with suppress(ProblemError):  # report the error that ended the run
            writer.complete(*_end(error))
        raise
    writer.complete(writer.status)


@contextmanager
def manual_report(
    spec: TrainSpec,
    folder: RunFolder,
    device: OpenDevice,
    memory: Callable[[], Mapping[str, int] | None],
) -> Generator[Callable[[], None]]:
    """Complete the page of a run when the block ends; yields a function that rewrites it if due.

    `memory` gives the bytes of a step by role, where what compiled it says so.
    Raises `ProblemError` where the page cannot be written.
    """
    if not folder.writes:
        yield lambda: None
        return
    writer = ReportWriter(spec, folder, device)

    def refresh() -> None:
        writer.memory_report = memory()
        writer.refresh()

    try:
        yield refresh
    except BaseException as error:
        with suppress(ProblemError):
            writer.complete(*_end(error))
        raise
    writer.complete(Status.FINISHED)


def _end(error: BaseException) -> tuple[Status, str]:
    """Returns the status and the message of a run that an error ended."""
    match error:
        case KeyboardInterrupt():
            return Status.STOPPED, ""
        case ProblemError():
            return Status.FAILED, error.summary
        case _:
            return Status.FAILED, f"{type(error).__name__}: {error}".splitlines()[0]


class ReportWriter:
    """The page of one run."""

    def __init__(
        self,
        spec: TrainSpec,
        folder: RunFolder,
        device: OpenDevice | None,
        job: TrainJob | None = None,
        command: str = "",
    ) -> None:
        self._ended = Signal()
        self._ended_early = ""
        """The reason, once it has stopped early."""
        self.status = Status.STOPPED
        """The end of the run, as far as its events say."""
        self.memory_report: Mapping[str, int] | None = None
        """The memory of a step, where what compiled it says so."""
        self._spec = spec
        self._folder = folder
        self._device = device
        self._began = perf_counter()
        earlier = read_description(folder.description)
        self._before = 0.0 if earlier is None else earlier.seconds
        commands = () if earlier is None else earlier.origin.commands
        commands += (command,) if command else ()
        self._about = describe(spec, job, device, self._before, commands)
        self._repository = begin("repository", _repository, spec)
        self._settings = read_settings(folder.settings)
        self._records = RunRecords(folder.metrics)
        self._thread: Future[None] | None = None
        self._due = 0.0
        """The time at which `refresh` writes the page again."""
        _write_description(folder.description, self._about)

    def take_in(self, event: Event) -> None:
        """Begin once the run does, whose records are then its own; note how it ends."""
        match event:
            case Started():
                self._thread = begin("report", self._write_while_it_trains)
            case Compiled(memory=memory) if memory is not None:
                self.memory_report = memory
            case StoppedEarly():
                self._ended_early = (
                    f"{event.metric} was not better than {event.best:.4g} in "
                    f"{event.evaluations:,} evaluations"
                    if event.best is not None
                    else f"{event.metric} had no value in {event.evaluations:,} evaluations"
                )
            case Finished(interrupted=interrupted):
                early = Status.STOPPED_EARLY if self._ended_early else Status.FINISHED
                self.status = Status.STOPPED if interrupted else early
            case _:
                pass

    def _write_while_it_trains(self) -> None:
        """Write a page, and another whenever that is no burden, until the run ends."""
        pause = self._write_first()
        while not self._ended.wait(pause):
            pause = self._write()

    def refresh(self) -> None:
        """Write the page where that is no burden, by the thread that asks."""
        if perf_counter() >= self._due:
            pause = self._write() if self._due else self._write_first()
            self._due = perf_counter() + pause

    def _write_first(self) -> float:
        """Write the first version; gives the seconds until the next one is due."""
        began = thread_time()
        if self._device is not None:
            memory = memory_of(self._spec, self._device)
            self._about = self._about.model_copy(update={"memory": memory})
            _write_description(self._folder.description, self._about)
        return self._write(thread_time() - began)

    def complete(self, status: Status, error: str = "") -> None:
        """Write the last version, once the thread that wrote the others is done."""
        self._ended.set()
        if self._thread is not None:
            self._thread.result()
        seconds = self._before + perf_counter() - self._began
        self._about = self._about.model_copy(
            update={
                "status": status,
                "error": error,
                "seconds": seconds,
                "ended": self._ended_early if status is Status.STOPPED_EARLY else "",
                "origin": self._about.origin.model_copy(
                    update={"repository": self._repository.result()}
                ),
            }
        )
        _write_description(self._folder.description, self._described())
        self._write()

    def _described(self) -> RunDescription:
        """The run, with the memory of a step where that is known."""
        if self._about.memory is not None or self.memory_report is None:
            return self._about
        return self._about.model_copy(update={"memory": dict(self.memory_report)})

    def _write(self, taken: float = 0.0) -> float:
        """Write the page as it is now; gives the seconds until the next one is due.

        `taken` is the processor time that has been spent on it already.
        """
        began = thread_time()
        if self._folder.metrics.is_file():
            self._records.read()
        about = self._described()
        summary = RunSummary(self._folder.path, self._records, self._settings, about)
        every = PAUSE if about.status is Status.RUNNING else 0.0
        write_text(self._folder.report, run_page(summary, every))
        return max(PAUSE, (taken + thread_time() - began) / SHARE)


def _repository(spec: TrainSpec) -> Repository | None:
    """Returns the state of the repository of the program, or of here where it has no folder."""
    return repository_of(Path(spec.sources[0].name).parent if spec.sources else Path())


def _write_description(path: Path, about: RunDescription) -> None:
    write_text(path, about.model_dump_json(indent=2) + "\n")
