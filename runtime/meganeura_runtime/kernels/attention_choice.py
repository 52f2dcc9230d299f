"""Which attentions are made by one kernel, and how their work is shared out."""

from math import prod

from meganeura_dsl.shapes.tensor import DType
from meganeura_runtime.kernels.attention_scores import Heads
from meganeura_runtime.kernels.attention_tile import AttentionTile
from meganeura_runtime.kernels.limits import Style, Target

SQUARE = AttentionTile(64, 64, 16, 8, 8)
FEWEST = 1 << 30
"""Queries or keys below which a matrix of scores is small."""
ENOUGH_WORKGROUPS = 528


def tile_of(heads: Heads, target: Target) -> AttentionTile | None:
    """The tile that attention is made with; none where its expansion is expected to be faster."""
    if target.style is not Style.GPU or heads.q.type.dtype is not DType.F32:
        return None
    if min(heads.queries, heads.keys) < FEWEST:
        return None
    tile = SQUARE
    if 4 * tile.words(heads.width, heads.value_width) > target.limits.workgroup_bytes:
        return None
    return tile


def parts_of(heads: Heads, tile: AttentionTile) -> int:
    """In how many parts the keys are looked at, so that a GPU is busy."""
    groups = prod(heads.batch) * -(-heads.queries // tile.rows)
    blocks = -(-heads.keys // tile.columns)
    return max(1, min(ENOUGH_WORKGROUPS // groups, blocks // 4))
