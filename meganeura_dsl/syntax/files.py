"""Reads `.mgn` files: the one place where bytes become text."""

from importlib.resources.abc import Traversable
from pathlib import Path

from meganeura_dsl.diagnostics import ProblemError
from meganeura_dsl.source import Source, Span
from meganeura_dsl.syntax import text_problems
from meganeura_dsl.syntax.parser import LARGEST


def read_source(path: Path | Traversable, name: str | None = None) -> Source:
    """The text of a file, shown under `name` or its path; raises `ProblemError` if it has none."""
    shown = str(path) if name is None else name
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise ProblemError(text_problems.UnreadableFile(shown, _reason(error))) from error
    return decode(data, shown)


def decode(data: bytes, name: str) -> Source:
    """The text that bytes stand for in UTF-8; raises `ProblemError` for other bytes, and too many.

    A byte order mark at the beginning is dropped.
    """
    if len(data) > LARGEST:
        source = Source(name, "")
        raise ProblemError(text_problems.FileTooLarge(Span(source, 0, 0), LARGEST))
    try:
        return Source(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        source = Source(name, data.decode("utf-8-sig", errors="replace"))
        start = source.text.index("\N{REPLACEMENT CHARACTER}")
        place = Span(source, start, start + 1)
        problem = text_problems.NotUtf8(place, data[error.start], error.start)
        raise ProblemError(problem) from error


def _reason(error: OSError | ValueError) -> str:
    match error:
        case FileNotFoundError():
            return "there is no such file"
        case IsADirectoryError():
            return "this is a folder"
        case PermissionError():
            return "you may not read it"
        case OSError():
            return (error.strerror or "it cannot be opened").lower()
        case ValueError():
            return "this is no path"
