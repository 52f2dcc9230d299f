"""`meganeura compare`: several runs laid over each other, as a table and as a page."""

from pathlib import Path
from typing import Annotated

import typer

from meganeura.cli.options.output_file import Force, Kind, require_writable
from meganeura.cli.ui.console import say


def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders, such as runs/fit-*.")
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="FILE",
            help="The page; compare.html beside the first run without it.",
        ),
    ] = None,
    force: Force = False,
) -> None:  # fmt: skip
    """Compare runs: their metrics, what they took, the settings that differ, and their curves."""
    from meganeura.cli.reports.run_report import comparison_text
    from meganeura_runtime.io.files.atomic_write import write_text
    from meganeura_runtime.train.report.page import comparison_page
    from meganeura_runtime.train.report.run_summary import labels, summary_of

    if len(runs) < 2:
        raise typer.BadParameter("it takes two runs or more", param_hint="RUN...")
    summaries = [summary_of(each) for each in runs]
    path = runs[0].resolve().parent / "compare.html" if out is None else out
    require_writable(path, (Kind.PAGE,), force=force)
    write_text(path, comparison_page(summaries))
    say(comparison_text(summaries, labels(summaries)))
    say(f"\n{path}")
