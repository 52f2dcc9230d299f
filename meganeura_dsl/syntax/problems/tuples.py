"""Tuples, which this language has not: the axes, sizes or tensors in their own brackets."""

import re
from collections.abc import Sequence

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.syntax.problems.block_text import block_before, bracketed, split_top
from meganeura_dsl.syntax.problems.call_translation import ForeignCall

_REDUCTIONS = ("mean", "sum", "max", "min")
_SHAPED = ("zeros", "ones", "full", "random_normal", "random_uniform", "param")
_TRANSLATED = (
    "amax", "amin", *_REDUCTIONS, "cat", "concat", "concatenate", "hstack", "vstack", "stack",
    "transpose", "swapaxes", "permute", "moveaxis", "movedim", "view", "reshape", "flatten",
)  # fmt: skip
"""Functions whose form is known, whatever they are given."""
_KEPT = re.compile(r"^keepdims?\s*=")
_IS_KEPT = re.compile(r"^keepdims?\s*=\s*[Tt]rue")
_TEXT = "there are no tuples: write"


def tuple_cure(text: str, opening: int) -> Help:
    """Returns what a tuple is written as here; its bracket is at `opening`."""
    inside = bracketed(text, opening)
    items = list(inside[0]) if inside else split_top(re.split(r"[)\]\n]", text[opening + 1 :])[0])
    items = [each for each in items if each]
    listed = f"[{', '.join(items)}]"
    start = text.rfind("\n", 0, opening) + 1
    before = text[start:opening]
    if re.fullmatch(r"\s*return\s*", before):
        return Help("several results are written without brackets", f"return {', '.join(items)}")
    if loop := re.fullmatch(r"\s*for (\w+) in\s*", before):
        return Help(
            "a loop runs over a range: count the iterations, and write "
            f"`values[{loop[1]}]` in them",
            f"values = {listed}\nfor {loop[1]} in 0..len(values):",
        )
    bound = lines_cure(f"{before}{', '.join(items)}") if before.rstrip().endswith("=") else None
    if bound is not None:
        return bound
    called = _enclosing(text, start, opening)
    if called is None:
        return Help(f"there are no tuples: a list is `{listed}`")
    name, bracket = called
    whole = bracketed(text, bracket)
    named = re.search(r"(\w+)\s*=\s*$", before)
    if named and named[1] == "betas" and len(items) == 2:
        return Help(f"they are two arguments: `beta1={items[0]}, beta2={items[1]}`")
    if whole is None:
        return Help(f"there are no tuples: a list is `{listed}`")
    is_piped = re.search(r"\|>\s*(?:[\w.\[\]{}]+:\s*)?\w+$", text[start:bracket]) is not None
    if is_piped and name in _REDUCTIONS and any(map(_IS_KEPT.match, whole[0])):
        return _kept(name, whole[0], text[start:bracket], text[:start])
    found = _of_call(name, whole[0], items, text[:start], is_piped=is_piped)
    return found or Help(f"there are no tuples: a list is `{listed}`")


def _kept(name: str, arguments: Sequence[str], written: str, before: str) -> Help:
    """A reduction behind a pipe with the axes that it is to keep, which are inserted again.

    `written` is its line up to its bracket.
    """
    piped = re.search(r"(?:^|[=(,]|\breturn)\s*(\w+)\s*\|>\s*\w+$", written)
    text = "there are no tuples, and an axis that is reduced is inserted again"
    if piped is None:
        return Help(f"{text}:\ngive what comes before `|>` a name, and write `{name}` of it")
    call = ForeignCall("", name, (piped[1], *arguments), before=block_before(before))
    found = call.of_axes()
    return Help(f"{text},\nin place of `{piped[1]} |> ...`", found.code if found else None)


def lines_cure(line: str) -> Help | None:
    """Returns a line for each name of `a, b = x, y`; None for other lines.

    A name that a later line reads keeps its value under another name, as in `a, b = b, a`.
    """
    found = re.fullmatch(r"\s*(\w+(?:\s*,\s*\w+)+)\s*=(?!=)(.+)", line)
    names = re.split(r"\s*,\s*", found[1]) if found else []
    values = split_top(found[2]) if found else []
    if len(names) != len(values) or not all(values) or not all(map(str.isidentifier, names)):
        return None
    lines = list[str]()
    for at, name in enumerate(names):
        read = re.compile(rf"(?<![\w.])(?<!\|> ){name}\b(?!\s*=(?!=))")
        if any(map(read.search, values[at + 1 :])):
            lines.append(f"{name}_before = {name}")
            values[at + 1 :] = [read.sub(f"{name}_before", each) for each in values[at + 1 :]]
        lines.append(f"{name} = {values[at]}")
    return Help("there are no tuples: write a line for each", "\n".join(lines)) if lines else None


def _of_call(
    name: str, arguments: Sequence[str], items: Sequence[str], before: str, *, is_piped: bool
) -> Help | None:
    """The call with what is in a tuple as it is given here; None for a call that is not known."""
    block = block_before(before)
    if name in _SHAPED:
        given = [f"[{', '.join(items)}]" if _is_tuple(each) else each for each in arguments]
        return Help(_TEXT, f"{name}({', '.join(given)})")
    if not is_piped and name in _TRANSLATED:
        known = ForeignCall("", name, tuple(arguments), before=block).of_axes()
        if known is not None and known.code is not None:
            return Help(_TEXT if known.text == "write" else known.text, known.code)
    if name in _REDUCTIONS:
        rest = [each for each in arguments if not _is_tuple(each) and not _KEPT.match(each)]
        return Help(_TEXT, f"{name}({', '.join([*rest, *items])})")
    given = [_single(each) if _is_tuple(each) else each for each in arguments]
    if all(each is not None for each in given):
        return Help("it is one number for all axes", f"{name}({', '.join(map(str, given))})")
    return None


def _single(argument: str) -> str | None:
    """An argument with the one number that its tuple repeats; None if the numbers differ."""
    name, opening, inside = argument.partition("(")
    items = {each for each in split_top(inside.removesuffix(")")) if each}
    return f"{name}{items.pop()}" if opening and len(items) == 1 else None


def _is_tuple(argument: str) -> bool:
    """True if an argument is a tuple, under the name of an axis, a size or none."""
    value = re.sub(r"^\w+\s*=\s*", "", argument)
    inside = bracketed(value, 0) if value[:1] == "(" else None
    return inside is not None and inside[1] == len(value) and len(inside[0]) > 1


def _enclosing(text: str, start: int, at: int) -> tuple[str, int] | None:
    """The name of the call around a place of a line, and where its bracket opens."""
    depth = 0
    while at > start:
        at -= 1
        depth += (text[at] in ")]") - (text[at] in "([")
        if depth < 0:
            called = re.search(r"[A-Za-z_]\w*$", text[start:at])
            return (called[0], at) if called and text[at] == "(" else None
    return None
