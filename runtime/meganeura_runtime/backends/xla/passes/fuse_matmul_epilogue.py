"""Fusion of a bias and the approximate gelu into a matrix product, as an epilogue of cuBLASLt.

XLA passes both to cuBLASLt if they are computed in the type of the product.
"""

from meganeura_dsl.ir.graph import Builder, Graph, Value, rebuild
from meganeura_dsl.ir.ops.fused.contraction import FusedMatMul
from meganeura_runtime.backends.xla.ops.matmul import LibraryMatMul


def fuse_matmul_epilogue(graph: Graph) -> Graph:
    """Returns the graph with each such product of rows and a matrix as one `LibraryMatMul`."""
    build = Builder()

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        op = value.op
        if isinstance(op, FusedMatMul) and _has_epilogue(op, operands):
            return build.add(LibraryMatMul(op), *operands)
        return build.reapply(value, *operands)

    return rebuild(graph, build, change)


def _has_epilogue(op: FusedMatMul, operands: tuple[Value, ...]) -> bool:
    _, b, _, *residual = operands
    is_of_rows = b.type.rank == 2 and not op.transpose_left
    return is_of_rows and op.epilogue == "gelu_tanh" and not residual
