"""Cures of a tensor whose axes are laid out in another way than where it is given.

Its axes are moved, joined, split, or are one of size 1 more or fewer. Each cure is a
`rearrange`, which fits for every size; none is an edit, as it changes what is computed.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import permutations

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.symbolic.size import Size, product, show
from meganeura_dsl.syntax.problems.block_text import split_top

Same = Callable[[Size, Size], bool]
NO_CHANNELS = frozenset(
    (
        *("n", "b", "batch", "s", "t", "l", "h", "w", "z", "height", "width", "depth", "length"),
        *("time", "steps", "rows", "columns", "seq", "tokens", "frames", "samples", "patches"),
    )
)
"""The usual names of axes that are no channels."""
_REDUCED = re.compile(r"\s*\|>\s*(?:mean|sum|max|min)\(1\b")
"""A reduction behind a layer over the places of a picture with its channels last."""
_OF_LAST = ("linear", "layer_norm", "rms_norm", "attention")
_READS_CHANNELS = re.compile(
    r"\b(conv\w+|\w+_pool|\w+_norm|upsample|linear|attention|(?:mean|sum|max|min)\(2)\b"
)
Wanted = Sequence[Size | None]
"""The sizes of the axes that a place takes; None for one that may have any size."""
_USUAL = {2: ("n", "k"), 3: ("n", "s", "d"), 4: ("n", "c", "h", "w")}
"""Names of axes by their number, if their sizes have no names."""
_FREE = ("c", "h", "w", "d", "e", "i", "j", "k")


def layout_pattern(
    shape: Shape, wanted: Wanted, known: Collection[str], same: Same
) -> tuple[str, str] | None:
    """Returns words about the axes, and a pattern of `rearrange` that gives the `wanted` order.

    `known` are the names in scope, which a pattern takes for the sizes that they have. None if
    there is no such pattern, or more than one reading.
    """
    if len(shape) == len(wanted):
        return _moved(shape, wanted, known, same)
    if len(shape) < 2 or not wanted:
        return None
    return (
        _with_ones(shape, wanted, known, same)
        or _joined(shape, wanted, known, same)
        or _split(shape, wanted, known, same)
    )


def rearranged(call: str, before: str, place: int, pattern: str, name: str = "") -> str:
    """A call whose argument at a place, or of a name, is rearranged.

    `before` is the text before the call.
    """
    shown = " ".join(call.split())
    if re.search(r"\|>\s*$", before):
        return f"rearrange({pattern}) |> {shown}" if place == 0 else f"rearrange(..., {pattern})"
    found = re.fullmatch(r"(.*?\w)\((.*)\)", shown)
    given = split_top(found[2]) if found else []
    for at, each in enumerate(given):
        key, sign, value = each.partition("=")
        if found is not None and name and sign and key.strip() == name:
            given[at] = f"{name}=rearrange({value.strip()}, {pattern})"
            return f"{found[1]}({', '.join(given)})"
    if found is None or place >= len(given) or "=" in given[place]:
        return f"rearrange(..., {pattern})"
    given[place] = f"rearrange({given[place]}, {pattern})"
    return f"{found[1]}({', '.join(given)})"


def channels_moved(
    shape: Shape,
    known: Collection[str],
    call: str,
    around: tuple[str, str],
    *,
    is_first: bool,
    config: Collection[str] = (),
) -> Help | None:
    """Returns the call with its channels moved to the axis that a layer takes them from.

    `call` takes its channels from axis 1 if `is_first`, and else from the last axis; `around` is
    the text before and behind it, and `known` are the names in scope. None unless the axis of the
    channels is a number or one of `config`, and the others have names that no channels have.
    """
    if len(shape) < 3:
        return None
    channels = shape[-1 if is_first else 1]
    if not isinstance(channels, int) and show(channels) not in {*config} - NO_CHANNELS:
        return None
    others = shape[1:-1] if is_first else shape[2:]
    if not all(map(_counts_places, others)):
        return None
    order = (_to_front if is_first else _to_back)(len(shape))
    places = ("axis 1", "the last axis")
    wanted, found = places if is_first else places[::-1]
    text = f"the channels are taken from {wanted}, and are {found} here: move them"
    pattern = _pattern(shape, order, known)
    code = rearranged(call, around[0], 0, pattern)
    is_back = _is_norm_of_features(call, around[1]) if is_first else not _REDUCED.match(around[1])
    if is_back:
        there, back = pattern.split(" -> ")
        text, code = f"{text},\nand back behind it", f"{code} |> rearrange({back} -> {there})"
    return Help(text, code)


def _is_norm_of_features(call: str, behind: str) -> bool:
    """True for a norm of channels on axis 1 behind which a layer reads them from the last axis."""
    stages = re.match(r"(?:[^\n]|\n\s+\|>)*", behind)
    following = _READS_CHANNELS.search(stages[0] if stages else "")
    is_norm = re.search(r"\b(?:batch|group|instance)_norm\b", call) is not None
    return is_norm and following is not None and following[1] in _OF_LAST


def picture_moved(
    shape: Shape, known: Collection[str], call: str, around: tuple[str, str]
) -> Help | None:
    """Returns the call with the channels of a picture moved to axis 1, from the last axis.

    The arguments are those of `channels_moved`. None unless the shape is one of pictures of known
    size that have 1, 3 or 4 channels, such as `[n, 28, 28, 1]`.
    """
    if len(shape) != 4 or shape[3] not in (1, 3, 4):
        return None
    rows, columns = shape[1:3]
    if not isinstance(rows, int) or not isinstance(columns, int):
        return None
    if min(rows, columns) < 8 or max(rows, columns) > 4 * min(rows, columns):
        return None
    shown = ", ".join(map(show, shape))
    text = f"the channels are taken from axis 1, and [{shown}] has them on the last axis; move them"
    pattern = _pattern(shape, _to_front(4), known)
    return Help(text, rearranged(call, around[0], 0, pattern))


def steps_moved(
    shape: Shape, least: int, known: Collection[str], call: str, around: tuple[str, str]
) -> Help | None:
    """Returns the call with the channels of a sequence moved to axis 1, from the last axis.

    None unless the shape is of numbers, `[n, steps, channels]`: as many steps as the call needs at
    least, and fewer channels.
    """
    if len(shape) != 3:
        return None
    steps, channels = shape[1:]
    if not isinstance(steps, int) or not isinstance(channels, int):
        return None
    if not channels < least <= steps:
        return None
    first = show(shape[0])
    taken = {first, *known}
    t = next(each for each in ("t", "steps", "t0") if each not in taken)
    c = (
        "1"
        if channels == 1
        else next(each for each in ("c", "channels", "c0") if each not in taken)
    )
    text = (
        f"the channels are taken from axis 1, and {show_sizes(shape)} has {steps} there and "
        f"{channels} last:\nif these are the channels, move them"
    )
    pattern = f"[{first}, {t}, {c}] -> [{first}, {c}, {t}]"
    return Help(text, rearranged(call, around[0], 0, pattern))


def show_sizes(shape: Shape) -> str:
    """A shape in brackets."""
    return f"[{', '.join(map(show, shape))}]"


def moved_and_back(
    shape: Shape,
    known: Collection[str],
    call: str,
    *,
    is_first: bool,
    width: Size | None = None,
) -> str:
    """A call between two rearrangements: its channels on axis 1 if `is_first`, or else last.

    `width` are the channels that the call makes, if they are others.
    """
    order = (_to_front if is_first else _to_back)(len(shape))
    there, back = _pattern(shape, order, known).split(" -> ")
    first = f"rearrange({there} -> {back}) |> {call}"
    if width is not None:
        channels = split_top(there[1:-1])[-1 if is_first else 1]
        there, back = (
            re.sub(rf"(?<!\w){channels}(?!\w)", show(width), each) for each in (there, back)
        )
    return f"{first} |> rearrange({back} -> {there})"


def _counts_places(size: Size) -> bool:
    """Returns True for a size of names that axes other than channels usually have."""
    return not isinstance(size, int) and size.variables() <= NO_CHANNELS


def _to_front(rank: int) -> tuple[int, ...]:
    return (0, rank - 1, *range(1, rank - 1))


def _to_back(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def _moved(
    shape: Shape, wanted: Wanted, known: Collection[str], same: Same
) -> tuple[str, str] | None:
    """The order of the axes that fits: channels moved, or the only order of all that does."""
    rank = len(shape)

    def fits(order: Sequence[int]) -> bool:
        return all(
            size is None or same(shape[at], size) for at, size in zip(order, wanted, strict=True)
        )

    if rank > 2:
        front, back = _to_front(rank), _to_back(rank)
        if fits(front) and (front == back or not fits(back)):
            text = "the channels are on the last axis here, and on axis 1 there: move them"
            return text, _pattern(shape, front, known)
        if fits(back) and not fits(front):
            text = "the channels are on axis 1 here, and on the last axis there: move them"
            return text, _pattern(shape, back, known)
    if rank > 5 or sum(size is None for size in wanted) > 1:
        return None
    orders = [each for each in permutations(range(rank)) if fits(each)]
    if len(orders) != 1:
        return None
    return "its axes are in another order", _pattern(shape, orders[0], known)


def _pattern(shape: Shape, order: Sequence[int], known: Collection[str]) -> str:
    """The pattern that brings the axes of a shape into another order."""
    is_back = len(order) == 4 and tuple(order) == _to_back(4)
    names = _names(shape, known) if is_back else _names(shape, known, order)
    return f"[{', '.join(names)}] -> [{', '.join(names[at] for at in order)}]"


def _names(shape: Shape, known: Collection[str], order: Sequence[int] | None = None) -> list[str]:
    """A name for each axis; that of its size, if it has one, and 1 where the size is 1.

    `order` says which axis comes first, second, ... where pictures have their usual order.
    """
    order = range(len(shape)) if order is None else order
    shown = [show(size) for size in shape]
    taken = {*known, *(each for each in shown if each.isidentifier())}
    names = ["" for _ in shape]
    for place, at in enumerate(order):
        size = shown[at]
        if (size.isidentifier() and size not in names) or size == "1":
            names[at] = size
            continue
        usual = _USUAL.get(len(shape), ())[place : place + 1]
        if len(shape) == 3 and place and isinstance(shape[1], int) and shape[1] == shape[2]:
            usual = _USUAL[4][place + 1 : place + 2]
        names[at] = next(
            each
            for each in (*usual, *_FREE, *(f"axis{k}" for k in range(2 * len(shape))))
            if each not in taken
        )
        taken.add(names[at])
    return names


def _with_ones(
    shape: Shape, wanted: Wanted, known: Collection[str], same: Same
) -> tuple[str, str] | None:
    """Axes of size 1 added or dropped, where the others fit."""
    is_picture = len(wanted) == 4 and len(shape) == 3
    names = _names((shape[0], 1, *shape[1:]), known) if is_picture else _names(shape, known)
    names = [names[0], *names[2:]] if is_picture else names
    rest = [(name, size) for name, size in zip(names, shape, strict=True) if size != 1]
    if is_picture and wanted[1] is None and len(rest) == 3:
        wanted = (wanted[0], 1, *wanted[2:])  # pictures without an axis of channels
    others = [size for size in wanted if size != 1]
    if len(rest) != len(others) or not all(
        size is None or same(found, size) for (_, found), size in zip(rest, others, strict=True)
    ):
        return None
    left = iter(name for name, _ in rest)
    target = ["1" if size == 1 else next(left) for size in wanted]
    is_more = len(wanted) > len(shape)
    text = "axes of size 1 are missing: add them" if is_more else "drop the axes of size 1"
    return text, f"[{', '.join(names)}] -> [{', '.join(target)}]"


def _joined(
    shape: Shape, wanted: Wanted, known: Collection[str], same: Same
) -> tuple[str, str] | None:
    """Neighbouring axes joined, where one grouping fits; rows and columns of a picture to rows."""
    names = _names(shape, known)
    source = f"[{', '.join(names)}]"
    is_flat = len(wanted) == 2 < len(shape) and (wanted[0] is None or same(shape[0], wanted[0]))
    if is_flat and (wanted[1] is None or same(product(shape[1:]), wanted[1])):
        text = "the axes behind the first are one there: join them"
        return text, f"{source} -> [{names[0]}, {_times(names[1:])}]"
    if len(shape) == 4 and len(wanted) == 3 and wanted[2] is not None and wanted[1] is None:
        n, c, h, w = names
        if same(shape[1], wanted[2]):
            text = "of a picture, each place is a row, and its channels are the last axis"
            return text, f"{source} -> [{n}, {h} * {w}, {c}]"
    found = [
        groups
        for groups in _groups(len(shape), len(wanted))
        if all(
            len(group) == 1 if size is None else same(product([shape[at] for at in group]), size)
            for group, size in zip(groups, wanted, strict=True)
        )
    ]
    if len(found) != 1:
        return None
    target = ", ".join(_times([names[at] for at in group]) for group in found[0])
    return "axes are joined there that are apart here", f"{source} -> [{target}]"


def _split(
    shape: Shape, wanted: Wanted, known: Collection[str], same: Same
) -> tuple[str, str] | None:
    """Axes split into numbers that are wanted, where one grouping fits."""
    names = _names(shape, known)
    found = [
        groups
        for groups in _groups(len(wanted), len(shape))
        if all(_is_product([wanted[at] for at in group], size, same)
               for group, size in zip(groups, shape, strict=True))
    ]  # fmt: skip
    if len(found) != 1:
        return None
    source, target = list[str](), list[str]()
    for name, group in zip(names, found[0], strict=True):
        entries = [name] if len(group) == 1 else [show(wanted[at] or 1) for at in group]
        if not all(re.fullmatch(r"\w+", each) for each in entries):
            return None
        source.append(" * ".join(entries))
        target += entries
    text = "an axis is joined here that is split there"
    return text, f"[{', '.join(source)}] -> [{', '.join(target)}]"


def _is_product(sizes: Sequence[Size | None], size: Size, same: Same) -> bool:
    """True if sizes multiply to another one; a single size that may be any does."""
    if len(sizes) == 1:
        return sizes[0] is None or same(sizes[0], size)
    known = [each for each in sizes if each is not None]
    return len(known) == len(sizes) and same(product(known), size)


def _groups(length: int, count: int) -> Iterator[list[range]]:
    """The ways to cut `length` places into `count` neighbouring groups, none of them empty."""
    if count == 1:
        if length:
            yield [range(length)]
        return
    for last in range(1, length - count + 2):
        for first in _groups(length - last, count - 1):
            yield [*first, range(length - last, length)]


def _times(names: Sequence[str]) -> str:
    return " * ".join([each for each in names if each != "1"] or ["1"])
