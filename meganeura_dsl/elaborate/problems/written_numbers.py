"""Two different numbers in the text that meet: usually one of them is meant."""

import re

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.problems.window_cures import SourceOf
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.syntax.problems.block_text import split_top

_WRITES = re.compile(
    r"(?:[\w.\[\]{}]+:\s*)?"
    r"(?P<call>\w+)\((?P<given>.*)\)|(?P<input>\w+):\s*\w*\[(?P<axes>[^\]]*)\]"
)
_FILLED = ("zeros", "ones", "full", "random_normal", "random_uniform")


def numbers_cure(
    pair: tuple[Tensor, Tensor], axes: tuple[int, int], source_of: SourceOf
) -> Help | None:
    """Returns the cure for two sides' numbers along an axis, if both are in the text.

    What fills a tensor with numbers is written with that of the other side.
    """
    sizes = [each.type.shape[axis] for each, axis in zip(pair, axes, strict=True)]
    first, second = sizes
    if not isinstance(first, int) or not isinstance(second, int) or 1 in sizes:
        return None
    for value, mine, other in ((pair[1], second, first), (pair[0], first, second)):
        text = _written(value)
        found = re.match(rf"({'|'.join(_FILLED)})\(\[([^\]]*)\]", text)
        entries = split_top(found[2]) if found else []
        if found is not None and entries.count(str(mine)) == 1:
            shape = ", ".join(str(other) if each == str(mine) else each for each in entries)
            text = f"the size {mine} is written here, and the other side has {other}"
            return Help(text, f"{found[1]}([{shape}]{_written(value)[found.end() :]}")
    places = [_place(value, axis, source_of) for value, axis in zip(pair, axes, strict=True)]
    if places[0] is None or places[1] is None or places[0] == places[1]:
        return None
    return Help(
        f"{first} is written in `{places[0]}`, and {second} in `{places[1]}`:\n"
        "if they count the same, write one number in both"
    )


def _written(value: Tensor) -> str:
    return "" if value.origin.span is None else " ".join(value.origin.span.text.split())


def _place(value: Tensor, axis: int, source_of: SourceOf) -> str | None:
    """The call or the input in which the size of an axis is written as a number."""
    size = str(value.type.shape[axis])
    while True:
        applied = source_of(value)
        span = value.origin.span if applied is None else applied.span
        text = "" if span is None else " ".join(span.text.split())
        found = _WRITES.fullmatch(text)
        if found is not None and (found["axes"] or isinstance(value.op, ops.Input)):
            entries = split_top(found["axes"] or "")
            if axis < len(entries) and entries[axis] == size:
                return text
        if found is not None and found["given"] and size in split_top(found["given"])[:1]:
            return text
        operands = value.operands if applied is None else applied.operands
        before = next(
            (
                each
                for each in operands
                if each.type.rank == value.type.rank and str(each.type.shape[axis]) == size
            ),
            None,
        )
        if before is None:
            return None
        value = before
