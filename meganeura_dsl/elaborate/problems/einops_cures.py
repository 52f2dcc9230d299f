"""Patterns that are written as texts of einops, in the form that they have here."""

import re

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.syntax.problems.block_text import split_top

_TEXT = re.compile(r'"(?P<source>[\w\s()]+)->(?P<target>[\w\s()]+)"')
_ENTRY = re.compile(r"\(([^()]*)\)|(\w+)")
_NAMED = re.compile(r"([A-Za-z_]\w*)\s*=(?!=)\s*(.+)")


def of_text(callee: str, call: str) -> Help | None:
    """Returns the call with a pattern in place of a text, behind the sizes that are given by name.

    `repeat` is `expand` here, which joins no axes. None without such a text.
    """
    found = _TEXT.search(call)
    if found is None or callee not in ("rearrange", "repeat", "expand"):
        return None
    source, target = _axes(found["source"]), _axes(found["target"])
    if source is None or target is None:
        return None
    text = "a pattern has no quotes, its axes are in brackets, and a product has its `*`"
    if callee != "rearrange" and any("*" in each for each in (*source, *target)):
        return None
    pattern = f"[{', '.join(source)}] -> [{', '.join(target)}]"
    given = split_top(call[found.end() :].strip().removesuffix(")"))
    named = [match for each in given if (match := _NAMED.fullmatch(each))]
    sizes = [(each[1], each[2]) for each in named if each[1] != each[2]]
    rest = [each for each in given if not _NAMED.fullmatch(each)]
    code = f"{call[: found.start()]}{', '.join([pattern, *filter(None, rest)])})"
    if callee == "repeat":
        code = re.sub(r"\brepeat\(", "expand(", code, count=1)
    if sizes:
        text += ";\na size is named before, on a line of its own"
    return Help(text, "\n".join([*(f"{name} = {value}" for name, value in sizes), code]))


def _axes(side: str) -> list[str] | None:
    """Returns the entries of one side of a text; None if its brackets do not match."""
    if _ENTRY.sub("", side).strip():
        return None
    return [" * ".join(joined.split()) or name or "1" for joined, name in _ENTRY.findall(side)]
