"""The padding that `padding="same"` stands for in PyTorch and TensorFlow, for a given window."""

import re

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.syntax.problems.block_text import split_top

_OTHERS = {
    "k": ("k", "kernel_size", "kernel", "ksize", "size"),
    "stride": ("stride", "strides"),
    "dilation": ("dilation", "dilation_rate"),
}
_PLACES = {"k": 1, "stride": 2, "dilation": 4}
_CALL = re.compile(r"(?:.*:\s*)?(?:(conv([123])d)|max_pool)\((.*)\)")


def same_padding(call: str, argument: str) -> Help | None:
    """The call of a convolution or a pool with the padding that keeps the size.

    `argument` is what asks for it, such as `pad="same"`. With a stride of 1 an odd window has as
    much on both sides, and an even one, as in PyTorch and TensorFlow, one more behind, so that a
    `pad` stands before it. With a stride PyTorch refuses; TensorFlow's padding depends on the
    size, and has more behind. None for a call that gives no window, and for other layers.
    """
    shown = " ".join(call.split())
    found = _CALL.fullmatch(shown)
    given = {} if found is None else _numbers(found[3], is_pool=not found[1])
    if found is None or not given["k"]:
        return None
    k, stride, dilation = given["k"], given["stride"], given["dilation"]
    reach = _product(dilation, k)
    if stride == "1" and (reach is None or reach % 2 == 0):
        half = f"{reach // 2}" if reach is not None else f"{dilation} * ({k} // 2)"
        half = half.removeprefix("1 * ").removeprefix("(").removesuffix(")")
        text = "this keeps the size" if reach is not None else "of an odd window it keeps the size"
        return Help(text, shown.replace(argument, f"pad={half}"))
    if not found[2]:
        return None
    axes = range(2, 2 + int(found[2]))
    without = re.sub(rf",\s*{re.escape(argument)}", "", shown)
    if stride == "1" and reach is not None:
        sides = f"before={reach // 2}, after={reach - reach // 2}"
        pads = " |> ".join(f"pad({axis}, {sides})" for axis in axes)
        text = "this keeps the size: of an even window, more stands behind"
        return Help(text, f"{pads} |> {without}")
    if not stride.isdecimal() or dilation != "1" or not k.isdecimal() or int(k) < int(stride):
        return None
    names = ("more_2", "more_3", "more_4")[: len(axes)]
    lines = [
        f"{name} = (size(x, {axis}) - 1) // {stride} * {stride} + {k} - size(x, {axis})"
        for axis, name in zip(axes, names, strict=True)
    ]
    pads = " |> ".join(
        f"pad({axis}, {name} // 2, {name} - {name} // 2)"
        for axis, name in zip(axes, names, strict=True)
    )
    text = (
        "with a stride PyTorch has no such padding, and TensorFlow's depends on the size: of x,\n"
        "which is piped, more stands behind than before, where `pad=` has as much on both sides"
    )
    return Help(text, "\n".join((*lines, f"x |> {pads} |> {without}")))


def _numbers(inside: str, *, is_pool: bool) -> dict[str, str]:
    """The window, stride and dilation of a call as they are written; empty if not given."""
    parts = split_top(inside)
    named = dict(part.split("=", 1) for part in parts if "=" in part)
    named = {name.strip(): value.strip() for name, value in named.items()}
    by_place = [part.strip() for part in parts if "=" not in part]
    found = dict[str, str]()
    for name, others in _OTHERS.items():
        place = _PLACES[name] - is_pool
        at_place = by_place[place] if place < len(by_place) else ""
        found[name] = next((named[each] for each in others if each in named), at_place)
    found["stride"] = found["stride"] or (found["k"] if is_pool else "1")
    found["dilation"] = found["dilation"] or "1"
    return found


def _product(dilation: str, k: str) -> int | None:
    """The reach of a window over both edges together; None if it is not known."""
    if not (k.isdecimal() and dilation.isdecimal()):
        return None
    return int(dilation) * (int(k) - 1)
