"""`meganeura graph`: a drawing of the layers of a model, in the language of Graphviz."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from meganeura.cli.options.model_options import Changes, ModelName, configured
from meganeura.cli.options.output_file import Force, Kind, require_writable
from meganeura.cli.ui.console import say


class Colour(StrEnum):
    """The measure that a layer is coloured by."""

    WEIGHTS = "weights"
    FLOPS = "flops"


def graph(
    model: ModelName,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the drawing: .dot."),
    ] = None,
    depth: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Levels of layers within layers.")
    ] = None,
    colour: Annotated[
        Colour, typer.Option("--colour", help="The measure that layers are coloured by.")
    ] = Colour.WEIGHTS,
    changes: Changes = None,
    force: Force = False,
) -> None:
    """Draw the layers of a model for Graphviz: blocks in frames, with the types between them.

    Equal layers in a row are drawn once. `dot -Tsvg net.dot` and viewers of Graphviz lay it out;
    without `-o` the text is printed.
    """
    from meganeura_dsl.graph_drawing import graphviz
    from meganeura_dsl.summary import summarize
    from meganeura_runtime.io.files.atomic_write import write_text

    require_writable(output, (Kind.DRAWING,), force=force, reads=[Path(model)])
    chosen = configured(model, changes)
    found = summarize(chosen.name, chosen.elaborate, chosen.sizes)
    if colour is Colour.FLOPS and found.open_sizes:
        given = " ".join(f"--set {name}=NUMBER" for name in found.open_sizes)
        raise typer.BadParameter(f"FLOPs follow from numbers: {given}", param_hint="--colour")
    drawn = graphviz(found, chosen.elaborate().graph, colour.value, depth)
    if output is None:
        say(drawn.removesuffix("\n"))
        return
    write_text(output, drawn)
    say(f"written: {output}; dot -Tsvg {output} lays it out")
