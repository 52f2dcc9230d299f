"""`meganeura import`: an ONNX or GGUF file, PyTorch source, or a file of a plugin, as a program."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.options.output_file import Force, Kind, require_writable
from meganeura.cli.ui.console import say
from meganeura_dsl.diagnostics.plain_table import count

if TYPE_CHECKING:
    from meganeura_runtime.importing.onnx.importing import Imported
    from meganeura_runtime.importing.source.source_text import PythonSource

SHOWN = 5
"""Constants that are listed."""


def import_(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="An ONNX or GGUF file, PyTorch source as net.py:Net(10), or a file of a plugin.",
        ),
    ],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write: model.mgn.")
    ],
    sizes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=NUMBER", help="A size that the model leaves open."),
    ] = None,
    examples: Annotated[
        list[str] | None,
        typer.Option(
            "--example",
            metavar="INPUT",
            help='An input of PyTorch source, as "x: f32[n, 3, 224, 224]"; names stay open.',
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Write a model of another system as a program, and its weights as safetensors beside it.

    The program is proved, and ONNX Runtime runs an ONNX file on random inputs; where it does not
    give what the program gives, nothing is written. PyTorch source is exported in a separate
    process.
    """
    source = _source(model, examples or [])
    path = Path(model) if source is None else source.path
    beside = [output.with_suffix(".safetensors")]
    require_writable(output, (Kind.PROGRAM,), force=force, reads=[path], beside=beside)
    numbers = dict(map(_size, sizes or []))
    if source is None:
        from meganeura_runtime.importing.importers import import_model

        imported = import_model(path, output, numbers)
    else:
        from meganeura_runtime.importing.source.source_import import import_source

        imported = import_source(source, examples or [], output, numbers, sys.stderr.write)
    shown = ", ".join(f"{name}={size}" for name, size in imported.sizes.items())
    at = f" at {shown}" if shown else ""
    if len(imported.untold) < imported.outputs:
        say(f"largest difference of an output: {imported.difference:.2g}{at}")
    if not imported.outputs:
        say("not compared: there are no examples of outputs")
    for name, text in imported.untold.items():
        say(f"not compared: `{name}` is {text} everywhere on the inputs that were tried{at}")
    if imported.renamed:
        say(f"called otherwise: {count(len(imported.renamed), 'parameter')}, listed in the weights")
    say(_trained(imported))
    if imported.packed:
        say(f"packed as whole numbers of a few bits: {count(len(imported.packed), 'parameter')}")
    if imported.unpacked:
        say(f"dequantized, as no packed form has its levels: {_listed(imported.unpacked)}")
    nodes = f" ({count(imported.nodes, 'node')})" if imported.nodes else ""
    say(f"written: {imported.program}{nodes} and {imported.weights}")


def _source(model: str, examples: Sequence[str]) -> "PythonSource | None":
    """Returns PyTorch source that is named; raises `typer.BadParameter`."""
    from meganeura_runtime.importing.source.source_text import example, numbers_of, python_source

    try:
        source = python_source(model)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="MODEL") from None
    if source is None and examples:
        text = "a file has its inputs; PyTorch source, as net.py:Net, has examples"
        raise typer.BadParameter(text, param_hint="--example")
    try:
        numbers_of([example(each) for each in examples])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--example") from None
    return source


def _trained(imported: "Imported") -> str:
    """Returns a line on which parameters training moves, and which stay constants."""
    said = f"trained: {count(len(imported.trained), 'parameter')}"
    constants = imported.constants
    if not constants:
        return said
    return f"{said}, and not {count(len(constants), 'constant')}: {_listed(constants)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def _size(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    if not name or not number.isdecimal() or not 1 <= int(number[:19]) <= 1 << 31:
        raise typer.BadParameter(f"`{text}` is not NAME=NUMBER", param_hint="--set")
    return name, int(number)
