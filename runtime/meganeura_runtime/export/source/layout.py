"""Statements of Python on lines of at most `WIDTH` columns."""

from collections.abc import Iterator, Sequence

WIDTH = 100
"""Columns of a line, at most."""
SHORT = 20
"""Columns of arguments for which a long chain of methods is not broken."""
_LOOSEST_FIRST = (
    (" or ",), (" and ",), (" == ", " != ", " < ", " <= ", " > ", " >= "), (" | ",), (" & ",),
    (" + ", " - "), (" * ", " / ", " // ", " @ "),
)  # fmt: skip
"""The operators at which a long line is broken."""


def laid_out(text: str, indent: int) -> list[str]:
    """The lines of a statement, broken at its brackets where it is too long."""
    line = " " * indent + text
    if len(line) <= WIDTH:
        return [line]
    pairs = _brackets(text)
    if not pairs:
        return _in_brackets(text, indent)
    start, stop = pairs[-1]
    is_short = stop - start < SHORT and sum(text[at] == "." for at in _outside(text)) > 2
    if start + 1 + indent > WIDTH or is_short:
        if " = " in text or text.startswith("return "):
            return _in_brackets(text, indent)
        start, stop = max(pairs, key=lambda pair: pair[1] - pair[0])
    head, inside, tail = text[: start + 1], text[start + 1 : stop], text[stop:]
    items = split_commas(inside)
    whole = " " * (indent + 4) + inside
    fits = len(whole) <= WIDTH
    is_tuple = head[-1] == "(" and (len(head) == 1 or not (head[-2].isalnum() or head[-2] in "_])"))
    if not inside.strip() or (" for " in inside and _is_comprehension(inside)):
        items = [inside]
    if is_tuple and len(items) == 1 and not inside.endswith(","):
        parts = [inside] if fits else _outermost(inside)
        middle = [line for part in parts for line in laid_out(part, indent + 4)]
    elif fits and not inside.endswith(","):
        middle = [whole]
    elif len(items) == 1 and not is_tuple and _brackets(inside):
        comma = "" if _is_comprehension(inside) or inside.startswith("*") else ","
        middle = laid_out(inside + comma, indent + 4)
    else:
        middle = [line for item in items for line in laid_out(f"{item},", indent + 4)]
    return [" " * indent + head, *middle, *laid_out(tail, indent)]


def _is_comprehension(text: str) -> bool:
    return any(text.startswith(" for ", at) for at in _outside(text))


def _in_brackets(text: str, indent: int) -> list[str]:
    """A long value in brackets, broken at its outermost commas, operators or methods."""
    head, separator, value = text.partition(" = ")
    if not separator and text.startswith("return "):
        head, separator, value = "return", " ", text.removeprefix("return ")
    if not separator:
        return [" " * indent + text]
    parts = [value] if len(value) + indent + 4 <= WIDTH else _outermost(value)
    middle = [line for part in parts for line in laid_out(part, indent + 4)]
    return [" " * indent + f"{head}{separator}(", *middle, " " * indent + ")"]


def _outermost(text: str) -> list[str]:
    """The items of a text, the operands of its loosest operators, or what its methods are of."""
    items = split_commas(text)
    if len(items) > 1:
        return [f"{each}," for each in items]
    for signs in _LOOSEST_FIRST:
        places = [at for at in _outside(text) if text.startswith(signs, at)]
        if places:
            return _cut(text, [at + 1 for at in places])
    dots = [at for at in _outside(text) if text[at] == "." and text[at - 1] in ")]"]
    return _cut(text, dots)


def _cut(text: str, places: Sequence[int]) -> list[str]:
    ends = zip([0, *places], [*places, len(text)], strict=True)
    return [text[start:stop].strip() for start, stop in ends]


def _outside(text: str) -> Iterator[int]:
    """The places of a text that are in no brackets and in no string."""
    depth, quote = 0, ""
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif depth == 0:
            yield at


def _brackets(text: str) -> list[tuple[int, int]]:
    """The places of the outermost brackets that hold anything."""
    outside = {*_outside(text)}
    found: list[tuple[int, int]] = []
    start = 0
    for at, character in enumerate(text):
        if at not in outside and character in "([{" and (at == 0 or at - 1 in outside):
            start = at
        is_end = character in ")]}" and (at + 1 == len(text) or at + 1 in outside)
        if at not in outside and is_end and at > start + 1:
            found.append((start, at))
    return found


def split_commas(text: str) -> list[str]:
    """The items of a list, as they are written."""
    items, start = list[str](), 0
    for at in _outside(text):
        if text[at] == ",":
            items.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*items, last] if last else items
