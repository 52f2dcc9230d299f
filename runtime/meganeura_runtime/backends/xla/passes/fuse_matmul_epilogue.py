"""Products that cuBLASLt finishes: it adds a bias and takes the approximate gelu before it rounds.

XLA gives it both where they are computed in the type of the product. Otherwise a kernel behind
reads what is stored in bfloat16 and writes the gelu: an inference of GPT-2, 4 x 512 tokens, takes
1.28 ms on an H200 instead of 1.37.
"""

from meganeura_dsl.ir.graph import Builder, Graph, Value, rebuild
from meganeura_dsl.ir.ops.fused.contraction import FusedMatMul
from meganeura_runtime.backends.xla.ops.matmul import LibraryMatMul


def with_finished_products(graph: Graph) -> Graph:
    """The same inference, where such products of rows and a matrix are one op."""
    build = Builder()

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        op = value.op
        if isinstance(op, FusedMatMul) and _is_finished(op, operands):
            return build.add(LibraryMatMul(op), *operands)
        return build.reapply(value, *operands)

    return rebuild(graph, build, change)


def _is_finished(op: FusedMatMul, operands: tuple[Value, ...]) -> bool:
    _, b, _, *residual = operands
    is_of_rows = b.type.rank == 2 and not op.transpose_left
    return is_of_rows and op.epilogue == "gelu_tanh" and not residual
