"""Pages in Markdown: as they are in a pipe or a file, drawn and paged on a terminal."""

import os
import shutil
import sys

from meganeura.cli.ui.console import say

WIDEST = 100
"""Columns beyond which lines of prose are hard to read."""


def show_page(text: str) -> None:
    """Write Markdown for a reader."""
    if not sys.stdout.isatty():
        say(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    # Colours are kept, and a page that fits on the screen is printed and left there.
    os.environ.setdefault("LESS", "-FRX")
    draws = "less" in os.environ.get("PAGER", "less") and shutil.which("less") is not None
    console = Console(width=min(shutil.get_terminal_size().columns, WIDEST))
    with console.pager(styles=draws):
        console.print(Markdown(text))
