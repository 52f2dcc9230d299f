"""The ops that this backend lowers, as the registry of backends lists them."""

from meganeura_dsl.ir.graph import Leaf, Op
from meganeura_dsl.ir.ops import OPS
from meganeura_runtime.backends.op_support import OpSupport
from meganeura_runtime.backends.xla.lowering.table import LOWERED

LEAVES: tuple[type[Op], ...] = tuple(op for op in OPS if issubclass(op, Leaf))

SUPPORT = OpSupport("xla", frozenset((*LEAVES, *LOWERED)))
"""Every primitive. Other ops expand but for a few: XLA fuses their parts itself."""
