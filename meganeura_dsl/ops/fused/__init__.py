"""The second tier: fused ops, which the optimizer introduces and a user never writes."""

from meganeura_dsl.graph.core import Op

FUSED_OPS: tuple[type[Op], ...] = ()
