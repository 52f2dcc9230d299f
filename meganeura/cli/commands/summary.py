"""`meganeura summary`: the layers of a model, with shapes, weights and arithmetic."""

from typing import Annotated

import typer

from meganeura.cli.options.model_options import Changes, ModelName, configured
from meganeura.cli.ui.console import say


def summary(
    model: ModelName,
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
    from meganeura_dsl.summary import summarize

    chosen = configured(model, changes)
    say(summarize(chosen.name, chosen.elaborate, chosen.sizes).text(depth, "--set "))
