"""`meganeura shapes`: the type of every value a reader of the program sees."""

from pathlib import PurePath
from typing import Annotated

import typer

from meganeura.cli.options.target_program import load
from meganeura.cli.ui.console import say
from meganeura_dsl.diagnostics.plain_table import table
from meganeura_dsl.diagnostics.source import Span


def shapes(
    target: Annotated[str, typer.Argument(metavar="FILE|MODEL", help="A program, or a model.")],
) -> None:
    """List the shape of every intermediate value, for all sizes."""
    from meganeura_dsl import pipeline

    program = load(target)
    if program.models and program.chosen not in program.trains:
        found = pipeline.elaborate_model(program)
    else:
        found = pipeline.elaborate_train(program, sizes={}, training=True)
    rows = [(_location(each.span), each.path, each.name, str(each.type)) for each in found.bindings]
    say(table([("line", "layer", "value", "type"), *rows]))


def _location(span: Span) -> str:
    """The file without its folder, and the line."""
    return f"{PurePath(span.source.name).name}:{span.line}"
