"""Loops that treat their last iteration in another way than the others.

With layers of its own in each branch such a loop is not proved at once; with that iteration behind
it, it is. The first iteration is proved by itself anyway.
"""

from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.syntax import ast

LAST = ("{i}<{end}", "{i}!={end}", "{i}=={end}", "{i}>={end}",
        "{i}+1<{stop}", "{i}+1!={stop}", "{i}+1=={stop}", "{i}+1>={stop}")  # fmt: skip
"""Conditions that hold in the last iteration alone, or in all others."""


def with_last_apart(condition: ast.Expression, block: ast.Block) -> str:
    """The form of the loop around a condition that tells the last iteration, or nothing."""
    loops = [
        each
        for each in walk(block)
        if isinstance(each, ast.For) and any(node is condition for node in walk(each))
    ]
    if not loops:
        return ""
    index, start, stop = (
        " ".join(each.span.text.split())
        for each in (loops[-1].variable, loops[-1].start, loops[-1].stop)
    )
    words = {"i": index, "stop": _plain(stop), "end": f"{_plain(stop)}-1"}
    if _plain(condition.span.text) not in {each.format(**words) for each in LAST}:
        return ""
    return f"`for {index} in {start}..{stop} - 1:`, and the last iteration behind it"


def _plain(text: str) -> str:
    return "".join(text.split())
