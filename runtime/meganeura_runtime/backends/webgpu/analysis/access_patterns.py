"""Access patterns: which stored values a stored value is computed from, pointwise or gathered."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from meganeura_dsl.ir.graph import Graph, Value
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.analysis.materialize import (
    elements,
    is_attention,
    is_contraction,
    is_loop,
    is_reduction,
    is_transform,
)
from meganeura_runtime.backends.webgpu.codegen.kernels.reduction_kernel import reduction_of
from meganeura_runtime.backends.webgpu.codegen.kernels.row_reduction_kernel import RowReduction
from meganeura_runtime.backends.webgpu.codegen.lowering.element_inliner import ElementInliner
from meganeura_runtime.backends.webgpu.codegen.lowering.winograd import transform_of
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import contraction_of
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Affine,
    Axis,
    Expression,
    Index,
    unravel,
    variable,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import Expressions, Load, walk


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """The positions that the elements of one value are computed from.

    `aligned` values are read at the element's own row-major position, `elsewhere` ones at others;
    a value may be both. `size` counts the operations of one element.
    """

    aligned: frozenset[int]
    elsewhere: frozenset[int]
    size: int

    @property
    def all(self) -> frozenset[int]:
        """Everything that is read."""
        return self.aligned | self.elsewhere

    def join(self, other: "AccessPattern") -> "AccessPattern":
        """Returns the pattern of two results of one op together."""
        aligned, elsewhere = self.aligned | other.aligned, self.elsewhere | other.elsewhere
        return AccessPattern(aligned, elsewhere, max(self.size, other.size))


def readers_of(graph: Graph) -> Mapping[int, frozenset[Value]]:
    """Returns the values that have each value as an operand."""
    readers: dict[int, set[Value]] = {value.id: set() for value in graph.values}
    for value in graph.values:
        for operand in value.operands:
            readers[operand.id].add(value)
    return {number: frozenset(each) for number, each in readers.items()}


def access_patterns(value: Value, stored: Collection[int]) -> AccessPattern:
    """Returns the pattern in which a stored value reads the other stored ones."""
    make = Expressions(keep_choices=True)
    reader = ElementInliner(make, {number: number for number in stored if number != value.id})
    if is_contraction(value):
        return _found(_factors(reader, value), _nowhere)
    if is_attention(value) or is_loop(value):
        return _found([_anywhere(reader, operand) for operand in value.operands], _nowhere)
    if is_transform(value):
        return _found(_square(reader, value), _nowhere)
    count = elements(value)
    position = variable(Axis("i", count)) if count > 1 else Affine(0)
    index = unravel(position, concrete_shape(value.type.shape))
    roots = _term(reader, value, index) if is_reduction(value) else [reader.at(value, index)]
    return _found(roots, lambda load: load.index == position)


def row_accesses(value: Value, rows: RowReduction, counts: Mapping[int, int]) -> AccessPattern:
    """The same in a kernel of rows, where values have an element for each row or for each term.

    A value of rows is aligned where it is read at the row, one of terms where at the term. `counts`
    are the elements of each stored value.
    """
    reader = ElementInliner(
        Expressions(keep_choices=True), {number: number for number in counts if number != value.id}
    )
    row, term = variable(Axis("i", rows.count)), variable(Axis("t", rows.terms))
    here = {rows.count: row, rows.count * rows.terms: rows.position(row, term)}
    shape = concrete_shape(value.type.shape)
    if is_reduction(value):
        reduction = reduction_of(value)
        at = unravel(term, reduction.shape)
        root = reduction.term(reader, unravel(row, shape), at).element
    else:
        root = reader.at(value, unravel(here[elements(value)], shape))
    return _found([root], lambda load: load.index == here.get(counts[load.tensor]))


def _found(roots: Sequence[Expression], is_here: Callable[[Load], bool]) -> AccessPattern:
    """Returns the pattern of the loads in expressions, at the element's position or elsewhere."""
    expressions = list(walk(roots))
    at = {(load.tensor, is_here(load)) for load in expressions if isinstance(load, Load)}
    aligned = frozenset(tensor for tensor, same in at if same)
    return AccessPattern(
        aligned, frozenset(tensor for tensor, same in at if not same), len(expressions)
    )


def _nowhere(_: Load) -> bool:
    """Returns False: nothing is read at the position of one element."""
    return False


def _term(reader: ElementInliner, value: Value, index: Index) -> Sequence[Expression]:
    reduction = reduction_of(value)
    at = reduction.index(reduction.axes())
    term = reduction.term(reader, index, at)
    if reduction.links is not None:
        ends = reduction.links.first(reader, index), reduction.links.following(reader, at)
        return [term.element, *ends]
    if term.counts is None:
        return [term.element]
    return [reader.make.choice(term.counts, term.element, term.element)]


def _square(reader: ElementInliner, value: Value) -> Sequence[Expression]:
    transform = transform_of(value)
    unit = tuple(variable(Axis(f"u{at}", size)) for at, size in enumerate(transform.units))
    size = range(transform.matrix.shape[1])
    return [transform.read(reader, unit, row, column) for row in size for column in size]


def _anywhere(reader: ElementInliner, value: Value) -> Expression:
    sizes = concrete_shape(value.type.shape)
    axes = (Axis(f"a{axis}", size) for axis, size in enumerate(sizes))
    return reader.at(value, tuple(map(variable, axes)))


def _factors(reader: ElementInliner, value: Value) -> Sequence[Expression]:
    contraction = contraction_of(value)
    batch, rows, columns, terms = (
        tuple(variable(Axis(f"{name}{axis}", size)) for axis, size in enumerate(sizes))
        for name, sizes in (
            ("b", contraction.batch),
            ("r", contraction.rows),
            ("c", contraction.columns),
            ("k", contraction.terms),
        )
    )
    left = contraction.left(reader, batch, rows, terms)
    return [left, contraction.right(reader, batch, columns, terms)]
