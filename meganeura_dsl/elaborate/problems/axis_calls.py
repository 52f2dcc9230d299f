"""Cures of calls that lay out axes, where another place or order of the same axes fits.

Such are `rearrange`, `insert_axis` and `expand`. Each cure is code that the reader may write; none
is an edit, as it changes what the program computes.
"""

import re
from collections.abc import Callable, Sequence
from itertools import permutations

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.symbolic.size import Size
from meganeura_dsl.syntax.problems.block_text import split_top

Same = Callable[[Size, Size], bool]
Wanted = Sequence[Size | None]
"""The sizes of the axes that a place takes; None for one that may have any size."""

_MOVED = re.compile(r"rearrange\((?:(?P<value>.+), )?\[[^\]]*\] -> \[[^\]]*\]\)")
_EXPANDED = re.compile(
    r"expand\((?P<value>.*?)(?P<source>\[[^\]]*\]) -> \[(?P<target>[^\]*.]*)\]\)"
)


def other_layout(value: Tensor, wanted: Wanted, same: Same) -> Help | None:
    """The call that laid out the axes of a value, written so that it has the wanted shape.

    None unless one call did, and one place or order alone gives the shape.
    """
    span = value.origin.span
    if span is None or len(wanted) != value.type.rank:
        return None
    code = " ".join(span.text.split())

    def fits(shape: Sequence[Size]) -> bool:
        pairs = zip(shape, wanted, strict=True)
        return all(to is None or same(size, to) for size, to in pairs)

    if fits(value.type.shape):
        return None
    return (
        _left_out(value, code, fits) or _inserted(value, code, fits) or _ordered(value, code, fits)
    )


def _left_out(value: Tensor, code: str, fits: Callable[[Sequence[Size]], bool]) -> Help | None:
    """The value that a `rearrange` moved, if it fits as it was before."""
    found = _MOVED.fullmatch(code)
    if found is None or not isinstance(value.op, ops.Transpose):
        return None
    if not fits(value.operands[0].type.shape):
        return None
    return Help("it fits as it was: leave this `rearrange` out", found["value"])


def _inserted(value: Tensor, code: str, fits: Callable[[Sequence[Size]], bool]) -> Help | None:
    """An `insert_axis` at another place."""
    found = re.fullmatch(r"insert_axis\((.*)\)", code)
    given = split_top(found[1]) if found else []
    if len(given) != 3 or not given[1].isdecimal():
        return None
    place, shape = int(given[1]), value.type.shape
    rest = (*shape[:place], *shape[place + 1 :])
    fitting = [
        at
        for at in range(len(shape))
        if at != place and fits((*rest[:at], shape[place], *rest[at:]))
    ]
    if len(fitting) != 1:
        return None
    text = f"the axis is inserted at {place}, and fits at {fitting[0]}"
    return Help(text, f"insert_axis({given[0]}, {fitting[0]}, {given[2]})")


def _ordered(value: Tensor, code: str, fits: Callable[[Sequence[Size]], bool]) -> Help | None:
    """An `expand` whose new axes are in another order; those of its source keep theirs."""
    found = _EXPANDED.fullmatch(code)
    target = split_top(found["target"]) if found else []
    if found is None or len(target) != value.type.rank or len(target) > 5:
        return None
    source = [each for each in split_top(found["source"][1:-1]) if each in target]
    orders = {
        tuple(target[at] for at in order)
        for order in permutations(range(len(target)))
        if [target[at] for at in order if target[at] in source] == source
        and fits([value.type.shape[at] for at in order])
    }
    if len(orders) != 1:
        return None
    text = "its axes are in another order: repeat it along them in that of the others"
    return Help(text, f"expand({found['value']}{found['source']} -> [{', '.join(*orders)}])")
