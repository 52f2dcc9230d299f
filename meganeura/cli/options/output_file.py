"""`-o FILE`: what a command may replace.

A command replaces what it wrote before. It never replaces a program, a file of another kind, a file
that it reads, or a file that nobody named, unless `--force` says so.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, assert_never

import typer

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.files.file_problems import CannotWrite, WouldReplace

Force = Annotated[
    bool,
    typer.Option("--force", help="Replace a program, a file of another kind, or one that is read."),
]


class Kind(Enum):
    """The kinds of files that commands write; each value is its name in messages."""

    PROGRAM = "a program"
    WEIGHTS = "weights"
    OUTPUTS = "the outputs of a model"
    COMPILED = "a compiled model"
    ONNX = "an ONNX model"
    PAGE = "a page of Meganeura"
    ARRAY = "an array"
    PICTURE = "a picture"
    SHAPES = "a certificate of shapes"
    RUNS = "a certificate of an optimization"
    SOURCE = "a program of PyTorch"
    PREDICTIONS = "a table of predictions"
    DRAWING = "a drawing of a model"
    PICTURE_OF_MODEL = "a drawing of a model by `meganeura graph`"


SUFFIXES = {
    Kind.PROGRAM: ".mgn",
    Kind.WEIGHTS: ".safetensors",
    Kind.OUTPUTS: ".safetensors",
    Kind.COMPILED: ".mgb",
    Kind.ONNX: ".onnx",
    Kind.PAGE: ".html",
    Kind.ARRAY: ".npy",
    Kind.PICTURE: ".png",
    Kind.SHAPES: ".json",
    Kind.RUNS: ".json",
    Kind.SOURCE: ".py",
    Kind.PREDICTIONS: ".csv",
    Kind.DRAWING: ".dot",
    Kind.PICTURE_OF_MODEL: ".svg",
}
WRITTEN_BY = {
    ".html": "`meganeura build`",
    ".mgb": "`meganeura build`",
    ".onnx": "`meganeura export`",
    ".py": "`meganeura export --to torch`",
    ".csv": "`meganeura predict`",
    ".dot": "`meganeura graph`",
    ".svg": "`meganeura graph`",
    ".mgn": "`meganeura import`",
}
"""The command that writes a file of a suffix, for those that do not."""
CERTIFIED = {
    Kind.SHAPES: b'{"format":"meganeura-shapes-',
    Kind.RUNS: b'{"format":"meganeura-run-',
}
"""The beginnings of certificates."""
GENERATOR = b'<meta name="generator" content="Meganeura">'
HEAD = 4096
"""Bytes of a page within which the tag of its generator stands."""


def require_writable(
    output: Path | None,
    kinds: Sequence[Kind],
    *,
    force: bool,
    reads: Iterable[Path | None] = (),
    beside: Sequence[Path] = (),
    option: str = "-o",
) -> None:
    """Refuse an output file before anything is computed.

    `kinds` are what the command can write, distinguished by suffix. `reads` are the files and
    folders that it was given, `beside` the files that it writes with `output`, which `option`
    names. Raises `typer.BadParameter` for another suffix and for `force` without a file, and
    `ProblemError` for a file that is to stay as it is.
    """
    if output is None:
        if force:
            raise typer.BadParameter(
                f"there is no file to replace: give {option} FILE", param_hint="--force"
            )
        return
    kind = next((each for each in kinds if SUFFIXES[each] == output.suffix), None)
    if kind is None:
        *others, last = (SUFFIXES[each] for each in kinds)
        listed = f"{', '.join(others)} or {last}" if others else last
        other = WRITTEN_BY.get(output.suffix)
        advice = f"; a {output.suffix} is written by {other}" if other else ""
        raise typer.BadParameter(f"the name ends in {listed}{advice}", param_hint=option)
    if output.is_dir():
        raise ProblemError(CannotWrite(output, "it is a folder"))
    if not output.absolute().parent.is_dir():
        raise ProblemError(CannotWrite(output, f"there is no folder `{output.parent}`"))
    if force:
        return
    read = {each.resolve() for path in reads if path is not None for each in _files(path)}
    for path in (output, *beside):
        if path.exists() and path.resolve() in read:
            raise ProblemError(WouldReplace(path, "the command reads it"))
    if output.is_file():
        if kind is Kind.PROGRAM:
            raise ProblemError(WouldReplace(output, "it is a program, which may have been edited"))
        if not _is(output, kind):
            raise ProblemError(WouldReplace(output, f"it is not {kind.value}"))
        return
    for path in beside:
        if path.exists():
            reason = f"it is written beside `{output}`, and is there although that is not"
            raise ProblemError(WouldReplace(path, reason))


def _files(path: Path) -> Iterator[Path]:
    """The path itself and, if it is a folder, the files in it."""
    yield path
    if path.is_dir():
        yield from (each for each in path.iterdir() if each.is_file())


def _is(path: Path, kind: Kind) -> bool:
    """True if the content of a file is of a kind, as far as the file itself says it."""
    match kind:
        case Kind.PAGE:
            with path.open("rb") as file:
                return GENERATOR in file.read(HEAD)
        case Kind.SHAPES | Kind.RUNS:
            with path.open("rb") as file:
                return file.read(len(CERTIFIED[kind])) == CERTIFIED[kind]
        case Kind.PREDICTIONS:
            from meganeura_runtime.infer.prediction import BEGIN

            with path.open("rb") as file:
                return file.read(len(BEGIN)) == BEGIN.encode()
        case Kind.DRAWING:
            from meganeura_dsl.graph_drawing import BEGIN as DRAWN

            with path.open("rb") as file:
                return file.read(len(DRAWN)) == DRAWN.encode()
        case Kind.PICTURE_OF_MODEL:
            from meganeura.drawing.write import SVG

            with path.open("rb") as file:
                return file.read(len(SVG)) == SVG.encode()
        case Kind.SOURCE:
            from meganeura_runtime.export.source.write import MARK

            with path.open("rb") as file:
                return file.read(len(MARK)) == MARK.encode()
        case Kind.COMPILED | Kind.OUTPUTS | Kind.WEIGHTS:
            return _kind_of_tensors(path) is kind
        case Kind.PROGRAM | Kind.ONNX | Kind.ARRAY | Kind.PICTURE:
            return True
        case _:
            assert_never(kind)


def _kind_of_tensors(path: Path) -> Kind | None:
    """Returns the kind of a file of tensors by its metadata; `None` for other files."""
    from meganeura_runtime.export.mgb.container import KEY as ARTEFACT
    from meganeura_runtime.io.tensors.safetensors_file import HOLDS, OUTPUTS, read_metadata

    try:
        metadata = read_metadata(path)
    except ProblemError:
        return None
    if ARTEFACT in metadata:
        return Kind.COMPILED
    return Kind.OUTPUTS if metadata.get(HOLDS) == OUTPUTS else Kind.WEIGHTS
