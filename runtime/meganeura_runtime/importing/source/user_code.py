"""Errors of code that users wrote: their frames, without those of PyTorch and of this package."""

import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.importing.source.torch_source_problems import FailedSource

LONGEST = 300
"""Characters of an error and of a line in a message."""
HINT = "\nThe error above occurred when calling torch.export.export"
"""The beginning of what PyTorch adds to errors of `forward`."""
OURS = str(Path(__file__).parents[1])


@contextmanager
def user_code(source: str, action: str) -> Generator[None]:
    """Shows errors of users' code as Python does, and raises them as a `FailedSource`."""
    try:
        yield
    except ProblemError:
        raise
    except BaseException as error:  # noqa: BLE001 - a file may raise SystemExit
        show_traceback(error)
        raise ProblemError(FailedSource(source, action, described(error), place(error))) from None


def user_frames(frames: Sequence[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """The frames of files that are neither PyTorch's nor of this package."""
    hidden = (OURS, *_torch_folders())
    return [each for each in frames if not each.filename.startswith((*hidden, "<"))]


def _torch_folders() -> list[str]:
    torch = sys.modules.get("torch")
    file = getattr(torch, "__file__", None)
    return [str(Path(file).parent)] if file else []


def show_traceback(error: BaseException) -> None:
    """Writes an error on standard error with the frames of users alone."""
    frames = user_frames(traceback.extract_tb(error.__traceback__))
    lines = (
        ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
    )
    said = "".join(traceback.format_exception_only(error)).partition(HINT)[0]
    sys.stderr.write("".join(lines) + said.rstrip() + "\n")


def described(error: BaseException) -> str:
    """The class of an error and the first line of its text."""
    said = next((each.strip() for each in str(error).splitlines() if each.strip()), "")
    name = type(error).__name__
    return f"{name}: {said[:LONGEST]}" if said else name


def place(error: BaseException) -> str:
    """The innermost line of users' code that an error passed through; empty if there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}, line {error.lineno}"
    frames = user_frames(traceback.extract_tb(error.__traceback__))
    return place_of(frames[-1]) if frames else ""


def place_of(frame: traceback.FrameSummary) -> str:
    """A line of a file, as text."""
    line = f": {frame.line.strip()[:LONGEST]}" if frame.line else ""
    return f"{Path(frame.filename).name}, line {frame.lineno}{line}"
