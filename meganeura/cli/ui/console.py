"""Output of commands: lines, reports drawn for a reader, and exit codes."""

import os
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TextIO

import typer

from meganeura_dsl.diagnostics.characters import safe
from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.terminal import render, render_short, wants_colour

ON_THE_COMMAND_LINE = ("--set",)
"""Names of sources that are part of the command line."""

WRONG_NAMES = (
    *("E0119", "E0218", "E0405", "E0533", "E0541", "E0551", "E0570", "E0585", "E0586", "E0587"),
    *("E0620", "E0650"),
)
"""Codes of a file, program, model, `train`, tensor, device, rule or run that does not exist."""


class OutputError(Exception):
    """The output of a command cannot be written, as on a full disk."""


@contextmanager
def _writing(*, err: bool) -> Generator[None]:
    """Raise `OutputError` for what cannot be written; there is nobody to tell of errors.

    A reader that is gone, as in `| head`, is not one: `BrokenPipeError` ends a command in silence.
    """
    try:
        yield
    except BrokenPipeError:
        if not err:
            raise
    except OSError as error:
        if not err:
            raise OutputError(os.strerror(error.errno or 0)) from error


def say(text: str, *, err: bool = False) -> None:
    """Write lines for a reader, the one way for all that commands write beside reports.

    File names, labels and the like may hold control characters, which are escaped. Raises
    `OutputError`.
    """
    with _writing(err=err):
        typer.echo(safe(text), err=err)


def write(piece: str) -> None:
    """Write a piece of a text that goes on, at once; control characters are escaped."""
    with _writing(err=False):
        typer.echo(safe(piece), nl=False)
        sys.stdout.flush()


def show(reports: Iterable[Report], stream: TextIO, *, short: bool = False) -> None:
    """Draw reports, with an empty line after each, or each as one line."""
    colour = wants_colour(stream, os.environ)
    for report in reports:
        text = f"{render_short(report)}\n" if short else f"{render(report, colour=colour)}\n\n"
        with _writing(err=stream is sys.stderr):
            stream.write(text)


def exit_code(reports: Sequence[Report]) -> int:
    """2 if the command line is all that is wrong, otherwise 1."""
    return 2 if all(_is_of_command_line(report) for report in reports) else 1


def _is_of_command_line(report: Report) -> bool:
    if report.label is None:
        return report.code in WRONG_NAMES
    return report.label.span.source.name in ON_THE_COMMAND_LINE
