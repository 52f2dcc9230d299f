"""Reads any element of any value: from memory, from a finished sum, or by computing it in place."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.codegen.lowering import (
    elementwise,
    leaf,
    movement,
    pool,
    quantized,
)
from meganeura_runtime.backends.webgpu.codegen.lowering import gather_scatter as index
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import Expression, Index, ravel
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import ElementReader, Expressions

Read: TypeAlias = Callable[[ElementReader, Value, Index], Expression]

READS: Mapping[type[Op], Read] = {
    **dict.fromkeys(elementwise.OPS, elementwise.read),
    **dict.fromkeys(movement.OPS, movement.read),
    **dict.fromkeys(leaf.OPS, leaf.read),
    **dict.fromkeys(index.READS, index.read),
    **dict.fromkeys(pool.READS, pool.read),
    **dict.fromkeys(quantized.OPS, quantized.read),
}
"""Ops that are computed wherever they are read, and stored only where that is cheaper."""


class ElementInliner:
    """Reads elements within one kernel.

    `stored` says which tensor a value lies in; `registers` names the variables of this kernel that
    hold, at the element it is at, what it has just reduced.
    """

    def __init__(
        self,
        make: Expressions,
        stored: Mapping[int, int],
        registers: Mapping[int, str] | None = None,
    ) -> None:
        self._make = make
        self._stored = stored
        self._registers = registers or {}
        self._known: dict[tuple[int, Index], Expression] = {}

    @property
    def make(self) -> Expressions:
        """The factory of expressions."""
        return self._make

    def at(self, value: Value, index: Index) -> Expression:
        """The element of `value` at `index`."""
        key = value.id, index
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._read(value, index)
        return known

    def _read(self, value: Value, index: Index) -> Expression:
        register = self._registers.get(value.id)
        if register is not None:
            return self._make.register(register, value.type.dtype)
        tensor = self._stored.get(value.id)
        if tensor is None:
            return READS[type(value.op)](self, value, index)
        position = ravel(index, concrete_shape(value.type.shape))
        return self._make.load(tensor, position, value.type.dtype)
