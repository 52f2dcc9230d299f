"""Subscripts with `None`, by which NumPy and PyTorch add axes of size 1."""

import re

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax.problems.foreign_calls import axes_of

_AXES = ("n", "c", "d", "e", "f", "g")
_NEW_AXES = ("h", "w", "u", "v", "r", "t")
"""Names of axes in advice."""
_TEXT = "a new axis is written with its size"


def new_axis(span: Span) -> Help | None:
    """Returns the cure for the subscript `x[:, None]`; None if the span is in none.

    The sizes are those of what an operator beside it joins it with, if that is a name.
    """
    text = span.source.text
    start = text.rfind("\n", 0, span.start) + 1
    line = text[start:].partition("\n")[0]
    for found in re.finditer(r"(\w+)\[([:, \w]*\bNone\b[:, \w]*)\]", line):
        entries = [each.strip() for each in found[2].split(",")]
        if set(entries) > {":", "None"} or len(entries) > len(_AXES):
            continue
        if not found.start() <= span.start - start < found.end():
            continue
        left = re.search(r"(?<![\w.])([A-Za-z_]\w*) *[-+*/] *$", line[: found.start()])
        right = re.match(r" *[-+*/] *([A-Za-z_]\w*) *(?![\w.(\[ ])", line[found.end() :])
        other = left or right
        if other is not None:
            return Help(_TEXT, _inserted(found[1], entries, other[1], text[:start]))
        new = iter(_NEW_AXES)
        after = [next(new) if each == "None" else _AXES[at] for at, each in enumerate(entries)]
        before = [name for name, each in zip(after, entries, strict=True) if each == ":"]
        pattern = f"[{', '.join(before)}] -> [{', '.join(after)}]"
        return Help(f"{_TEXT}: `expand({found[1]}, {pattern})`")
    return None


def _inserted(value: str, entries: list[str], other: str, before: str) -> str:
    """A value with the new axes of a subscript, which have the sizes of another value."""
    block = re.split(r"^(?=\S)", before, flags=re.MULTILINE)[-1]
    axes = axes_of(other, block) or []
    for at, entry in enumerate(entries):
        if entry == "None":
            is_known = len(axes) == len(entries) and re.fullmatch(r"\w+", axes[at])
            value = (
                f"insert_axis({value}, {at}, {axes[at] if is_known else f'size({other}, {at})'})"
            )
    return value
