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


def prediction_first(call: str) -> Help | None:
    """The call of a loss whose two arguments are in the other order."""
    found = re.fullmatch(r"(\w+)\((.*)\)", " ".join(call.split()))
    given = top_level(found[2]) if found else []
    if found is None or len(given) != 2 or any("=" in each for each in given):
        return None
    return Help("the prediction comes first", f"{found[1]}({given[1]}, {given[0]})")


def rank_cure(block: str, value: str, axes: Sequence[str]) -> Help | None:
    """How a tensor comes to the axes that a layer of the library takes, by what it is for."""
    shown = value if re.fullmatch(r"\w+", value) else "x"
    if block == "attention" and len(axes) == 3:
        first, second = axes[:2]
        return Help(
            "split it into heads",
            f"rearrange({shown}, [{first}, {second}, heads * e] -> [{first}, heads, {second}, e])",
        )
    if block in ("conv2d", "max_pool", "avg_pool", "depthwise_conv2d") and len(axes) == 3:
        first, *rest = axes
        one = f"[{first}, {', '.join(rest)}] -> [{first}, 1, {', '.join(rest)}]"
        return Help("pictures have channels, as axis 1", f"rearrange({shown}, {one})")
    return None
