"""The kernel of small squares that are multiplied with a matrix from both sides.

Each invocation reads a square, keeps it in registers, and computes what is stored of the result.
"""

from collections.abc import Iterator, Sequence
from math import prod

from meganeura_dsl.graph.core import Array, Value
from meganeura_dsl.ops.rules import concrete_shape
from meganeura_runtime.kernels.affine import Index, ravel, unravel, variable
from meganeura_runtime.kernels.expression import Expressions
from meganeura_runtime.kernels.kernel import (
    Element,
    Kernel,
    Launch,
    Memory,
    Work,
    all_of,
    is_quad,
    quads_of,
    result_of,
    write_result,
)
from meganeura_runtime.kernels.limits import Target
from meganeura_runtime.kernels.literal import float_literal
from meganeura_runtime.kernels.ops.winograd import Transform, transform_of
from meganeura_runtime.kernels.reader import Reader
from meganeura_runtime.kernels.writer import Writer

WORKGROUP = 64


def transform_kernel(work: Work, memory: Memory, target: Target) -> Kernel:
    """One invocation for each square, neighbours of which lie next to each other in the result."""
    (anchor,) = work.anchors
    transform = transform_of(anchor)
    launch = Launch(prod(transform.units), WORKGROUP, target)
    writer, make = Writer(), Expressions()
    axis, exists = launch.declare(writer, "i")
    unit = unravel(variable(axis), transform.units)
    before = memory.before(work)
    reader = Reader(make, before)
    made, read = transform.matrix.shape
    square = [[transform.read(reader, unit, i, j) for j in range(read)] for i in range(read)]
    results = [
        result_of(make, work.stores, before, elements)
        for row in range(made)
        for elements in _together(anchor, transform, unit, row, all_of(exists))
    ]
    writer.quads = quads_of([one for row in square for one in row], memory, results)
    for j in range(read):
        column = [writer.value(square[i][j]) for i in range(read)]
        for i in range(made):
            writer.line(f"let t{i}_{j} = {_product(transform.matrix[i], column)};")
    for i in range(made):
        row = [f"t{i}_{j}" for j in range(read)]
        for j in range(made):
            writer.line(f"let y{i}_{j} = {_product(transform.matrix[j], row)};")
    for result in results:
        write_result(writer, memory, result)
    return launch.kernel(writer, memory)


def _product(factors: Array, texts: Sequence[str]) -> str:
    """The sum of products, without those with zero."""
    terms = (
        text if factor == 1 else f"{float_literal(float(factor))} * {text}"
        for factor, text in zip(factors, texts, strict=True)
        if factor
    )
    return " + ".join(terms)


def _together(
    anchor: Value, transform: Transform, unit: Index, row: int, exists: Sequence[str]
) -> Iterator[list[Element]]:
    """The elements of a row of a result: all at once if they are four neighbours in memory."""
    elements: list[Element] = []
    for column in range(len(transform.matrix)):
        place = transform.place(unit, row, column)
        position = ravel(place.index, concrete_shape(anchor.type.shape))
        guards = tuple(guard for guard in place.guards if not guard.always_holds)
        elements.append(Element(position, {anchor.id: f"y{row}_{column}"}, exists, guards))
    same = all(element.guards == elements[0].guards for element in elements)
    if same and is_quad([element.position for element in elements]):
        yield elements
    else:
        yield from ([element] for element in elements)
