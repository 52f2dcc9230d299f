"""Base of fused ops: each has an expansion into primitives."""

from collections.abc import Sequence

from meganeura_dsl.ir.graph import Builder, Op, Value
from meganeura_dsl.ir.traits import ElementCost


class Fused(Op, abstract=True):
    """An op that the optimizer alone introduces, for a kernel that does several ops' work.

    Its reference and its gradient are written for themselves and tested against the expansion.
    What a gradient is made of has no gradient of its own: differentiate before optimizing.
    """

    element_cost = ElementCost.LOAD
    """It is stored by its own kernel, or expanded before anyone asks."""

    @classmethod
    def require_declared(cls) -> None:
        super().require_declared()
        counts = cls.flops is not Op.flops or cls.flops_per_element != Op.flops_per_element
        if cls.expand is Fused.expand or not counts:
            raise TypeError(
                f"the fused op `{cls.__name__}` does not declare `expand` and `flops_per_element`"
            )

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value | tuple[Value, ...]:
        """The same result, or results, in primitives, for a device without a kernel for this op."""
        raise NotImplementedError

    def expand_all(self, build: Builder, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Each result in primitives."""
        expanded = self.expand(build, operands)
        return expanded if isinstance(expanded, tuple) else (expanded,)
