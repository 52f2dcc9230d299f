"""Which attentions are made by one kernel, and how their work is shared out."""

from math import prod

from meganeura_dsl.shapes.tensor import DType
from meganeura_runtime.kernels.attention import forward_kernel
from meganeura_runtime.kernels.attention_gradient import to_keys_kernel, to_queries_kernel
from meganeura_runtime.kernels.attention_scores import Heads
from meganeura_runtime.kernels.attention_tile import AttentionTile
from meganeura_runtime.kernels.kernel import Kernel, Memory, Work
from meganeura_runtime.kernels.limits import Style, Target
from meganeura_runtime.kernels.ops.attention import (
    Attend,
    AttendBack,
    AttendInParts,
    AttendToQueries,
)

SQUARE = AttentionTile(64, 64, 16, 8, 8, 16)
FLAT = AttentionTile(64, 64, 16, 8, 4, 16)
FORWARD = (SQUARE,)
BACKWARD = (FLAT,)
FEWEST = 1 << 30
"""Queries or keys below which a matrix of scores is small."""
ENOUGH_WORKGROUPS = 528
"""Workgroups that keep a large GPU busy."""


def attention_kernel(work: Work, memory: Memory, target: Target) -> Kernel:
    """The kernel of an attention or of a gradient of one."""
    op, operands = work.anchors[0].op, work.anchors[0].operands
    if not isinstance(op, Attend | AttendInParts | AttendBack | AttendToQueries):
        raise TypeError(f"{op} is no attention")
    heads = Heads(op.whole, *operands[:3])
    forward = isinstance(op, Attend | AttendInParts)
    tile = forward_tile(heads, target) if forward else backward_tile(heads, target)
    if tile is None:
        raise ValueError(f"no tile of {op} fits the adapter")
    match op:
        case Attend() | AttendInParts():
            return forward_kernel(work, memory, target, heads, tile)
        case AttendToQueries():
            return to_queries_kernel(work, memory, target, heads, tile)
        case AttendBack():
            return to_keys_kernel(work, memory, target, heads, tile)


def forward_tile(heads: Heads, target: Target) -> AttentionTile | None:
    """The tile that attention is made with; none where its expansion is expected to be faster."""
    return _tile(FORWARD, heads, target)


def backward_tile(heads: Heads, target: Target) -> AttentionTile | None:
    """The same for the gradients."""
    return _tile(BACKWARD, heads, target)


def _tile(tiles: tuple[AttentionTile, ...], heads: Heads, target: Target) -> AttentionTile | None:
    limits = target.limits
    if target.style is not Style.GPU or heads.q.type.dtype is not DType.F32:
        return None
    if min(heads.queries, heads.keys) < FEWEST:
        return None
    widths = heads.width, heads.value_width
    return next(
        (
            tile
            for tile in tiles
            if 4 * tile.words(*widths) <= limits.workgroup_bytes
            and tile.lanes <= limits.invocations
        ),
        None,
    )


def parts_of(heads: Heads, tile: AttentionTile) -> int:
    """In how many parts the keys are looked at, so that a GPU is busy."""
    groups = prod(heads.batch) * -(-heads.queries // tile.rows)
    blocks = -(-heads.keys // tile.columns)
    return max(1, min(ENOUGH_WORKGROUPS // groups, blocks // 4))
