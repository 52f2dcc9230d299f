"""`meganeura report`: the page of a run, made from what its folder holds."""

import sys
from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated

import typer

from meganeura.cli.options.output_file import Force, Kind, require_writable
from meganeura.cli.ui.console import say


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, such as runs/fit-1.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="The page; RUN/report.html without it."),
    ] = None,
    terminal: Annotated[
        bool, typer.Option("--terminal", help="Draw the curves here, and write no page.")
    ] = False,
    force: Force = False,
) -> None:
    """Write the page of a run, or draw its curves in the terminal.

    A run writes its page itself, while it trains and when it ends: this is for one that an earlier
    version made, or whose process was killed.
    """
    from meganeura.cli.reports.run_report import run_text
    from meganeura_runtime.io.files.atomic_write import write_text
    from meganeura_runtime.train.records.run_folder import RunFolder
    from meganeura_runtime.train.report.page import run_page
    from meganeura_runtime.train.report.run_summary import summary_of

    if terminal and out is not None:
        raise typer.BadParameter("no page is written", param_hint="--terminal")
    require_writable(out, (Kind.PAGE,), force=force)
    summary = summary_of(run)
    if terminal:
        say(run_text(summary, get_terminal_size().columns, sys.stdout.encoding))
        return
    path = RunFolder(run).report if out is None else out
    write_text(path, run_page(summary))
    say(str(path))
