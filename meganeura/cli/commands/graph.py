"""`meganeura graph`: a drawing of the layers of a model."""

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
    MEMORY = "memory"


def graph(
    model: ModelName,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The drawing: .html, .svg or .dot."),
    ] = None,
    depth: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Levels of layers that are open.")
    ] = None,
    colour: Annotated[
        Colour, typer.Option("--colour", help="The measure that layers are coloured by.")
    ] = Colour.WEIGHTS,
    changes: Changes = None,
    force: Force = False,
) -> None:
    """Draw the layers of a model: blocks around their layers, with the types between them.

    Equal layers in a row are drawn once, with their number. On a page, `-o net.html`, blocks open
    and close by a click, and a layer shows its line of the program. A picture, `-o net.svg`, has
    all of them open. `-o net.dot` is text for Graphviz, which is printed without `-o`.
    """
    from meganeura.drawing.write import Shown, page, picture
    from meganeura_dsl.graph_drawing import graphviz
    from meganeura_dsl.summary import summarize
    from meganeura_runtime.io.files.atomic_write import write_text

    kinds = (Kind.PAGE, Kind.PICTURE_OF_MODEL, Kind.DRAWING)
    require_writable(output, kinds, force=force, reads=[Path(model)])
    chosen = configured(model, changes)
    found = summarize(chosen.name, chosen.elaborate, chosen.sizes)
    if colour is not Colour.WEIGHTS and found.open_sizes:
        given = " ".join(f"--set {name}=NUMBER" for name in found.open_sizes)
        text = f"FLOPs and memory follow from numbers: {given}"
        raise typer.BadParameter(text, param_hint="--colour")
    graph = chosen.elaborate().graph
    shown = Shown(colour.value, depth)
    match output and output.suffix:
        case None:
            say(graphviz(found, graph, colour.value, depth).removesuffix("\n"))
            return
        case ".html":
            text, hint = page(found, graph, chosen.program.texts, shown), "a browser shows it"
        case ".svg":
            text, hint = picture(found, graph, shown), ""
        case _:
            text = graphviz(found, graph, colour.value, depth)
            hint = f"dot -Tsvg {output} lays it out"
    assert output is not None
    write_text(output, text)
    say("; ".join(filter(None, [f"written: {output}", hint])))
