"""Cures for two shapes that differ: code in the names of the program, if it is exact.

A cure moves, adds or drops axes of one side. It never says that two sizes are equal.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.symbolic.size import show

LONGEST = 60
"""Characters of an operand that is written out in a cure."""


@dataclass(frozen=True)
class Side:
    """An operand: how it is written, and its axes as they are shown."""

    name: str
    axes: tuple[str, ...]

    @property
    def written(self) -> str:
        """The operand in a call, or dots if it is too long."""
        return self.name if len(self.name) <= LONGEST and "\n" not in self.name else "..."

    def moved(self, function: str, axes: Sequence[str]) -> str | None:
        """`expand(s, [n, c] -> [n, c, h, w])`, if all axes can be written in a pattern."""
        if not all_written((*self.axes, *axes)):
            return None
        return f"{function}({self.written}, {_pattern(self.axes)} -> {_pattern(axes)})"


def side_of(name: str, shape: Shape) -> Side:
    """An operand of some shape."""
    return Side(name, tuple(map(show, shape)))


def elementwise_cure(left: Side, right: Side, known: Collection[str]) -> Help | None:
    """Returns the cure that gives both sides of an operator one shape, by the names in scope.

    None if no axes of one are those of the other.
    """
    larger, smaller = (left, right) if len(left.axes) >= len(right.axes) else (right, left)
    if len(larger.axes) == len(smaller.axes):
        return _of_one_rank(left, right)
    if tuple(axis for axis in larger.axes if axis != "1") == smaller.axes:
        code = larger.moved("rearrange", smaller.axes)
        return (
            None if code is None else Help(f"drop the axis of size 1 of `{larger.written}`", code)
        )
    stretched = _stretched(larger, smaller, known)
    if stretched is not None:
        return stretched
    added = _added(larger.axes, smaller.axes)
    if added is None or not _can_add(added, smaller.axes, known):
        return None
    code = smaller.moved("expand", larger.axes)
    named = [axis for axis in added if not axis.isdecimal()]
    along = " and ".join(f"`{axis}`" for axis in named) if named == added else "the other axes"
    return None if code is None else Help(f"repeat `{smaller.written}` along {along}", code)


def other_axis_cure(written: str, axes: Sequence[str], fitting: Sequence[int]) -> Help | None:
    """Returns the cure for a part of an axis that lies within one other axis for every size."""
    if len(fitting) != 1 or "\n" in written:
        return None
    (place,) = fitting
    entry = ", ".join([*(":" for _ in range(place)), written])
    return Help(f"it is within axis {place}, which has {axes[place]}: take it there", f"[{entry}]")


def expansion_cure(given: Side, wanted: Sequence[str], known: Collection[str]) -> Help | None:
    """Returns the cure that adds the axes that an input declares, if only such are missing."""
    return elementwise_cure(Side("", tuple(wanted)), given, known) if given.axes else None


def _stretched(larger: Side, smaller: Side, known: Collection[str]) -> Help | None:
    """The side of fewer axes with those of size 1 repeated, and the missing ones added."""
    kept = [axis for axis in smaller.axes if axis != "1"]
    added = _added(larger.axes, kept)
    if len(kept) == len(smaller.axes) or added is None or not _can_add(added, kept, known):
        return None
    code = smaller.moved("expand", larger.axes)
    text = f"an axis of size 1 is never stretched: repeat `{smaller.written}`"
    return None if code is None else Help(text, code)


def _of_one_rank(left: Side, right: Side) -> Help | None:
    for small, large in ((left, right), (right, left)):
        pairs = list(zip(small.axes, large.axes, strict=True))
        if all(first in (second, "1") for first, second in pairs):
            code = small.moved("expand", large.axes)
            return (
                None
                if code is None
                else Help(f"an axis of size 1 is never stretched: repeat `{small.written}`", code)
            )
    if Counter(left.axes) == Counter(right.axes) and len(set(left.axes)) == len(left.axes):
        code = right.moved("rearrange", left.axes)
        return (
            None
            if code is None
            else Help(f"the axes of `{right.written}` are in another order", code)
        )
    return None


def _of_pairs_or_rows(pairs: str, rows: str, result: int | None) -> Help:
    """The two products of the rows of two matrices, by how many axes the result is to have."""
    match result:
        case 1:
            return Help("row by row, the products are summed", rows)
        case 2:
            return Help("for the products of all pairs of rows, transpose the right side", pairs)
        case _:
            return Help(f"of all pairs of rows it is `{pairs}`;\nrow by row it is `{rows}`")


def _joined_behind(left: Side, right: Side) -> Help:
    """Returns the product with the first axis of a side whose other axes are joined."""
    first, *rest = "ijklmn"[: len(right.axes)]
    pattern = f"[{', '.join((first, *rest))}] -> [{first}, {' * '.join(rest)}]"
    text = (
        f"`@` sums over axis {len(right.axes) - 2} here; for the first, join the others behind it"
    )
    return Help(text, f"{left.written} @ rearrange({right.written}, {pattern})")


def product_cure(
    left: Side, right: Side, known: Collection[str], result: int | None = None
) -> Help | None:
    """Returns the cure for operands of `left @ right` that do not fit.

    `result` is how many axes their product is declared to have, if it is declared.
    """
    *batch, columns = left.axes
    if len(right.axes) == 1:
        is_same = columns == right.axes[0]
        code = f"sum({left.written} * {right.written}, {len(batch)})"
        return (
            Help("a matrix stands on the right of `@`; with a vector, sum", code)
            if is_same
            else None
        )
    *others, rows, last = right.axes
    is_one = not others or (len(left.axes) == len(right.axes) and batch[:-1] == others)
    if is_one and columns == last != rows:
        if len(left.axes) == 3 and not others and rows == left.axes[0] and result != 3:
            column = f"insert_axis({right.written}, 2, 1)"
            text = f"`{right.written}` has a vector for each of `{rows}`: make it a column"
            return Help(text, f"({left.written} @ {column})[:, :, 0]")
        transposed = right.moved("rearrange", (*others, last, rows))
        code = None if transposed is None else f"{left.written} @ {transposed}"
        if code is not None and left.axes == right.axes and len(left.axes) == 2:
            return _of_pairs_or_rows(code, f"sum({left.written} * {right.written}, 1)", result)
        return (
            None
            if code is None
            else Help(f"transpose the last two axes of `{right.written}`", code)
        )
    if len(left.axes) == 2 and columns == rows and _can_add(others, left.axes, known):
        repeated = left.moved("expand", (*others, *left.axes))
        code = None if repeated is None else f"{repeated} @ {right.written}"
        return (
            None if code is None else Help(f"repeat `{left.written}` along the leading axes", code)
        )
    if len(left.axes) == 2 and others and columns == right.axes[0]:
        return _joined_behind(left, right)
    return None


def order_cure(axes: Sequence[str], pattern: Sequence[str], axis: int) -> Help | None:
    """Returns the cure for a tensor that has the axes of a pattern in another order.

    `axis` is the first that differs; the other's is elsewhere on each side.
    """
    if axes[axis] not in pattern or pattern[axis] not in axes:
        return None
    return Help(
        f"its axes are {_pattern(axes)}, in another order than {_pattern(pattern)}:\n"
        "move them where they were laid out, as what was computed since depends on their order"
    )


def other_input_cure(axis: int, found: str, wanted: str) -> Help:
    """Returns the words for an axis that has the size of one input in place of another's."""
    return Help(
        f"axis {axis} is {found}, and not {wanted}, and both come from the inputs:\n"
        f"compute this from the input that has {wanted}; of the tensors that a layer is given,\n"
        "the first, which may be piped, may have to be another one"
    )


def _added(large: Sequence[str], small: Sequence[str]) -> list[str] | None:
    """The axes that `large` has more, if the others are `small` in its order."""
    rest, added = list(small), list[str]()
    for axis in large:
        if rest and rest[0] == axis:
            rest.pop(0)
        else:
            added.append(axis)
    return None if rest else added


def _can_add(added: Sequence[str], kept: Sequence[str], known: Collection[str]) -> bool:
    """True if a pattern can add axes: their names are in scope, and none is kept as well."""
    names = {name for axis in added for name in re.findall(r"[A-Za-z_]\w*", axis)}
    named = [axis for axis in added if not axis.isdecimal()]
    return not set(added) & set(kept) and len(set(named)) == len(named) and names <= set(known)


def _pattern(axes: Sequence[str]) -> str:
    return f"[{', '.join(axes)}]"


def is_written(axis: str) -> bool:
    """True if a size stands in a pattern as it is shown: no `ceil(...)` or `max(...)`."""
    return re.fullmatch(r"[\w\s+*/%()-]+", axis) is not None and re.search(r"\w\(", axis) is None


def all_written(axes: Iterable[str]) -> bool:
    """True if every size stands in a pattern as it is shown."""
    return all(map(is_written, axes))
