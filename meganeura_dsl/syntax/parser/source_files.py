"""Reads `.mgn` files: the one place where bytes become text."""

from codecs import BOM_UTF8
from pathlib import Path

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.support.regular_files import opened
from meganeura_dsl.syntax.parser.parser import LARGEST
from meganeura_dsl.syntax.problems import text_problems


def read_source(path: Path, name: str | None = None) -> Source:
    """The text of a file, shown under `name` or its path; raises `ProblemError` if it has none."""
    shown = str(path) if name is None else name
    try:
        with opened(path) as file:
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
    body = data.removeprefix(BOM_UTF8)
    try:
        return Source(name, body.decode())
    except UnicodeDecodeError as error:
        start = len(body[: error.start].decode())
        source = Source(name, body.decode(errors="replace"))
        offset = len(data) - len(body) + error.start
        problem = text_problems.NotUtf8(Span(source, start, start + 1), data[offset], offset)
        raise ProblemError(problem) from error


def _reason(error: OSError | ValueError) -> str:
    match error:
        case FileNotFoundError():
            return "there is no such file"
        case PermissionError():
            return "you may not read it"
        case OSError():
            return (error.strerror or "it cannot be opened").lower()
        case ValueError():
            return "this is no path"
