"""Notes on masks of an attention that let through what is hidden elsewhere."""

from collections.abc import Iterator

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.problems.meaning_notes import MaskTurned
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.value_facts import Applied
from meganeura_dsl.elaborate.typecheck import value_origins as origins
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import Size

Axes = tuple[int, ...]
"""The axis of the mask that each axis of a value is."""

_QUERIES, _KEYS = 2, 3
_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_SEEN = {
    "lt": "each query sees only the keys after it, and the last one sees none",
    "le": "each query sees only itself and the keys after it",
    "gt": "each query sees only the keys before it, and the first one sees none",
}
"""The effect of a mask that is true where a query's position is in a relation to a key's."""


def of_mask(frame: Frame, applied: Applied) -> Iterator[MaskTurned]:
    """The notes on a mask that is true where a key comes later, or where it is padding.

    A mask is followed through `and` and `not`, so what is found holds wherever it is true.
    """
    masks = applied.operands[3:4]
    if not masks or masks[0].type.dtype is not DType.BOOL or masks[0].type.rank != 4:
        return
    for value, axes, holds in _required(masks[0], (0, 1, 2, 3), holds=True):
        assert isinstance(value.op, ops.Compare)
        kind = value.op.kind if holds else _OPPOSITE[value.op.kind]
        seen = _SEEN.get(_between_positions(value, kind, axes) or "")
        if seen is not None:
            yield MaskTurned(
                frame.location(applied.span),
                f"with this mask {seen}",
                "a mask is true where a query may look",
                Help(
                    "true where the position of the query is at least that of the key hides what "
                    "comes later;\n`causal=true` does it without a mask"
                ),
            )
        padding = _padding(frame, value, kind, axes)
        if padding is not None:
            name, number = padding
            yield MaskTurned(
                frame.location(applied.span),
                "with this mask each query sees only padding",
                f"it is true where `{name}` is {number}, the padding of an `embedding`",
                Help("a mask is true where a query may look", f"{name} != {number}"),
            )


def _required(value: Tensor, axes: Axes, *, holds: bool) -> Iterator[tuple[Tensor, Axes, bool]]:
    """The comparisons that have to hold, or not to hold, wherever a value is `holds`."""
    match value.op:
        case ops.Broadcast(axes=to):
            yield from _required(value.operands[0], tuple(axes[at] for at in to), holds=holds)
        case ops.Where():
            chosen, yes, no = value.operands
            if origins.is_number(yes, 0) and origins.is_number(no, 1):
                yield from _required(chosen, axes, holds=not holds)
            elif holds and origins.is_number(no, 0):
                yield from _required(chosen, axes, holds=True)
                yield from _required(yes, axes, holds=True)
            elif not holds and origins.is_number(yes, 1):
                yield from _required(chosen, axes, holds=False)
                yield from _required(no, axes, holds=False)
        case ops.Compare():
            yield value, axes, holds
        case _:
            pass


def _between_positions(value: Tensor, kind: str, axes: Axes) -> str | None:
    """The relation of a query's position to a key's, if both are counted from 0 to one size."""
    left, right = (_counted(each, axes) for each in value.operands)
    if left is None or right is None or left[1] != right[1]:
        return None
    if (left[0], right[0]) == (_QUERIES, _KEYS):
        return kind
    return _MIRRORED.get(kind) if (left[0], right[0]) == (_KEYS, _QUERIES) else None


def _counted(value: Tensor, axes: Axes) -> tuple[int, Size] | None:
    """The axis of the mask along which a value is 0, 1, ..., and how many there are."""
    match value.op:
        case ops.Broadcast(axes=to):
            return _counted(value.operands[0], tuple(axes[at] for at in to))
        case ops.Cast():
            return _counted(value.operands[0], axes)
        case ops.Iota(size=size):
            return axes[0], size
        case _:
            return None


def _padding(frame: Frame, value: Tensor, kind: str, axes: Axes) -> tuple[str, int] | None:
    """The ids that a mask compares with the padding of their embedding, and its number."""
    ids, number = value.operands
    if kind != "eq" or not isinstance(ids.op, ops.Input) or axes[-1:] != (_KEYS,):
        return None
    for each in filter(None, map(frame.state.values.layer_of, frame.build.values)):
        padding = each.config.get("padding", -1)
        if each.layer != "embedding" or each.operands[:1] != (ids,):
            continue
        if isinstance(padding, int) and padding >= 0 and origins.is_number(number, padding):
            return ids.op.name, padding
    return None
