"""`meganeura fmt`: programs in their canonical layout."""

from pathlib import Path
from typing import Annotated

import typer

from meganeura.cli.ui.console import say
from meganeura_dsl.diagnostics.problem import ProblemsError, Sink


def fmt(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Programs.")],
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if something would.")
    ] = False,
) -> None:
    """Write programs anew: spaces, brackets and indentation as everybody has them."""
    changed = [file for file in files if _format(file, write=not check)]
    for file in changed:
        say(f"{'would change' if check else 'changed'} {file}")
    if check and changed:
        raise typer.Exit(1)


def _format(file: Path, *, write: bool) -> bool:
    """Format one file, and say whether its text was another. Nothing broken is touched."""
    from meganeura_dsl.syntax.formatter.formatter import find_comments, format_module
    from meganeura_dsl.syntax.parser.parser import parse
    from meganeura_dsl.syntax.parser.source_files import read_source
    from meganeura_runtime.io.files.atomic_write import write_text

    source, sink = read_source(file), Sink()
    module = parse(source, sink)
    if sink.has_errors:
        raise ProblemsError(tuple(sink))
    text = format_module(module, find_comments(source))
    if text != source.text and write:
        write_text(file, text)
    return text != source.text
