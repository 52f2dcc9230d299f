"""Loops of Python over lists, tensors and iterators, written as loops over a range.

What a name of the header was is said for the body, which takes the parts by the number of the
iteration.
"""

import re
from dataclasses import dataclass

from meganeura_dsl.syntax.problems.block_text import bracketed, split_top

_NAME = r"[A-Za-z_]\w*"
_NUMBERS = ("i", "j", "k", "r", "at")
"""Names of the number of an iteration, of which the first is taken that is not used."""

_LISTS = ("values", "items", "parts")
"""Candidate names for a list written in the header; the first unused one is taken."""


@dataclass(frozen=True)
class Iterations:
    """A header of a loop over a range, and what is written for the names of the one it was."""

    header: str
    before: str = ""
    """A line before the loop, which gives a name to a list that the header holds."""
    names: tuple[tuple[str, str], ...] = ()
    """The removed names, each with its replacement in the body."""


def iterations_of(keyword: str, names: str, over: str, block: str) -> Iterations | None:
    """Returns the loop over a range that `keyword names in over:` is; None if that is not known.

    `block` is the text of the declaration, in which lists and inputs are distinguished.
    """
    names, over = " ".join(names.split()), " ".join(over.split())
    backwards = (called := _argument("reversed", over)) is not None
    over = over if called is None else called
    number = ""
    counted = _argument("enumerate", over)
    if counted is not None:
        first, _, rest = names.partition(",")
        if not re.fullmatch(_NAME, first.strip()) or len(split_top(counted)) != 1:
            return None
        number, names, over = first.strip(), rest.strip(), counted
    zipped = _argument("zip", over)
    values = [over] if zipped is None else split_top(zipped)
    targets = [each.strip() for each in names.strip("()").split(",")]
    if not all(re.fullmatch(_NAME, each) for each in targets) or len(targets) != len(values):
        return None
    span = _span(values[0], block) if zipped is None and counted is None else None
    if span is not None:
        return _counted(keyword, targets[0], span, backwards=backwards)
    before = ""
    if len(values) == 1 and values[0].startswith("["):
        listed = next((each for each in _LISTS if not _is_in(each, block)), "all_of_them")
        before, values = f"{listed} = {values[0]}", [listed]
    elif not all(re.fullmatch(_NAME, each) for each in values):
        return None
    number = (
        number
        if number.strip("_")
        else next((each for each in _NUMBERS if not _is_in(each, block)), "round")
    )
    most = f"len({values[0]})" if before else _length(values[0], block)
    if not most:
        return None
    at = f"{most} - 1 - {number}" if backwards else number
    gone = tuple(
        (target, f"{value}[{at}]")
        for target, value in zip(targets, values, strict=True)
        if target.strip("_")
    )
    return Iterations(f"{keyword} {number} in 0..{most}:", before, gone)


def _counted(
    keyword: str, number: str, span: tuple[str, str, str], *, backwards: bool
) -> Iterations | None:
    """Returns the loop over the numbers of a `range`: its first, the one behind its last, its step.

    None for steps that are no numbers, and for those of which the last number is not known.
    """
    first, stop, step = span
    if step == "1" and not backwards:
        return Iterations(f"{keyword} {number} in {first}..{stop}:")
    if step == "1" and first == "0":
        names = ((number, f"{stop} - 1 - {number}"),)
        return Iterations(f"{keyword} {number} in 0..{stop}:", names=names)
    if not all(re.fullmatch(r"-?\d+", each) for each in span) or not int(step):
        return None
    numbers = range(int(first), int(stop), int(step))
    numbers = numbers[::-1] if backwards else numbers
    if len(numbers) < 2:
        return None
    times = f"{abs(numbers.step)} * {number}" if abs(numbers.step) > 1 else number
    begin = "" if not numbers.start and numbers.step > 0 else f"{numbers.start} + "
    begin = begin if numbers.step > 0 else f"{numbers.start} - "
    return Iterations(f"{keyword} {number} in 0..{len(numbers)}:", names=((number, begin + times),))


def _argument(function: str, text: str) -> str | None:
    """Returns the argument if a text is one call of the function; None otherwise."""
    if not text.startswith(f"{function}("):
        return None
    called = bracketed(text, len(function))
    return text[len(function) + 1 : -1].strip() if called and called[1] == len(text) else None


def _span(value: str, block: str) -> tuple[str, str, str] | None:
    """Returns the first number, the one behind the last, and the step; None for other values."""
    ranged = _argument("range", value)
    if ranged is not None:
        given = split_top(ranged)
        if len(given) > 3 or not all(given):
            return None
        first, stop = ("0", given[0]) if len(given) == 1 else given[:2]
        return first, stop, given[2] if len(given) == 3 else "1"
    if _argument("len", value) is not None or value.isdecimal():
        return "0", value, "1"
    header = block.partition(":\n")[0]
    is_declared = re.search(rf"[(,\[] ?{value} ?[,)\]]", header) is not None
    return ("0", value, "1") if is_declared and not _length(value, block) else None


def _length(value: str, block: str) -> str:
    """Returns code for the length of a list or of a tensor's first axis; empty for others."""
    if re.search(rf"[(,] ?{value}: *(?:f32|f16|i32|u32|bool)? *\[", block):
        return f"size({value}, 0)"
    is_list = re.search(rf"\b{value}(?:: *list\b| *= *\[|\[)|\blen\({value}\)", block)
    return f"len({value})" if is_list else ""


def _is_in(name: str, block: str) -> bool:
    return re.search(rf"\b{name}\b", block) is not None
