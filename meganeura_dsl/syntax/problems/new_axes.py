"""Subscripts with `None`, by which NumPy and PyTorch add axes of size 1."""

import re
from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax.problems.foreign_calls import axes_of

_AXES = ("n", "c", "d", "e", "f", "g")
_NEW_AXES = ("h", "w", "u", "v", "r", "t")
"""Names of axes in advice."""
_TEXT = "a new axis is written with its size"
_NEW = r"\[[:, \w]*\bNone\b[:, \w]*\]"
_SUBSCRIPT = re.compile(rf"(?<![\w.])[A-Za-z_]\w*{_NEW}")
_LEFT = re.compile(rf"(?<![\w.@])([A-Za-z_]\w*(?:{_NEW})?) *([-+*/]) *$")
_RIGHT = re.compile(rf" *([-+*/]) *([A-Za-z_]\w*(?:{_NEW})?)(?! *@)(?![\w.(\[])")


def new_axis(span: Span) -> Help | None:
    """Returns the cure for the subscript `x[:, None]`; None if the span is in none.

    The sizes are those of what an operator beside it joins it with, if that is a name or another
    such subscript, which is then written as well.
    """
    text = span.source.text
    start = text.rfind("\n", 0, span.start) + 1
    line = text[start:].partition("\n")[0]
    block = re.split(r"^(?=\S)", text[:start], flags=re.MULTILINE)[-1]
    for found in _SUBSCRIPT.finditer(line):
        mine = _operand(found[0], block)
        if mine is None or not found.start() <= span.start - start < found.end():
            continue
        left, right = _LEFT.search(line[: found.start()]), _RIGHT.match(line[found.end() :])
        if left and re.search(r"@ *$", line[: left.start()]):
            left = None
        beside = left[1] if left else right[2] if right else ""
        other = _operand(beside, block)
        inserted = None if other is None else mine.inserted(other)
        if other is None or inserted is None:
            return Help(f"{_TEXT}: {mine.expanded()}")
        if "None" in other.entries:
            theirs = other.inserted(mine)
            if theirs is not None and left:
                inserted = f"{theirs} {left[2]} {inserted}"
            elif theirs is not None and right:
                inserted = f"{inserted} {right[1]} {theirs}"
        return Help(_TEXT, inserted)
    return None


@dataclass(frozen=True)
class _Operand:
    """A name with the entries of its subscript, if it has one."""

    name: str
    entries: tuple[str, ...]
    axes: tuple[str, ...] | None
    """The axes of the name, if the text of the block says them."""

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
        axis = at - self.entries[:at].count("None")
        axes = self.axes or ()
        named = axes[axis] if axis < len(axes) and re.fullmatch(r"\w+", axes[axis]) else ""
        return named or f"size({self.name}, {axis})"

    def inserted(self, other: "_Operand") -> str | None:
        """The name with its new axes, in the sizes of another operand; None if it lacks one."""
        if other.axes is None and not other.entries:
            other = _Operand(other.name, (":",) * self.rank, None)
        code = self.name
        for at, entry in enumerate(self.entries):
            size = other.size(at - self.rank)
            if entry == "None" and size is None:
                return None
            if entry == "None":
                code = f"insert_axis({code}, {at}, {size})"
        return code

    def expanded(self) -> str:
        """The pattern by which the new axes come, under names that stand for their sizes."""
        new = iter(_NEW_AXES)
        axes = [next(new) if each == "None" else _AXES[at] for at, each in enumerate(self.entries)]
        kept = [name for name, each in zip(axes, self.entries, strict=True) if each == ":"]
        return f"`expand({self.name}, [{', '.join(kept)}] -> [{', '.join(axes)}])`"


def _operand(written: str, block: str) -> _Operand | None:
    """The operand of a text; None for what is no tensor, and for parts of one."""
    name, bracket, inside = written.partition("[")
    entries = [each.strip() for each in inside.rstrip("]").split(",")] if bracket else []
    axes = axes_of(name, block) if name else None
    is_bound = re.search(rf"^\s+{name} *=", block, re.MULTILINE) is not None
    if not name or not set(entries) <= {":", "None"} or len(entries) > len(_AXES):
        return None
    if axes is None and not entries and not is_bound:
        return None
    return _Operand(name, tuple(entries), None if axes is None else tuple(axes))
