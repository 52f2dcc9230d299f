"""Cures of rearrangements: patterns that fit the tensor that is there."""

import re
from collections import Counter
from collections.abc import Collection, Sequence

from meganeura_dsl.diagnostics.other_names import Answer, Form
from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.values import show_shape
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.limits.language_limits import MOST_AXES
from meganeura_dsl.symbolic.size import show
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.problems.block_text import split_top

_NAMES = ("c", "h", "w", "e", "rows", "columns")
"""Names in advice for axes without one; those of pictures come after the first."""


def numbers_cure(node: ast.Rearrangement, shape: Shape, known: Collection[str]) -> Help | None:
    """The pattern in which axes that are written as numbers, and are others, are named.

    A name takes the size that is there. None if a number stands for several axes of the source.
    """
    text = " ".join(node.span.text.split())
    found = re.search(r"\[([^\]]*)\] -> \[([^\]]*)\]", text)
    if found is None:
        return None
    source, target = (split_top(found[at]) for at in (1, 2))
    if len(source) != len(shape):
        return None
    wrong = [
        at
        for at, (entry, size) in enumerate(zip(source, shape, strict=True))
        if entry.isdecimal() and entry != show(size)
    ]
    if not wrong or any(show(shape[at]).isidentifier() for at in wrong):
        return None
    if not all(isinstance(shape[at], int) for at in wrong):
        return Help(
            f"this depends on the size of what comes in: {show_shape(shape)}; give the input the\n"
            "size that is meant in its type, or reduce these axes in place of joining them"
        )
    factors = [re.split(r"\s*\*\s*", entry) for entry in target]
    flat = [factor for each in factors for factor in each]
    named, moved = list(source), list(flat)
    free = _free_names(known, [*source, *flat])
    for at in wrong:
        usual = _NAMES[at - 1] if len(shape) == 4 and at else ""
        old, named[at] = source[at], usual if usual in free else free[0]
        free.remove(named[at])
        if source.count(old) != flat.count(old):
            moved = []
        elif moved:
            same = [place for place, each in enumerate(flat) if each == old]
            moved[same[source[:at].count(old)]] = named[at]
    rest = iter(moved)
    if moved:
        target = [" * ".join(next(rest) for _ in each) for each in factors]
    elif len(target) == 2 and target[0] == source[0]:
        target = [source[0], " * ".join(named[1:])]
    else:
        return None
    code = text.replace(found[0], f"[{', '.join(named)}] -> [{', '.join(target)}]")
    return Help(f"it is {show_shape(shape)} here: a name takes the size that is there", code)


def factor_cure(node: ast.Rearrangement, axis: int, wanted: str, found: str) -> Help | None:
    """The pattern with the name of the axis that is there in place of another factor of it.

    `wanted` and `found` are products that differ in one name, as `hd*heads` and `hd*groups` do.
    """
    factors = [Counter(each.split("*")) for each in (wanted, found)]
    ours, theirs = factors[0] - factors[1], factors[1] - factors[0]
    if ours.total() != 1 or theirs.total() != 1 or not factors[0] & factors[1]:
        return None
    (mine,), (other,) = ours, theirs
    text = " ".join(node.span.text.split())
    if not (mine.isidentifier() and other.isidentifier()) or re.search(rf"\b{other}\b", text):
        return None
    words = f"axis {axis} holds `{other}`, and not `{mine}`: split it so"
    return Help(words, re.sub(rf"\b{mine}\b", other, text))


def numbers_apart_cure(node: ast.Rearrangement, known: Collection[str]) -> Help | None:
    """The pattern with a number of its source written as the two numbers of its target.

    One of them takes a new name, as equal axes are told apart by theirs: `c * 4` to `h * 2` and
    `w * 2` is `c * 2 * b` to `h * 2` and `w * b`.
    """
    text = " ".join(node.span.text.split())
    found = re.search(r"\[([^\]]*)\] -> \[([^\]]*)\]", text)
    if found is None:
        return None
    sides = [[re.split(r"\s*\*\s*", entry) for entry in split_top(found[at])] for at in (1, 2)]
    source, target = ([f for entry in side for f in entry if f.isdecimal()] for side in sides)
    if len(source) != 1 or len(target) != 2 or int(source[0]) != int(target[0]) * int(target[1]):
        return None
    names = [each for each in ("b", "k", "e") if each not in known and each not in text]
    if not names:
        return None
    last = [at for at, entry in enumerate(sides[1]) for f in entry if f.isdecimal()][-1]
    before = [[f"{target[0]} * {names[0]}" if f == source[0] else f for f in e] for e in sides[0]]
    behind = [
        [names[0] if at == last and f == target[1] else f for f in entry]
        for at, entry in enumerate(sides[1])
    ]
    shown = [", ".join(" * ".join(entry) for entry in side) for side in (before, behind)]
    words = (
        f"{source[0]} is {target[0]} * {target[1]}: write it so, with a name for one of them, as\n"
        "equal axes are told apart by their names"
    )
    return Help(words, text.replace(found[0], f"[{shown[0]}] -> [{shown[1]}]"))


def new_name_answer(unknown: Sequence[str], sizes: Sequence[str], entry: str) -> Answer:
    """The answer to an entry with several new names, of which one can be new.

    A name that begins that of one size in scope may be meant for it, as `h` for `heads`.
    """
    longer = [(new, name) for new in unknown for name in sizes if name.startswith(new)]
    if len(longer) == 1:
        ((new, name),) = longer
        words = f"one name of an entry may be new, and `{new}` may be `{name}`: write"
        return Answer(words, (Form(re.sub(rf"\b{new}\b", name, entry), entry),))
    words = f"one name of an entry may be new: give `{unknown[0]}` its value before"
    return Answer(words, (Form(f"{unknown[0]} = 3", entry),))


def rank_cure(node: ast.Rearrangement, shape: Shape, known: Collection[str]) -> Help | None:
    """The pattern with all axes of the tensor, where the source names fewer that are all joined."""
    text = " ".join(node.span.text.split())
    found = re.search(r"\[([^\]]*)\] -> \[([^\]]*)\]", text)
    if found is None:
        return None
    source, target = (split_top(found[at]) for at in (1, 2))
    there = f"it has {len(shape)} axes, {show_shape(shape)}"
    if len(target) != 2 or len(shape) < 3 or source[0] != target[0]:
        return Help(f"{there}: the left side names each of them")
    names = _free_names(known, source[:1])[: len(shape) - 1]
    code = f"[{', '.join([source[0], *names])}] -> [{source[0]}, {' * '.join(names)}]"
    return Help(f"{there}: name them all, and join them", text.replace(found[0], code))


def _free_names(known: Collection[str], used: Collection[str]) -> list[str]:
    """Names that no size has, as many as a tensor may have axes."""
    taken = {name for each in used for name in re.findall(r"[A-Za-z_]\w*", each)} | set(known)
    names = (*_NAMES, *(f"axis{at}" for at in range(2 * MOST_AXES)))
    return [name for name in names if name not in taken]
