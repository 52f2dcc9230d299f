"""Cures of parts of tensors that are not there: other iterations of a scan, or a wider layer."""

import re
from collections.abc import Callable, Sequence

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.problems.origin_cures import main_operand
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.size import Dim, Size, show
from meganeura_dsl.syntax.problems.block_text import split_top

_WIDE = re.compile(
    r"(?P<before>(?:[\w.\[\]{}]+:\s*)?(?:linear|conv[123]d|conv_transpose[123]d|embedding)\()"
    r"(?P<width>[^(),]+)(?P<rest>.*)",
    re.DOTALL,
)

_ENTRY = re.compile(r"(?P<name>[\w.]+)\[(?P<before>(?::, )*)(?P<entry>\d+)\]")


def iterations_cure(
    index: Dim, iterations: tuple[Size, Size], ends: tuple[Size, Size], size: Size
) -> Help | None:
    """The range of iterations in which a part lies within its axis.

    `None` unless both ends of the part are at a fixed distance from the index. `iterations` is the
    first index of a scan and the one after its last, `ends` those of the part, and `size` that of
    its axis.
    """
    before, after = ends[0] - index, ends[1] - index
    if not isinstance(before, int) or not isinstance(after, int):
        return None
    name, (first, stop) = show(index), iterations
    if isinstance(first, int) and first + before < 0:
        text = (
            f"the first iteration takes entry {first + before}, which is not there: begin later,\n"
            "or bind a name to what an iteration reads, which the next finds"
        )
        return Help(text, f"scan {name} in {-before}..{show(stop)}")
    last = size - after + 1
    more = stop - last
    if isinstance(more, int) and more > 0:
        text = f"the last iterations reach behind the axis, which has {show(size)}: end before them"
        return Help(text, f"scan {name} in {show(first)}..{show(last)}")
    return None


def wider_cure(
    value: Tensor, start: Size, stop: Size, same: Callable[[Size, Size], bool]
) -> Help | None:
    """The layer that makes an axis of which a part begins behind the end, with one part more.

    None if the part is not at the end of an axis that a layer makes, whose width is written.
    """
    axes = [at for at, size in enumerate(value.type.shape) if same(size, start)]
    if not same(start, stop) or len(axes) != 1:
        return None
    made, wide = value, None
    while wide is None and made.origin.span is not None:
        wide = _WIDE.fullmatch(" ".join(made.origin.span.text.split()))
        before = main_operand(made)
        if wide is None and before is None:
            return None
        made = made if before is None else before
    more = _one_more(start)
    if wide is None or more is None or wide["width"].strip() != show(start).replace("*", " * "):
        return None
    text = (
        f"axis {axes[0]} has {show(start)}, and nothing is behind it: for one more part of this "
        "size,\nlet the layer make as many"
    )
    return Help(text, f"{wide['before']}{more}{wide['rest']}")


def ended_part(
    value: Tensor, code: str, stop: Size, size: Size, same: Callable[[Size, Size], bool]
) -> Help | None:
    """The part of an axis of `size` that ends with it, for one whose `stop` is behind it.

    `code` is the part as it is written. A part that begins there needs a wider layer.
    """
    name, bracket, inside = " ".join(code.split()).partition("[")
    entries = split_top(inside.removesuffix("]")) if bracket else []
    ends = [
        at
        for at, each in enumerate(entries)
        if _unspaced(each).endswith(f":{_unspaced(show(stop))}")
    ]
    if len(ends) != 1:
        return None
    (at,) = ends
    start, axis = entries[at].partition(":")[0], show(size).replace("*", " * ")
    if _unspaced(start) == _unspaced(axis):
        return wider_cure(value, size, size, same)
    entries[at] = f"{start}:{axis}" if start else ":"
    text = f"the axis has {show(size)}, and this part ends behind it, at {show(stop)}: end with it"
    return Help(text, f"{name}[{', '.join(entries)}]")


def other_entry(value: Tensor, code: str, stop: Size) -> Help | None:
    """The same entry of an axis with a written number of entries, for one of an open axis.

    `code` is `pairs[:, 1]` of an `i32[2, e]`, where `stop`, 2, need not be within e. None if no
    other axis, or more than one, has that entry.
    """
    found = _ENTRY.fullmatch(" ".join(code.split()))
    if found is None or not isinstance(stop, int):
        return None
    shape, at = value.type.shape, found["before"].count(":")
    if at >= len(shape) or isinstance(shape[at], int):
        return None
    others = [n for n, size in enumerate(shape) if isinstance(size, int) and size >= stop]
    if len(others) != 1:
        return None
    (other,) = others
    entries = ", ".join([":"] * other + [found["entry"]])
    text = (
        f"axis {at} has {show(shape[at])} entries, and axis {other} has {show(shape[other])}: "
        "is that one meant?"
    )
    return Help(text, f"{found['name']}[{entries}]")


def _unspaced(code: str) -> str:
    return code.replace(" ", "")


def takes_places(code: str) -> bool:
    """True if a subscript takes single places of axes, and no range of one."""
    entries = _entries(code)
    return bool(entries) and not any(":" in each and each != ":" for each in entries)


def last_place(code: str, stop: Size, size: Size) -> Help | None:
    """The subscript with the last place of an axis for one that is its size; None for others."""
    entries, axis = _entries(code), show(size)
    if stop - size != 1 or entries.count(axis) != 1:
        return None
    at = entries.index(axis)
    name, last = code.partition("[")[0], [*entries[:at], "-1", *entries[at + 1 :]]
    return Help(
        f"places are counted from 0: the last place of {axis} is -1", f"{name}[{', '.join(last)}]"
    )


def _entries(code: str) -> list[str]:
    """The entries of a subscript of a name; none of other code."""
    found = re.fullmatch(r"\w+\[(.*)\]", " ".join(code.split()))
    return split_top(found[1]) if found else []


def longer_part(
    name: str, entries: Sequence[str], part: TensorType, given: TensorType
) -> Help | None:
    """The part with all that is given along the axis that one entry removes; None if none is.

    `entries` are the subscripts as they are written.
    """
    if given.rank != part.rank + 1:
        return None
    for axis, entry in enumerate(entries):
        others = (*given.shape[:axis], *given.shape[axis + 1 :])
        size = show(given.shape[axis])
        if ":" in entry or entry == "..." or others != part.shape:
            continue
        longer = [*entries[:axis], f"{entry}:{entry} + {size}", *entries[axis + 1 :]]
        text = f"`{entry}` is one entry of axis {axis}, and there are {size}: write as many"
        return Help(text, f"{name}[{', '.join(longer)}]")
    return None


def _one_more(size: Size) -> str | None:
    """Returns the size with one part more: `2 * d` for `d`, `3 * d` for `2 * d`."""
    if isinstance(size, int):
        return str(2 * size)
    found = re.fullmatch(r"(?:(\d+)\*)?([A-Za-z_]\w*)", show(size))
    return None if found is None else f"{int(found[1] or 1) + 1} * {found[2]}"
