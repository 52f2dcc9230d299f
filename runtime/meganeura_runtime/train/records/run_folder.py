"""The folder of a run: what it was asked to do, what it measured, and what it learned."""

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import cast

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_runtime.backends.backend import ALONE, Hosts
from meganeura_runtime.io.checkpoint import Origin
from meganeura_runtime.io.files.atomic_write import replacing, write_text
from meganeura_runtime.io.files.file_problems import CannotWrite, NoSuchFile, UnreadableFile
from meganeura_runtime.io.files.folder_lock import LOCK, HeldError, locked
from meganeura_runtime.io.preprocess.tokens import NAME as TOKENIZER
from meganeura_runtime.io.preprocess.tokens import read_tokenizer
from meganeura_runtime.train.records.visual_log import VisualLog
from meganeura_runtime.train.training_problems import FolderInUse, UnnamedFolder

RUNS = Path("runs")
"""The parent of run folders, if none is named."""


@dataclass(frozen=True)
class RunFolder:
    """Names of the files of a run, and the way to write those that are text."""

    path: Path
    writes: bool = True
    """False in all but one of the processes that train together."""

    @property
    def settings(self) -> Path:
        """The settings with all defaults and overrides in their places; the weights before."""
        return self.path / "settings.json"

    @property
    def metrics(self) -> Path:
        """One line of JSON for every log point, epoch and evaluation."""
        return self.path / "metrics.jsonl"

    @property
    def description(self) -> Path:
        """Device, shapes and memory of the run, and how it ended."""
        return self.path / "run.json"

    @property
    def report(self) -> Path:
        """The page that shows all of this, also while the run goes on."""
        return self.path / "report.html"

    @property
    def weights(self) -> Path:
        """The parameters at the end of the run."""
        return self.path / "weights.safetensors"

    @property
    def best(self) -> Path:
        """The parameters at the best evaluation."""
        return self.path / "best.safetensors"

    @property
    def checkpoint(self) -> Path:
        """All that is needed to go on."""
        return self.path / "checkpoint.safetensors"

    def forget_after(self, step: int) -> None:
        """Drop from `metrics.jsonl` what was measured after a step, and files never finished.

        A line that is no record, as a crash may leave one, is dropped too. Raises `ProblemError`.
        """
        if not self.writes:
            return
        for partial in self.path.glob(".*.partial"):
            partial.unlink(missing_ok=True)
        if self.metrics.is_file():
            try:
                lines = self.metrics.read_bytes().split(b"\n")[:-1]
            except OSError as error:
                reason = error.strerror or str(error)
                raise ProblemError(UnreadableFile(self.metrics, reason)) from None
            remaining = [f"{line.decode()}\n" for line in lines if _is_by(step, line)]
            write_text(self.metrics, "".join(remaining))

    def compare_anew(self, step: int, epoch: int, by: str) -> None:
        """Record that the best weights are chosen otherwise after a step, as the setting says."""
        self.add_metrics({"kind": "best", "step": step, "epoch": epoch, "by": by})

    def write_settings(self, settings: RunSettings, weights: Sequence[Origin] = ()) -> None:
        """Write `settings.json`, which also names the weights the run started from."""
        if not self.writes:
            return
        content = {**settings.model_dump(mode="json"), "weights": [dict(each) for each in weights]}
        write_text(self.settings, json.dumps(content, indent=2) + "\n")

    def keep_tokenizer(self, file: Path) -> None:
        """Copy the tokenizer.json that texts are read by, so that it lies beside the weights."""
        if self.writes and file.resolve() != (self.path / TOKENIZER).resolve():
            content = read_tokenizer(file)
            with replacing(self.path / TOKENIZER) as partial:
                partial.write_bytes(content)

    def add_metrics(self, record: Mapping[str, str | float]) -> None:
        """Add one line to `metrics.jsonl`. A number that is not finite becomes null."""
        if not self.writes:
            return
        finite = {name: value if _has_json(value) else None for name, value in record.items()}
        line = json.dumps(finite, allow_nan=False) + "\n"
        try:
            with self.metrics.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            raise ProblemError(CannotWrite(self.metrics, error.strerror or str(error))) from None

    def add_shown(self, shown: VisualLog, step: int, epoch: int) -> None:
        """Write the images and matrices of an evaluation, and a record of each file."""
        if self.writes:
            record = {"kind": "shown", "step": step, "epoch": epoch}
            for name, file in shown.write(self.path, step):
                self.add_metrics({**record, "name": name, "file": file})


def folder_of(
    name: str, out: Path | None, hosts: Hosts = ALONE
) -> AbstractContextManager[RunFolder]:
    """The locked folder of a new run: `out`, or one of that name in `runs`.

    Of several hosts the first locks it and writes; all of them have to name it, as only one could
    number it. Raises `ProblemError`.
    """
    if out is None and hosts.count > 1:
        raise ProblemError(UnnamedFolder(hosts.count))
    if out is not None and not hosts.is_first:
        return nullcontext(RunFolder(out, writes=False))
    return new_folder(RUNS, name) if out is None else named_folder(out)


@contextmanager
def new_folder(base: Path, name: str) -> Generator[RunFolder]:
    """A folder that was not there before: `name-1`, `name-2`, ... under `base`, and its lock."""
    number = 1
    with ExitStack() as held:
        while not _begun(base / f"{name}-{number}", held):
            number += 1
        yield RunFolder(base / f"{name}-{number}")


@contextmanager
def named_folder(path: Path) -> Generator[RunFolder]:
    """A folder that the user named, which must be empty or not there yet, and its lock."""
    with _writable(path):
        path.mkdir(parents=True, exist_ok=True)
    with _held(path):
        if _is_occupied(path):
            cure = (
                "name a folder that is empty or not there; a run that stopped there goes on with\n"
                f"`--resume {path}`, in Python with `resume`"
            )
            raise ProblemError(CannotWrite(path, "the folder is not empty", cure))
        yield RunFolder(path)


@contextmanager
def saved_folder(path: Path, hosts: Hosts = ALONE) -> Generator[RunFolder]:
    """A folder to save a run in, whether it is there or not, and its lock where this one writes.

    Raises `ProblemError`.
    """
    if not hosts.is_first:
        yield RunFolder(path, writes=False)
        return
    with _writable(path):
        path.mkdir(parents=True, exist_ok=True)
    with _held(path):
        yield RunFolder(path)


@contextmanager
def resumed_folder(path: Path, hosts: Hosts = ALONE) -> Generator[RunFolder]:
    """The folder of an earlier run, and its lock where this process writes."""
    if not path.is_dir():
        raise ProblemError(NoSuchFile(path))
    with _held(path) if hosts.is_first else nullcontext():
        yield RunFolder(path, hosts.is_first)


def _begun(path: Path, held: ExitStack) -> bool:
    """Make and lock a folder, unless it is there or another process was faster."""
    with _writable(path):
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            return False
    try:
        held.enter_context(locked(path))
    except HeldError:
        return False
    return not _is_occupied(path)


@contextmanager
def _held(path: Path) -> Generator[None]:
    """Hold a folder; raises `ProblemError` where another run has it, or it cannot be locked."""
    with ExitStack() as held:
        try:
            held.enter_context(locked(path))
        except HeldError as error:
            raise ProblemError(FolderInUse(path, error.process)) from None
        yield


def _is_occupied(path: Path) -> bool:
    """Returns True if a folder holds anything but its lock."""
    with _writable(path):
        return any(each.name != LOCK for each in path.iterdir())


@contextmanager
def _writable(path: Path) -> Generator[None]:
    """Raise errors of the system about a folder as `ProblemError`."""
    try:
        yield
    except OSError as error:
        raise ProblemError(CannotWrite(path, error.strerror or str(error))) from None


def _is_by(step: int, line: bytes) -> bool:
    """Returns True if a line of the metrics is a record of a step up to this one."""
    try:
        record = cast("object", json.loads(line))
    except (ValueError, RecursionError):
        return False
    match record:
        case {"step": int(number)}:
            return number <= step
        case _:
            return False


def _has_json(value: str | float) -> bool:
    return isinstance(value, str) or isfinite(value)
