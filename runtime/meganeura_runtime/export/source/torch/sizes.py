"""Sizes that a constructor needs: the widths of what a layer will be applied to."""

from collections.abc import Iterator, Sequence

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.values import ElabValue
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.literals import literal
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.static_code import written_static
from meganeura_runtime.export.source.text import Code
from meganeura_runtime.export.source.torch.torch_writer import TorchWriter
from meganeura_runtime.export.source.torch.widths import Known, NeedsWidth, is_width, width_of
from meganeura_runtime.export.source.trace import Event, Names
from meganeura_runtime.export.source.whole_numbers import gives

Source = tuple[ast.Expression, int]
"""A tensor and the axis of it whose size is asked for."""


_KNOWN = ("size", "config", "static")


def size_text(
    writer: TorchWriter,
    node: ast.Node,
    wanted: Sequence[tuple[Event, ElabValue]],
    source: Source | None = None,
) -> Code:
    """An expression that is a size in every application, for a constructor.

    Raises `NeedsWidth` where a loop changes it and no variable follows it yet.
    """
    numbers = [(event.names, value) for event, value in wanted]
    for _, value in numbers:
        if not isinstance(value, int) or isinstance(value, bool):
            raise refuse(node, f"the constructor needs the size {value}, which data decides")
    needed: NeedsWidth | None = None
    try:
        text = None if source is None else _followed(writer, source, numbers)
    except NeedsWidth as raised:
        text, needed = None, raised
    if text is not None:
        return text
    first = numbers[0][1]
    is_one = all(value == first for _, value in numbers)
    is_sure = is_one and source is not None  # that another number is the same means little
    for candidate in likely(writer) if is_sure else candidates(writer):
        if all(gives(candidate, names, value) for names, value in numbers):
            try:
                return written_static(writer, candidate, "init")
            except ProblemError:
                continue
    if needed is not None:
        raise needed
    if is_one:
        return literal(first)
    raise refuse(node, "no size of this block is the width of what it is applied to")


def _followed(
    writer: TorchWriter, source: Source, numbers: Sequence[tuple[Names, ElabValue]]
) -> Code | None:
    """The width of a tensor by how it came to be, if that is right in every application."""
    known: Known = {}
    found = width_of(writer, *source, known)
    if found is None or not is_width(found, numbers, known):
        return None
    try:
        return written_static(writer, found, "init")
    except ProblemError:
        return None


def likely(writer: TorchWriter) -> Iterator[ast.Expression]:
    """The widths of the layers so far, latest first, and the sizes of the inputs."""
    yield from reversed(writer.widths)
    for item in writer.block.inputs:
        for node in walk(item.type):
            if isinstance(node, ast.Name) and writer.env.get(node.text) in _KNOWN:
                yield node


def candidates(writer: TorchWriter) -> Iterator[ast.Expression]:
    """Expressions of a block that may be the size of something, likeliest first."""
    yield from likely(writer)
    for statement in (*writer.block.body, *(writer.block.results or ())):
        for node in walk(statement):
            if isinstance(node, ast.Binary | ast.Conditional | ast.Subscript):
                yield node
    for name, kind in writer.env.items():
        if kind in _KNOWN:
            yield ast.Name(writer.block.name.span, name)
