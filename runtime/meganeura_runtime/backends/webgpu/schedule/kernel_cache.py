"""A cache of kernels: a deep network is mostly one layer repeated.

Two pieces of work share a kernel if they compute the same ops of the same types in the same order
from tensors that are bound and read in the same way. Where the tensors lie is no part of it.
"""

from collections.abc import Callable, Hashable, Sequence

from meganeura_dsl.ir.graph import Value
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import Kernel, Memory, Work

Write = Callable[[Work, Memory], Kernel]


class KernelCache:
    """Writes kernels, and remembers what it has written."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._written: dict[Hashable, Kernel] = {}

    def kernel(self, work: Work, computed: Sequence[Value], memory: Memory) -> Kernel:
        """The kernel for a piece of work that computes these values, in the order they are made."""
        tensors = _tensors(work, computed, memory)
        form = _form(work, computed, memory, tensors)
        known = self._written.get(form)
        if known is None:
            built = self._write(work, memory)
            numbers = {tensor: number for number, tensor in enumerate(tensors)}
            positions = tuple(numbers[tensor] for tensor in built.tensors)
            known = self._written[form] = Kernel(built.shader, positions, built.workgroups)
        return Kernel(known.shader, tuple(tensors[n] for n in known.tensors), known.workgroups)


def _tensors(work: Work, computed: Sequence[Value], memory: Memory) -> list[int]:
    """The tensors read or written, each once, in an order that the form of the work decides."""
    inside = {value.id for value in computed}
    operands = (operand for value in computed for operand in value.operands)
    read = (memory.tensors[one.id] for one in operands if one.id not in inside)
    written = (memory.tensors[value.id] for value in work.stores)
    return list(dict.fromkeys((*read, *written)))


def _form(
    work: Work, computed: Sequence[Value], memory: Memory, tensors: Sequence[int]
) -> Hashable:
    """All that a kernel depends on."""
    names: dict[int, tuple[str, int]] = {}
    for number, value in enumerate(computed):
        names[value.id] = ("computed", number)
    numbers = {tensor: number for number, tensor in enumerate(tensors)}

    def name(operand: Value) -> Hashable:
        if operand.id in names:
            return names[operand.id]
        return "read", numbers[memory.tensors[operand.id]], operand.type

    return (
        tuple(
            (value.op, value.index, value.type, tuple(name(operand) for operand in value.operands))
            for value in computed
        ),
        tuple(names[anchor.id] for anchor in work.anchors),
        tuple((names[value.id], numbers[memory.tensors[value.id]]) for value in work.stores),
        tuple(
            (memory.access(tensor), memory.bytes(tensor), tensor in memory.halves)
            for tensor in tensors
        ),
    )
