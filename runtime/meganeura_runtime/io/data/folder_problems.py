"""Problems of folders, tables and texts, which hold no tensors."""

from pathlib import Path

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report
from meganeura_dsl.diagnostics.source import Span


class NoClasses(Problem, code="E0610", topic="data"):
    """A folder does not hold one folder of images, or of sounds, for each class."""

    span: Span | None
    folder: Path
    reason: str

    def report(self) -> Report:
        """Say what is in the way."""
        return self.message(
            f"`{self.folder}` is no folder of classes",
            Remark("because", self.reason),
            span=self.span,
            cure=Help("give each class a folder of its files", f"{self.folder.name}/name/1.png"),
        )


class WorkerDied(Problem, code="E0611", topic="data"):
    """A process that decodes files ended before it was done."""

    status: int
    file: str

    def report(self) -> Report:
        """Say how the process ended, and which file it was reading."""
        how = f"by signal {-self.status}" if self.status < 0 else f"with exit code {self.status}"
        return self.message(
            f"a process that decodes files ended {how}",
            Remark("it was at", self.file),
            cure=Help("go on with the run, with fewer processes", "--set workers=0"),
        )


class WrongReader(Problem, code="E0612", topic="data"):
    """The files that `data` names are not of the kind that the call reads, or feed no input."""

    span: Span | None
    file: Path
    reason: str
    advice: str = ""

    def report(self) -> Report:
        """Say why."""
        return self.message(
            f"`{self.file}` cannot be read as the setting says",
            Remark("because", self.reason),
            span=self.span,
            cure=Help(self.advice) if self.advice else None,
        )


class BadColumn(Problem, code="E0613", topic="data"):
    """A table lacks a column that feeds an input, or the column does not hold numbers."""

    span: Span | None
    file: Path
    name: str
    reason: str
    columns: tuple[str, ...]
    advice: str = ""

    def report(self) -> Report:
        """Show the columns there are."""
        return self.message(
            f"`{self.name}` cannot be fed from `{self.file}`",
            Remark("because", self.reason),
            *([Remark("its columns", ", ".join(self.columns))] if self.columns else []),
            span=self.span,
            cure=Help(self.advice) if self.advice else None,
        )
