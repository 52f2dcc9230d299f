"""`meganeura summary`: the layers of a model, with shapes, weights and arithmetic."""

from typing import Annotated

import typer

from meganeura.cli.options.model_options import Changes, configured
from meganeura.cli.ui.console import say


def summary(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model, or a file with one.")],
    *,
    depth: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Levels of layers within layers.")
    ] = None,
    changes: Changes = None,
) -> None:
    """Show the layers of a model: what each gives, its weights, and its arithmetic.

    Equal layers in a row are one line. `--set h=224` gives a size that the inputs leave open, of
    which shapes and arithmetic then are numbers, or an argument of the model.
    """
    from meganeura.cli.reports.model_summary import summary_text
    from meganeura_dsl.ir.types import free_sizes
    from meganeura_dsl.summary import summary_of

    chosen = configured(model, changes)
    symbolic = chosen.elaborate()
    missing = free_sizes(symbolic.inputs.values())
    # The number of examples is 1 where nobody says; other sizes have no number of their own.
    firsts = {str(each.shape[0]) for each in symbolic.inputs.values() if each.shape}
    ones = {name: 1 for name in missing if name in firsts}
    open_sizes = tuple(name for name in missing if name not in firsts)
    concrete = None if open_sizes else chosen.elaborate(ones)
    found = summary_of(chosen.name, symbolic, concrete)
    say(summary_text(found, {**chosen.sizes, **ones}, open_sizes, depth))
