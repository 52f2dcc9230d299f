"""Roofline numbers of a kernel: the arithmetic and the bytes moved that it needs at least."""

from collections.abc import Sequence

from meganeura_dsl.ir.graph import Leaf, Value, by_application
from meganeura_dsl.ir.types import size_in_bytes
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import Memory
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
    return sum(
        value.op.flops([operand.type for operand in value.operands], value.type)
        for value, *_ in by_application(computed)
    )


def bytes_accessed(one: FusedKernel, computed: Sequence[Value], memory: Memory) -> int:
    """Bytes of the tensors read and written, each of them once; of a table, the rows looked up."""
    read: dict[int, int] = {}
    for value in computed:
        for operand in value.operands:
            if operand.id in one.reads:
                read[operand.id] = read.get(operand.id, 0) + value.op.bytes_read(
                    memory.type_of(operand), value.type
                )
    sizes = {
        operand.id: size_in_bytes(memory.type_of(operand))
        for value in computed
        for operand in value.operands
    }
    reads = sum(min(size, sizes[number]) for number, size in read.items())
    return reads + sum(size_in_bytes(memory.type_of(value)) for value in one.work.stores)
