"""Cures of shapes that differ on one path alone: the condition of the choice that leads there."""

import re
from collections.abc import Sequence

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.layout_cures import NO_CHANNELS
from meganeura_dsl.elaborate.problems.shape_cures import is_written
from meganeura_dsl.symbolic.size import Size, show, substitute
from meganeura_dsl.syntax.problems.block_text import block_before

_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def path_cure(
    span: Span, names: Sequence[str], sizes: tuple[Size, Size], path: Sequence[str]
) -> Help | None:
    """The `if` before, which brings a side to another shape, made to hold where sizes differ too.

    `span` is where the sides meet, `names` are theirs, and `path` are the conditions that hold. The
    `if` has no `else`, binds one of the names, and its condition does not hold.
    """
    text = span.source.text[: span.start]
    block = block_before(text).split("\n")
    first, second = (re.sub(r"(?<=\w)\*(?=\w)", " * ", show(size)) for size in sizes)
    differing = f"{first} != {second}"
    for name in _only_in_one(*sizes):
        if substitute(sizes[0], {name: 1}) == substitute(sizes[1], {name: 1}):
            differing = f"{name} != 1"
            break
    else:
        if not (is_written(first) and is_written(second)) or "//" in first + second:
            return None
    holding = {each.replace(" ", "") for each in path}
    for at in range(len(block) - 1, -1, -1):
        found = re.fullmatch(r"(?P<indent> +)if (?P<condition>.+?):\s*(?:#.*)?", block[at])
        if found is None or _opposite(found["condition"]) not in holding:
            continue
        body = list[str]()
        for line in block[at + 1 :]:
            if line.strip() and not line.startswith(found["indent"] + " "):
                break
            body.append(line.strip())
        after = block[at + 1 + len(body) :]
        is_whole = not any(re.match(rf"{found['indent']}(else|elif)\b", line) for line in after[:1])
        if is_whole and any(re.match(rf"{name} *=", line) for line in body for name in names):
            return Help(
                f"nothing makes {first} and {second} equal on this path: let the branch be taken\n"
                "where they differ too",
                f"if {found['condition']} or {differing}:",
            )
    return None


def narrowed(span: Span, sizes: tuple[Size, Size], path: Sequence[str]) -> Help | None:
    """The `if` around, with the question whether two numbers of channels are equal as well.

    `span` is where the sides meet, and `path` are the conditions that hold. None for sizes of
    places, and for an `if` that binds more than a name or whose condition does not hold.
    """
    first, second = map(show, sizes)
    if not (first.isidentifier() and second.isidentifier()) or {first, second} & NO_CHANNELS:
        return None
    before, _, line = block_before(span.source.text[: span.start]).rpartition("\n")
    found = re.search(r"\n(?P<indent> +)if (?P<condition>[^\n#]+?):[^\n]*$", before)
    if found is None or not re.match(rf"{found['indent']} +\w+ *=", line):
        return None
    condition = found["condition"]
    if condition.replace(" ", "") not in {each.replace(" ", "") for each in path}:
        return None
    asked = f"({condition})" if " or " in condition else condition
    return Help(
        f"nothing makes {first} and {second} equal on this path: let it be taken only where they "
        "are",
        f"if {asked} and {first} == {second}:",
    )


def other_question(
    span: Span, sides: Sequence[tuple[str, Sequence[str]]], sizes: tuple[Size, Size], path: str
) -> tuple[Span, Help] | None:
    """The condition of an `if` before that asks for another axis than the one that differs.

    `span` is where the sides meet, `sides` are their names and axes, and `path` is the condition
    that holds, an equality. The condition asks one of the differing `sizes`, and in place of the
    other one another axis of the same side.
    """
    held = re.fullmatch(r"(\w+) == (\w+)", path)
    first, second = map(show, sizes)
    if held is None or not (first.isidentifier() and second.isidentifier()):
        return None
    for asked, kept in (held.groups(), held.groups()[::-1]):
        meant = {first: second, second: first}.get(kept, "")
        axes = [axes for _, axes in sides if meant in axes and asked in axes]
        if not axes or asked in (first, second):
            continue
        text = span.source.text
        begin = span.start - len(block_before(text[: span.start]))
        asking = re.compile(r"^ +if (.+?):\s*(?:#.*)?$", re.MULTILINE)
        found = next(iter([*asking.finditer(text[begin : span.start])][-1:]), None)
        words = rf"\b{asked}\b"
        if found is None or not re.fullmatch(r"\w+ [!=]= \w+", found[1]):
            continue
        if {asked, kept} != set(re.split(r" [!=]= ", found[1])):
            continue
        at = Span(span.source, begin + found.start(1), begin + found.end(1))
        text = f"what meets below is {meant} and {kept}, and this asks for {asked}"
        return at, Help(text, f"if {re.sub(words, meant, found[1])}:")
    return None


def _only_in_one(left: Size, right: Size) -> list[str]:
    """The names that one of two sizes has and the other has not."""
    first, second = (
        set[str]() if isinstance(size, int) else set(size.variables()) for size in (left, right)
    )
    return sorted(first ^ second)


def _opposite(condition: str) -> str:
    """A condition as it is shown on the path where it does not hold, without its spaces."""
    compared = re.fullmatch(r"(.+?) (==|!=|<=|>=|<|>) (.+)", condition)
    if compared is None:
        return f"not{condition}"
    shown = f"{compared[1]}{_OPPOSITE[compared[2]]}{compared[3]}"
    return shown.replace(" ", "")
