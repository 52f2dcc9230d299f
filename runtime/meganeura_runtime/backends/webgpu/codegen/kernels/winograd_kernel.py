"""The kernel of small squares that are multiplied with a matrix from both sides.

Each invocation reads a square, keeps it in registers, and computes what is stored of the result.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from meganeura_dsl.ir.graph import Array, Value
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import (
    Element,
    Kernel,
    Launch,
    Memory,
    Work,
    all_of,
    is_vec4,
    result_of,
    vec4s_of,
    write_result,
)
from meganeura_runtime.backends.webgpu.codegen.lowering.element_inliner import ElementInliner
from meganeura_runtime.backends.webgpu.codegen.lowering.winograd import Transform, transform_of
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Expression,
    Index,
    ravel,
    unravel,
    variable,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.emitter import WgslEmitter
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import Expressions
from meganeura_runtime.backends.webgpu.codegen.wgsl.literal import float_literal
from meganeura_runtime.backends.webgpu.config.limits import Style, Target

WORKGROUP = 64
NAMES = "xyz"
"""Names of the elements of each result, as many as may share a kernel."""
SQUARES = "abcd"
"""Suffixes of those names for the squares of an invocation, if it has four."""


def winograd_kernel(work: Work, memory: Memory, target: Target) -> Kernel:
    """One invocation for each square, neighbours of which lie next to each other in the result.

    Several transforms put their results at the same places, each of its own. What one tensor is
    transformed to is stored before the next tensor is read, so that few registers are in use.
    A CPU fetches and stores four neighbours at once, so there it is four squares.
    """
    transforms = {anchor.id: transform_of(anchor) for anchor in work.anchors}
    first = transforms[work.anchors[0].id]
    four = target.style is Style.SOFTWARE_VULKAN and prod(first.units[1:]) % 4 == 0
    each = len(SQUARES) if four else 1
    launch = Launch(prod(first.units) // each, WORKGROUP, target)
    emitter, make = WgslEmitter(memory.halves), Expressions()
    axis, exists = launch.declare(emitter, "i")
    units = [unravel(variable(axis) * each + number, first.units) for number in range(each)]
    names = [
        {anchor: f"{name}{square}" for anchor, name in zip(transforms, NAMES, strict=False)}
        for square in (SQUARES if four else [""])
    ]
    before = memory.before(work)
    reader = ElementInliner(make, before)
    read = {
        anchor: [_square(transform, reader, unit) for unit in units]
        for anchor, transform in transforms.items()
    }
    positions = [
        elements
        for row in range(len(first.matrix))
        for elements in _together(
            [
                list(_row(work.anchors[0], called, first, unit, row, exists))
                for called, unit in zip(names, units, strict=True)
            ]
        )
    ]
    passes = [
        (anchors, [result_of(make, stores, before, elements) for elements in positions])
        for anchors, stores in _passes(work)
    ]
    reads = [one for some in read.values() for square in some for row in square for one in row]
    emitter.vec4s = vec4s_of(reads, memory, [result for _, results in passes for result in results])
    for anchors, results in passes:
        for anchor in anchors:
            for called, square in zip(names, read[anchor.id], strict=True):
                _multiply(emitter, called[anchor.id], transforms[anchor.id].matrix, square)
        for result in results:
            write_result(emitter, memory, result)
    return launch.kernel(emitter, memory)


def _square(transform: Transform, reader: ElementInliner, unit: Index) -> list[list[Expression]]:
    size = range(transform.matrix.shape[1])
    return [[transform.read(reader, unit, row, column) for column in size] for row in size]


def _passes(work: Work) -> list[tuple[list[Value], list[Value]]]:
    """The transforms of each tensor, and what is stored after them; what joined them comes last."""
    passes = [
        (list(anchors), [anchor for anchor in anchors if anchor in work.stores])
        for anchors in (
            [anchor for anchor in work.anchors if anchor.operands == operands]
            for operands in dict.fromkeys(anchor.operands for anchor in work.anchors)
        )
    ]
    passes[-1][1].extend(value for value in work.stores if value not in work.anchors)
    return passes


def _multiply(
    emitter: WgslEmitter, name: str, matrix: Array, square: Sequence[Sequence[Expression]]
) -> None:
    """Declare all elements of matrix @ square @ matrix^T."""
    rows, read = matrix.shape
    for j in range(read):
        column = [emitter.value(square[i][j]) for i in range(read)]
        for i in range(rows):
            emitter.line(f"let {name}t{i}_{j} = {_product(matrix[i], column)};")
    for i in range(rows):
        row = [f"{name}t{i}_{j}" for j in range(read)]
        for j in range(rows):
            emitter.line(f"let {name}{i}_{j} = {_product(matrix[j], row)};")


def _product(factors: Array, texts: Sequence[str]) -> str:
    """The sum of products, without those with zero."""
    terms = (
        text if factor == 1 else f"{float_literal(float(factor))} * {text}"
        for factor, text in zip(factors, texts, strict=True)
        if factor
    )
    return " + ".join(terms)


def _row(
    anchor: Value,
    names: Mapping[int, str],
    transform: Transform,
    unit: Index,
    row: int,
    exists: str | None,
) -> Iterator[Element]:
    """The elements of a row of a square of the result."""
    shape = concrete_shape(anchor.type.shape)
    for column in range(len(transform.matrix)):
        position = transform.coordinate(unit, row, column)
        registers = {number: f"{name}{row}_{column}" for number, name in names.items()}
        guards = tuple(guard for guard in position.guards if not guard.always_holds)
        yield Element(ravel(position.index, shape), registers, all_of(exists), guards)


def _together(rows: Sequence[Sequence[Element]]) -> list[list[Element]]:
    """The elements of a row of each square: four at once where they are neighbours in memory.

    They are neighbours along the rows, or from square to square.
    """
    elements = [element for row in rows for element in row]
    same = all(element.guards == elements[0].guards for element in elements)
    for order in (elements, [element for column in zip(*rows, strict=True) for element in column]):
        fours = [order[start : start + 4] for start in range(0, len(order), 4)]
        if same and all(is_vec4([element.position for element in four]) for four in fours):
            return fours
    return [[element] for element in elements]
