"""Cures of what is written by the habits of PyTorch and NumPy, from the text of the problem."""

import re

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.values import Evaluated

_AXES = re.compile(r"\b(?:dim|dims|axis|axes)\s*=\s*")
_KEPT = re.compile(r"\s*,?\s*\b(?:keepdims?)\s*=\s*\w+")
_PARTS = "sizes may not depend on data: keep all, and choose element by element"


def of_arguments(callee: str, unknown: str, written: str) -> Help | None:
    """The call that an argument of another system stands for; None if this is none of those."""
    call = " ".join(written.split())
    if unknown in ("keepdim", "keepdims"):
        shorter = _AXES.sub("", _KEPT.sub("", call)).replace("(, ", "(")
        inside = re.fullmatch(r"\w+\((?:\w+, *)?(-?\d+)\)", shorter)
        axis = inside.group(1) if inside else "1"
        text = "the axis is gone; to have it back as often as it was, its size is `size(x, axis)`"
        return Help(text, f"insert_axis({shorter}, {axis}, size(x, {axis}))")
    if unknown in ("dim", "dims", "axis", "axes"):
        return Help(
            "axes are given by their place", _AXES.sub("", call).replace("[", "").replace("]", "")
        )
    if callee in ("rearrange", "expand", "repeat", "reduce"):
        given = re.search(rf"\b{unknown}\s*=\s*([\w.]+)", call)
        text = "a pattern reads names in scope: name the size before"
        return Help(text, f"{unknown} = {given[1] if given else 8}")
    return None


def of_subscript(written: str, found: str, axis: int) -> str:
    """How entries are taken that a bool tensor, indices or a list name; "" if it is none."""
    if "bool[" in found:
        return f"{_PARTS}: `where({written}, x, 0)`,\nor `x = where({written}, 0, x)`"
    if found.startswith("a list"):
        return f"entries are gathered along an axis: `gather(x, constant({written}), axis={axis})`"
    if "i32[" in found or "u32[" in found:
        return f"entries are gathered along an axis: `gather(x, {written}, axis={axis})`"
    return ""


def of_condition(written: str) -> str:
    """What is written in place of a choice that data decides."""
    return (
        "what a program does is settled before there is data; values are chosen by\n"
        f"`where({' '.join(written.split())}, y, z)`"
    )


def of_whole_number(
    name: str, given: Evaluated, written: str, callee: str, window: str
) -> Help | None:
    """The cure where a layer of the library takes a whole number, and something else is given."""
    if "/" in written and "//" not in written:
        whole = re.sub(r"\s*/\s*", " // ", written)
        return Help("a quotient of whole numbers, rounded down, is `//`", f"{name}={whole}")
    if name == "pad" and given == "same":
        half = f"{int(window) // 2}" if window.isdecimal() else f"{window or 'k'} // 2"
        return Help("for an odd window and a stride of 1, this keeps the size", f"{name}={half}")
    if name == "pad" and given == "valid":
        return Help("leave it out: without padding is the default", f"{name}=0")
    if isinstance(given, list) and len({str(each) for each in given}) == 1:
        return Help("it is one number for all axes", f"{name}={given[0]}")
    if isinstance(given, list) and name == "k" and callee == "conv2d":
        return Help(
            "windows are square here; of two sides they are a parameter of one's own",
            f"param weight: [8, size(x, 1), {given[0]}, {given[-1]}] = kaiming_uniform()\n"
            "y = conv(x, weight)",
        )
    return None


def loop_around(span: Span) -> str:
    """The index of the innermost `for` that a line stands in; empty if there is none."""
    lines = span.source.text.split("\n")[: span.line]
    depth = len(lines[-1]) - len(lines[-1].lstrip())
    for line in reversed(lines[:-1]):
        indent = len(line) - len(line.lstrip())
        if not line.strip() or indent >= depth:
            continue
        found = re.match(r"\s*for (\w+) in\b", line)
        if found:
            return found[1]
        depth = indent
    return ""
