"""Cures of axes that one layer splits and the next one joins: heads, and maps behind `linear`."""

import re

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.problems.origin_cures import main_operand
from meganeura_dsl.elaborate.problems.result_cures import was_split
from meganeura_dsl.elaborate.problems.window_cures import SourceOf
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.symbolic.size import show

_LINEAR = re.compile(r"(?:[\w.\[\]{}]+:\s*)?linear\((?P<width>[^()]*)\)")
_MAPS = re.compile(r"(?:conv|conv_transpose|max_pool|avg_pool|upsample)\w*")


def unmerged_cure(larger: Tensor, smaller: Tensor, source_of: SourceOf) -> Help | None:
    """Returns the cure that joins heads before the `linear` that came behind attention.

    None unless the larger side has one axis more, at 1, which was split off from another.
    """
    shape, axes = larger.type.shape, [show(size) for size in larger.type.shape]
    if larger.type.rank != 4 or [axes[0], *axes[2:]] != [show(size) for size in smaller.type.shape]:
        return None
    if not all(each.isidentifier() for each in axes[:3]):
        return None
    value, call = larger, ""
    while not call:
        applied = source_of(value)
        span = value.origin.span if applied is None else applied.span
        before = main_operand(value, source_of)
        if before is None or before.type.shape[:3] != shape[:3]:
            return None
        text = "" if span is None else " ".join(span.text.split())
        call = text if _LINEAR.fullmatch(text) and before.type.shape != shape else ""
        value = before
    if not was_split(value, axes[1]):
        return None
    n, heads, steps, _ = axes
    width = next(each for each in ("hd", "e", "k", "width") if each not in axes)
    pattern = f"[{n}, {heads}, {steps}, {width}] -> [{n}, {steps}, {heads} * {width}]"
    text = f"`{heads}` was split off and is not joined again: do so before `{call}`"
    return Help(text, f"rearrange({pattern}) |> {call}")


def map_cure(block: str, call: str, value: Tensor) -> Help | None:
    """Returns the cure that makes maps of what `linear(8 * 4 * 4)` gave to a layer of pictures."""
    if _MAPS.fullmatch(block) is None or value.type.rank != 2:
        return None
    made: Tensor | None = value
    while made is not None and made.type.shape == value.type.shape:
        text = "" if made.origin.span is None else " ".join(made.origin.span.text.split())
        found = _LINEAR.fullmatch(text)
        factors = re.split(r"\s*\*\s*", found["width"]) if found is not None else []
        if len(factors) == 3 and all(re.fullmatch(r"\w+", each) for each in factors):
            n = show(value.type.shape[0])
            pattern = f"[{n}, {' * '.join(factors)}] -> [{n}, {', '.join(factors)}]"
            written = " ".join(call.split())
            return Help("split it into maps again", f"rearrange({pattern}) |> {written}")
        made = main_operand(made)
    return None
