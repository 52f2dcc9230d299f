"""Matrix-vector products as reductions: there is no reuse between rows or columns.

Each element of a matrix is read once, so tiles gain nothing. What counts is that many lanes read
neighbours, and row reductions do. As sums such products also share kernels as sums do: the
projections of one vector, and what is computed of them.
"""

from math import prod

from meganeura_dsl.ir.graph import Builder, Graph, Value, rebuild
from meganeura_dsl.ir.ops import MatMul, Mul, Reshape, Sum
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.codegen.kernels.row_reduction_kernel import FEWEST_TERMS
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import named_contraction
from meganeura_runtime.backends.webgpu.config.limits import Style, Target


def matvec_to_reduction(graph: Graph, target: Target) -> Graph:
    """The graph with each product of one row, or of one column, a sum over products; on a GPU."""
    if target.style is not Style.GPU:
        return graph
    build = Builder()

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        if isinstance(value.op, MatMul) and _is_matvec(value.op, *operands, target=target):
            return _reduction(build, value.op, *operands, result=concrete_shape(value.type.shape))
        return build.reapply(value, *operands)

    return rebuild(graph, build, change)


def _is_matvec(op: MatMul, a: Value, b: Value, *, target: Target) -> bool:
    """True if one factor is a vector, long enough for a workgroup, and nobody chose otherwise."""
    whole = named_contraction(op, a, b)
    is_vector = 1 in (prod(whole.rows), prod(whole.columns))
    return is_vector and whole.count >= FEWEST_TERMS and whole.name not in target.configs


def _reduction(build: Builder, op: MatMul, a: Value, b: Value, result: tuple[int, ...]) -> Value:
    """The sum over the terms of vector times matrix, for each row or column of the matrix."""
    left, right = concrete_shape(a.type.shape), concrete_shape(b.type.shape)
    if len(right) == 2 and len(left) != 2:
        left = (prod(left[:-1]), left[-1])
        a = build.add(Reshape(left), a)
    *batch, rows, terms = left
    if op.transpose_left:
        rows, terms = terms, rows
    if rows == 1:
        vector, matrix, contiguous = a, b, op.transpose_right
    else:
        vector, matrix, contiguous = b, a, not op.transpose_left
    axis = len(batch) + contiguous
    vector = build.add(Reshape((*batch, terms)), vector)
    repeated = Broadcast(matrix.type.shape, (*range(len(batch)), axis))
    products = build.add(Mul(), matrix, build.add(repeated, vector))
    return build.add(Reshape(result), build.add(Sum((axis,)), products))
