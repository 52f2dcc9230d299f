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
MATRIX_TILE = AttentionTile(64, 64, 16, 4, 8, 64)
MATRIX_GRADIENT_TILE = AttentionTile(64, 32, 16, 4, 4, 32)
"""The same of matrix units, which publish the weights of a whole block at once.

Both tiles of gradients' rows leave no room for 64 columns.
"""
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
    forward, backward = tiles_of(target.limits)
    match op:
        case FlashAttention():
            kernel, tile = forward_kernel, forward
        case FlashAttentionBackwardQ():
            kernel, tile = to_queries_kernel, backward
        case FlashAttentionBackwardKV():
            kernel, tile = to_keys_kernel, backward
        case _:
            raise TypeError(f"{op} is no attention")
    return kernel(work, memory, target, Heads(op.whole, *operands[:3]), tile)


def tiles_of(limits: DeviceLimits) -> tuple[AttentionTile, AttentionTile]:
    """The tiles of attention and of its gradients."""
    return (TILE, TILE) if limits.matrix_units is None else (MATRIX_TILE, MATRIX_GRADIENT_TILE)


def is_fused(heads: Heads, target: Target, *, trains: bool) -> bool:
    """True if one kernel makes an attention.

    It does where that is faster. In training, where the expansion keeps what the gradients need,
    it is so on matrix units alone. And it does where the scores would not fit an adapter, or a
    tuner found it faster.
    """
    if target.style is not Style.GPU or not _fits(heads, target.limits):
        return False
    scores = prod(heads.batch) * heads.queries * heads.keys
    if scores * DType.F32.bytes > target.limits.binding_bytes:
        return True
    if target.fusing.fuse_attention is not None:
        return target.fusing.fuse_attention
    return (
        (target.limits.matrix_units is not None or not trains)
        and min(heads.width, heads.value_width) >= NARROWEST
        and max(heads.width, heads.value_width) <= WIDEST
        and min(heads.queries, heads.keys) >= FEWEST
        and scores >= FEWEST_SCORES
    )


def _fits(heads: Heads, limits: DeviceLimits) -> bool:
    widths = heads.width, heads.value_width
    tiles = tiles_of(limits)
    lanes = max(tile.lanes for tile in tiles)
    if heads.q.type.dtype is not DType.F32 or lanes > limits.invocations:
        return False
    if limits.matrix_units is None:
        return 4 * TILE.words(*widths) <= limits.workgroup_bytes
    side = limits.matrix_units.side
    rows = (heads.width,), widths
    needed = (tile.matrix_bytes(side, each, widths) for tile, each in zip(tiles, rows, strict=True))
    return max(needed) <= limits.workgroup_bytes


def kv_splits(heads: Heads, limits: DeviceLimits) -> int:
    """The number of parts in which keys are processed, so that a GPU is busy."""
    tile, _ = tiles_of(limits)
    groups = prod(heads.batch) * -(-heads.queries // tile.rows)
    blocks = -(-heads.keys // tile.columns)
    return max(1, min(ENOUGH_WORKGROUPS // groups, blocks // 4))
