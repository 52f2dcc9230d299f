"""`meganeura fmt`: programs in their canonical layout."""

from pathlib import Path
from typing import Annotated

import typer

from meganeura.cli.driver.program_files import STANDARD_INPUT, named_programs, standard_input
from meganeura.cli.ui.console import say
from meganeura_dsl.diagnostics.problem import ProblemsError, Sink


def fmt(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|FOLDER...",
            help="Programs, all those of a folder, or `-`: from standard input to standard output.",
        ),
    ],
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if something would.")
    ] = False,
) -> None:
    """Write programs anew: spaces, brackets and indentation as everybody has them."""
    changed = [name for name in named_programs(files) if _format(name, write=not check)]
    for name in changed:
        if check or name != STANDARD_INPUT:
            say(f"{'would change' if check else 'changed'} {name}")
    if check and changed:
        raise typer.Exit(1)


def _format(name: str, *, write: bool) -> bool:
    """Format a program, and say whether its text was another. Nothing broken is touched."""
    from meganeura_dsl.syntax.formatter.formatter import find_comments, format_module
    from meganeura_dsl.syntax.parser.parser import parse
    from meganeura_dsl.syntax.parser.source_files import read_source
    from meganeura_runtime.io.files.atomic_write import write_text

    piped = name == STANDARD_INPUT
    source, sink = standard_input() if piped else read_source(Path(name)), Sink()
    module = parse(source, sink)
    if sink.has_errors:
        raise ProblemsError(tuple(sink))
    text = format_module(module, find_comments(source))
    if write and piped:
        say(text.removesuffix("\n"))
    elif write and text != source.text:
        write_text(Path(name), text)
    return text != source.text
