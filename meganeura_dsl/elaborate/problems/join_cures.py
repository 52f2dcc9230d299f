"""Cures of a `concat` whose tensors do not fit: another axis, or what is repeated to fit."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.problems.shape_cures import side_of
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.symbolic.conditions import Compare, Condition
from meganeura_dsl.symbolic.size import Size, show
from meganeura_dsl.syntax.problems.block_text import split_top

Same = Callable[[Size, Size], bool]
_CALL = re.compile(r"concat\((?P<given>.*), *axis=(?P<axis>-?\d+)\)")


def other_axis(code: str, operands: Sequence[Tensor], same: Same) -> Help | None:
    """The axis along which tensors can be joined, if there is one, and they cannot along this."""
    found = _CALL.fullmatch(code)
    ranks = {each.type.rank for each in operands}
    if found is None or len(ranks) != 1:
        return None
    first, *others = (each.type.shape for each in operands)
    fitting = [
        axis
        for axis in range(*ranks)
        if all(
            at == axis or same(size, first[at]) for shape in others for at, size in enumerate(shape)
        )
    ]
    if len(fitting) != 1:
        return None
    words = "all other axes are one size along this one"
    return Help(words, f"concat({found['given']}, axis={fitting[0]})")


def claims_of(code: str, operands: Sequence[Tensor]) -> list[Condition]:
    """The equalities of sizes that a `concat` needs; none for another call."""
    found = _CALL.fullmatch(" ".join(code.split()))
    ranks = {each.type.rank for each in operands}
    if found is None or len(ranks) != 1:
        return []
    first, *others = (each.type.shape for each in operands)
    along = int(found["axis"]) % len(first)
    return [
        Compare("==", first[axis], shape[axis])
        for shape in others
        for axis in range(len(first))
        if axis != along
    ]


def stretched(code: str, operands: Sequence[Tensor], same: Same) -> Help | None:
    """A `concat` in which what has size 1 along other axes is repeated, if all axes then fit."""
    found = _CALL.fullmatch(code)
    given = split_top(found["given"]) if found else []
    if found is None or len(given) != len(operands) or len({e.type.rank for e in operands}) != 1:
        return None
    along = int(found["axis"]) % operands[0].type.rank
    wide = list(operands[0].type.shape)
    for each in operands[1:]:
        for axis, size in enumerate(each.type.shape):
            if axis != along and wide[axis] == 1:
                wide[axis] = size
    joined, repeated = list[str](), ""
    for written, each in zip(given, operands, strict=True):
        shape = each.type.shape
        wanted = [shape[at] if at == along else size for at, size in enumerate(wide)]
        if all(map(same, shape, wanted)):
            joined.append(written)
            continue
        fits = all(size == 1 or same(size, to) for size, to in zip(shape, wanted, strict=True))
        moved = side_of(written, shape).moved("expand", [*map(show, wanted)]) if fits else None
        if moved is None:
            return None
        joined.append(moved)
        repeated = written
    if not repeated:
        return None
    text = f"an axis of size 1 is never stretched: repeat `{repeated}`"
    return Help(text, f"concat({', '.join(joined)}, axis={found['axis']})")


def of_ranks(code: str, operands: Sequence[Tensor]) -> Help | None:
    """A `concat` in which what has fewer axes is repeated along those that it lacks.

    None unless its axes are some of those of the tensor with the most, in one reading.
    """
    found = _CALL.fullmatch(code)
    given = split_top(found["given"]) if found else []
    if found is None or len(given) != len(operands):
        return None
    whole = max(operands, key=lambda each: each.type.rank)
    around = [*map(show, whole.type.shape)]
    joined, repeated = list[str](), list[str]()
    for written, each in zip(given, operands, strict=True):
        axes = [*map(show, each.type.shape)]
        if len(axes) == len(around):
            joined.append(written)
            continue
        fitting = list(_with_axes(axes, around, int(found["axis"]) % len(around)))
        moved = side_of(written, each.type.shape).moved("expand", fitting[0]) if fitting else None
        if moved is None or len(fitting) > 1:
            return None
        joined.append(moved)
        repeated.append(f"`{written}`")
    words = f"repeat {' and '.join(repeated)} along the axes that it lacks"
    return Help(words, f"concat({', '.join(joined)}, axis={found['axis']})")


def _with_axes(axes: Sequence[str], around: Sequence[str], along: int) -> Iterator[list[str]]:
    """The axes with some of those of `around` added, if all but `along` are then the same."""
    places = range(len(around))
    for added in combinations([at for at in places if at != along], len(around) - len(axes)):
        rest = iter(axes)
        full = [around[at] if at in added else next(rest) for at in places]
        if all(full[at] == around[at] for at in places if at != along):
            yield full
