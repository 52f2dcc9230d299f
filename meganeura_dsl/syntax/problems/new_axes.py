"""Subscripts with `None`, by which NumPy and PyTorch add axes of size 1."""

import re
from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax.problems.block_text import (
    axes_of,
    bare,
    block_before,
    block_rest,
    value_before,
)

_AXES = ("n", "c", "d", "e", "f", "g")
_NEW_AXES = ("h", "w", "u", "v", "r", "t")
"""Names of axes in advice."""
_TEXT = "a new axis is written with its size"
_NEW = r"\[(?:[:, \w]|\.\.\.)*\bNone\b[:, \w]*\]"
_SUBSCRIPT = re.compile(rf"{_NEW}")
_LEFT = re.compile(rf"(?<![\w.@])([A-Za-z_]\w*(?:{_NEW})?) *([-+*/]) *$")
_RIGHT = re.compile(rf" *([-+*/]) *([A-Za-z_]\w*(?:{_NEW})?)(?! *@)(?![\w.(\[])")


def new_axis(span: Span) -> Help | None:
    """Returns the cure for the subscript `x[:, None]`; None if the span is in none.

    The sizes are those of what an operator beside it joins it with, if that is a name or another
    such subscript, which is then written as well. Of a line `y = x[:, None]` it is the operator
    beside `y` further down.
    """
    text = span.source.text
    start = text.rfind("\n", 0, span.start) + 1
    line, _, after = text[start:].partition("\n")
    block = block_before(text[:start])
    for found in _SUBSCRIPT.finditer(line):
        begin = found.start() - len(value_before(line[: found.start()]))
        if not begin <= span.start - start < found.end():
            continue
        around = block if line[:1].isspace() else line[:begin]
        general = Help(f"{_TEXT}: `insert_axis({line[begin : found.start()]}, axis, size)`")
        mine = _operand(line[begin : found.end()], around)
        if mine is None:
            return general
        left, right = _LEFT.search(line[:begin]), _RIGHT.match(line[found.end() :])
        if left and re.search(r"@ *$", line[: left.start()]):
            left = None
        beside = left[1] if left else right[2] if right else ""
        is_whole = re.fullmatch(r"\s*(\w+) *= *", line[:begin]) and not line[found.end() :].strip()
        if is_whole:
            beside = _joined_with(line.partition("=")[0].strip(), block_rest(after))
        other = _operand(beside, around)
        inserted = None if other is None else mine.inserted(other)
        if other is None or inserted is None:
            is_alone = not re.search(r"[-+*/@] *$", line[:begin])
            is_alone = is_alone and not re.match(r" *[-+*/@]", line[found.end() :]) and not beside
            alone = mine.inserted(None) if is_alone else None
            if alone is not None:
                return Help(f"{_TEXT}: 1, or that of the axis that it is to meet", alone)
            expanded = mine.expanded()
            return general if expanded is None else Help(f"{_TEXT}: {expanded}")
        if "None" in other.entries:
            theirs = other.inserted(mine)
            if theirs is not None and left:
                inserted = f"{theirs} {left[2]} {inserted}"
            elif theirs is not None and right:
                inserted = f"{inserted} {right[1]} {theirs}"
        return Help(_TEXT, inserted)
    return None


def _joined_with(name: str, rest: str) -> str:
    """The name that an operator joins a name with in the lines below; empty if none does."""
    for found in re.finditer(rf"(?<![\w.]){name}\b(?! *[(\[.=:])", rest):
        left, right = _LEFT.search(rest[: found.start()]), _RIGHT.match(rest[found.end() :])
        if left or right:
            return left[1] if left else right[2] if right else ""
    return ""


@dataclass(frozen=True)
class _Operand:
    """A value with the entries of its subscript, if it has one."""

    name: str
    entries: tuple[str, ...]
    axes: tuple[str, ...] | None
    """The axes of the value, if the text of the block says them."""

    @property
    def rank(self) -> int:
        """The number of axes with the new ones, of which those that are not written are last."""
        written = len([each for each in self.entries if each == ":"])
        rest = len(self.axes) - written if self.axes is not None else 0
        return len(self.entries) + max(rest, 0)

    def size(self, place: int) -> str | None:
        """The size of an axis, counted from the last, which is -1; None if there is none.

        If the block does not say how many axes there are, they are those that are written.
        """
        at = place + self.rank
        if at < 0:
            return None
        if self.entries[at : at + 1] == ("None",):
            return "1"
        if self.entries[:1] == ("...",):
            return f"size({self.name}, {place + self.entries.count('None')})"
        axis = at - self.entries[:at].count("None")
        axes = self.axes or ()
        named = axes[axis] if axis < len(axes) and re.fullmatch(r"\w+", axes[axis]) else ""
        return named or f"size({self.name}, {axis})"

    def inserted(self, other: "_Operand | None") -> str | None:
        """The value with its new axes, in the sizes of another operand; None if it lacks one.

        Without another operand they are of size 1.
        """
        if other is not None and other.axes is None and not other.entries:
            other = _Operand(other.name, (":",) * self.rank, None)
        is_last = self.entries[0] == "..."
        code = self.name
        for at, entry in enumerate(self.entries):
            size = "1" if other is None else other.size(at - self.rank)
            if entry == "None" and size is None:
                return None
            if entry == "None":
                code = f"insert_axis({code}, {-1 if is_last else at}, {size})"
        return code

    def expanded(self) -> str | None:
        """The pattern by which the new axes come, under names that stand for their sizes."""
        if "..." in self.entries:
            return None
        new = iter(_NEW_AXES)
        axes = [next(new) if each == "None" else _AXES[at] for at, each in enumerate(self.entries)]
        kept = [name for name, each in zip(axes, self.entries, strict=True) if each == ":"]
        return f"`expand({self.name}, [{', '.join(kept)}] -> [{', '.join(axes)}])`"


def _operand(written: str, block: str) -> _Operand | None:
    """The operand of a text; None for what is no tensor, and for parts of one."""
    found = re.fullmatch(rf"(.*?)({_NEW})?", written)
    if found is None or not found[1]:
        return None
    name, inside = found[1], (found[2] or "[]")[1:-1]
    entries = [each.strip() for each in inside.split(",") if each.strip()]
    is_name = name.isidentifier()
    name = bare(name)
    axes = axes_of(name, block)
    is_bound = is_name and re.search(rf"^\s+{name} *=", block, re.MULTILINE) is not None
    is_last = entries[:1] == ["..."] and set(entries[1:]) == {"None"}
    if not (is_last or set(entries) <= {":", "None"}) or len(entries) > len(_AXES):
        return None
    if axes is None and (set(entries) == {"None"} or not (entries or is_bound)):
        return None
    return _Operand(name, tuple(entries), None if axes is None or is_last else tuple(axes))
