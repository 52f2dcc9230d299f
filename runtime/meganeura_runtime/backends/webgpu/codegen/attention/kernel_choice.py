"""Choice of the attentions that one kernel computes, and the distribution of their work."""

from math import prod

from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.attention.attention_tile import AttentionTile
from meganeura_runtime.backends.webgpu.codegen.attention.backward import (
    to_keys_kernel,
    to_queries_kernel,
)
from meganeura_runtime.backends.webgpu.codegen.attention.forward import forward_kernel
from meganeura_runtime.backends.webgpu.codegen.attention.scores import Heads
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import Kernel, Memory, Work
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.ops.attention import (
    FlashAttention,
    FlashAttentionBackwardKV,
    FlashAttentionBackwardQ,
)

TILE = AttentionTile(64, 64, 16, 4, 8, 16)
"""The fastest of those that were measured on an H200."""
NARROWEST, WIDEST = 32, 64
"""Widths of heads for which that is faster than the expansion."""
FEWEST = 128
"""Queries or keys below which a matrix of scores is small."""
FEWEST_SCORES = 1 << 21
"""Scores of all heads together for which a GPU is busy enough."""
ENOUGH_WORKGROUPS = 1056
"""Workgroups for which keys are processed in parts (split-KV)."""


def attention_kernel(work: Work, memory: Memory, target: Target) -> Kernel:
    """The kernel of an attention or of a gradient of one."""
    op, operands = work.anchors[0].op, work.anchors[0].operands
    match op:
        case FlashAttention():
            kernel = forward_kernel
        case FlashAttentionBackwardQ():
            kernel = to_queries_kernel
        case FlashAttentionBackwardKV():
            kernel = to_keys_kernel
        case _:
            raise TypeError(f"{op} is no attention")
    return kernel(work, memory, target, Heads(op.whole, *operands[:3]), TILE)


def is_fused(heads: Heads, target: Target, *, trains: bool) -> bool:
    """True if one kernel makes an attention.

    It does where that is faster; in training, where the expansion keeps what the gradients need,
    it is not. And it does where the scores would not fit an adapter, or a tuner found it faster.
    """
    if target.style is not Style.GPU or not _fits(heads, target.limits):
        return False
    scores = prod(heads.batch) * heads.queries * heads.keys
    if scores * DType.F32.bytes > target.limits.binding_bytes:
        return True
    if target.fusing.fuse_attention is not None:
        return target.fusing.fuse_attention
    return (
        not trains
        and min(heads.width, heads.value_width) >= NARROWEST
        and max(heads.width, heads.value_width) <= WIDEST
        and min(heads.queries, heads.keys) >= FEWEST
        and scores >= FEWEST_SCORES
    )


def _fits(heads: Heads, limits: DeviceLimits) -> bool:
    widths = heads.width, heads.value_width
    return (
        heads.q.type.dtype is DType.F32
        and 4 * TILE.words(*widths) <= limits.workgroup_bytes
        and TILE.lanes <= limits.invocations
    )


def kv_splits(heads: Heads) -> int:
    """The number of parts in which keys are processed, so that a GPU is busy."""
    groups = prod(heads.batch) * -(-heads.queries // TILE.rows)
    blocks = -(-heads.keys // TILE.columns)
    return max(1, min(ENOUGH_WORKGROUPS // groups, blocks // 4))
