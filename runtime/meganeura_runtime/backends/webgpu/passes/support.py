"""The op support of this backend: ops with kernels, and ops that are lowered first."""

from meganeura_dsl.ir.graph import Leaf, Op
from meganeura_dsl.ir.ops import OPS, Scan
from meganeura_runtime.backends.op_support import OpSupport
from meganeura_runtime.backends.webgpu.codegen.kernels.reduction_kernel import REDUCTIONS
from meganeura_runtime.backends.webgpu.codegen.lowering.element_inliner import READS
from meganeura_runtime.backends.webgpu.codegen.lowering.winograd import TRANSFORMS
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import CONTRACTIONS
from meganeura_runtime.backends.webgpu.passes.legalize import REWRITTEN

LEAVES: tuple[type[Op], ...] = tuple(op for op in OPS if issubclass(op, Leaf))

SUPPORT = OpSupport(
    "wgpu",
    frozenset((*LEAVES, *READS, *REDUCTIONS, *CONTRACTIONS, *TRANSFORMS, Scan)),
    frozenset(REWRITTEN),
)
"""Attention is lowered: `fuse_attention` makes it ops of this backend, or it expands."""
