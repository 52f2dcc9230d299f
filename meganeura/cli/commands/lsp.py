"""`meganeura lsp`: the language server."""

import sys
from typing import Annotated

import typer

from meganeura.cli.ui.console import say


def lsp(
    *,
    stdio: Annotated[  # noqa: ARG001  editors add it
        bool, typer.Option("--stdio", help="Speak on standard input and output, as always.")
    ] = False,
) -> None:
    """Serve an editor: problems, shapes and completion while a program is written (LSP)."""
    from meganeura_runtime.support.optional_imports import load

    load("pygls", "editor", "serve an editor")
    from meganeura.language_server.server import serve

    if sys.stdin.isatty():
        say("waiting for an editor, which starts this command by itself: docs/editors.md", err=True)
    serve()
