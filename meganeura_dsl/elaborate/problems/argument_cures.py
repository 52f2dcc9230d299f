"""Cures of arguments that do not fit an input, from the call as it is written."""

import re
from collections.abc import Sequence

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.habits import top_level
from meganeura_dsl.elaborate.problems.shape_cures import Side


def argument_order(call: str, inputs: Sequence[str]) -> Help | None:
    """The call with arguments in the order of the inputs, if they are called as those are."""
    found = re.fullmatch(r"(\w+)\((.*)\)", " ".join(call.split()))
    if found is None:
        return None
    given = top_level(found[2])
    places = [each for each in given if "=" not in each]
    if len(places) < 2 or sorted(places) != sorted(inputs[: len(places)]):
        return None
    wanted = list(inputs[: len(places)])
    if wanted == places:
        return None
    order = ", ".join([*wanted, *(each for each in given if "=" in each)])
    text = f"its inputs are {', '.join(f'`{each}`' for each in wanted)}, in this order"
    return Help(text, f"{found[1]}({order})")


def insertion_cure(given: Side, wanted: Sequence[str]) -> Help | None:
    """How axes come to be inserted where a pattern cannot name them, as two are of one size.

    The axes that are there are the last of their size, as those of the keys are in a mask.
    """
    rest, missing = list(given.axes), list[int]()
    for place in reversed(range(len(wanted))):
        if rest and rest[-1] == wanted[place]:
            rest.pop()
        else:
            missing.append(place)
    if rest:
        return None
    code = given.written
    for place in reversed(missing):
        code = f"insert_axis({code}, {place}, {wanted[place]})"
    return Help("repeat it along the other axes", code)


def conversion(span: Span, name: str, place: int, wanted: str, shape: str) -> Help:
    """How an argument of another element type is converted, in the words of the call."""
    to = wanted.split(" ", maxsplit=1)[0]
    given = re.fullmatch(r"(?:[\w.]+:\s*)?(\w+)\((.*)\)", " ".join(span.text.split()))
    piped = re.search(r"([A-Za-z_]\w*)\s*\|>\s*$", span.source.text[: span.start])
    arguments = top_level(given[2]) if given else []
    named = [each.partition("=")[2].strip() for each in arguments if each.startswith(f"{name}=")]
    value = "..."
    if named:
        value = named[0]
    elif piped and place == 0:
        value = piped[1]
    elif not piped and place < len(arguments) and "=" not in arguments[place]:
        value = arguments[place]
    is_index = to == "i32"
    text = f"declare what comes in as `{to}{shape}`, or convert it" if is_index else "convert it"
    return Help(text, f"{to}({value})")
