"""Matrix multiplication as a contraction."""

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import MatMul
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.codegen.lowering.contraction import (
    Contraction,
    OutputCoordinate,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import Expression, Index
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import ElementReader

CONTRACTS: tuple[type[Op], ...] = (MatMul,)


def contraction(op: Op, a: Value, b: Value) -> Contraction:
    """The leading axes are the batch, or further rows where b is one matrix."""
    if not isinstance(op, MatMul):
        raise TypeError(f"{op} multiplies no matrices")
    left_shape, right_shape = concrete_shape(a.type.shape), concrete_shape(b.type.shape)
    shared = len(right_shape) == 2 and len(left_shape) != 2
    batch = () if shared else left_shape[:-2]
    columns, terms = right_shape[-1], right_shape[-2]
    if op.transpose_right:
        columns, terms = terms, columns
    if shared:
        rows = left_shape[:-1]
    else:
        rows = left_shape[-1:] if op.transpose_left else left_shape[-2:-1]

    def left(reading: ElementReader, at: Index, row: Index, term: Index) -> Expression:
        return reading.at(a, (*at, *term, *row) if op.transpose_left else (*at, *row, *term))

    def right(reading: ElementReader, at: Index, column: Index, term: Index) -> Expression:
        matrix = (*column, *term) if op.transpose_right else (*term, *column)
        return reading.at(b, (*at, *matrix))

    def coordinate(at: Index, row: Index, column: Index) -> OutputCoordinate:
        return OutputCoordinate((*at, *row, *column))

    return Contraction(batch, rows, (columns,), (terms,), left, right, coordinate)
