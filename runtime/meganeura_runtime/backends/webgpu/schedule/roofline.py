"""What a kernel has to do at least: its arithmetic, and the bytes it reads and writes."""

from collections.abc import Sequence

from meganeura_dsl.ir.cost_model import flops, size_in_bytes
from meganeura_dsl.ir.graph import Leaf, Value, by_application
from meganeura_dsl.ir.ops import Gather, Slice
from meganeura_runtime.backends.webgpu.analysis.materialize import is_contraction, is_reduction
from meganeura_runtime.backends.webgpu.analysis.recompute_cost import is_free
from meganeura_runtime.backends.webgpu.ops.attention import FlashAttentionOp
from meganeura_runtime.backends.webgpu.ops.lowered import plain
from meganeura_runtime.backends.webgpu.schedule.fusion import FusedKernel


def computed_values(one: FusedKernel) -> list[Value]:
    """Everything a kernel computes, in the order it was made; not what it reads."""
    found: dict[int, Value] = {}
    stack = [*one.work.anchors, *one.work.stores]
    while stack:
        value = stack.pop()
        if value.id not in found and value.id not in one.reads and not isinstance(value.op, Leaf):
            found[value.id] = value
            stack.extend(value.operands)
    return [found[number] for number in sorted(found)]


def kernel_flops(computed: Sequence[Value]) -> int:
    """Additions and multiplications, each op computed once: two for a product that is summed.

    Convolutions count as direct ones, whatever way they are computed.
    """
    return sum(_flops(value) for value, *_ in by_application(computed))


def _flops(value: Value) -> int:
    if not (is_contraction(value) or is_reduction(value) or not is_free(value.op)):
        return 0
    op, result = plain(value)
    operands = [operand.type for operand in value.operands]
    if isinstance(op, FlashAttentionOp):
        return op.flops(operands)
    return flops(op, operands, result)


def bytes_accessed(one: FusedKernel, computed: Sequence[Value]) -> int:
    """Bytes of the tensors read and written, each of them once; of a table, the rows looked up."""
    read: dict[int, int] = {}
    for value in computed:
        for operand in value.operands:
            if operand.id in one.reads:
                read[operand.id] = read.get(operand.id, 0) + _read_of(value, operand)
    sizes = {operand.id: size_in_bytes(operand.type) for v in computed for operand in v.operands}
    reads = sum(min(size, sizes[number]) for number, size in read.items())
    return reads + sum(size_in_bytes(value.type) for value in one.work.stores)


def _read_of(reader: Value, operand: Value) -> int:
    """What one op reads of an operand."""
    if isinstance(reader.op, Gather | Slice):
        return min(size_in_bytes(operand.type), size_in_bytes(reader.type))
    return size_in_bytes(operand.type)
