"""Layers of square windows that are given a list: the functions below them, which take lists."""

import re
from collections.abc import Sequence

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax.problems.block_text import split_top

_CALL = re.compile(
    r"(?:(?P<label>[\w.\[\]{}]+):\s*)?(?:conv(?P<axes>[123])d|(?P<pool>max_pool|avg_pool))"
    r"\((?P<given>.*)\)",
    re.DOTALL,
)
_CONVOLUTION = ("c", "k", "stride", "pad", "dilation", "groups", "bias")
_POOL = ("k", "stride", "pad")
_OTHER_NAMES = {"kernel": "k", "kernel_size": "k", "padding": "pad", "strides": "stride"}
_SOURCE = re.compile(r"(?<![\w.)\]])([A-Za-z_]\w*)\s*\|>\s*$")
_BEHIND = ("s0", "t0", "u0")


def as_function(call: Span) -> Help | None:
    """The lines in place of a convolution or a pool whose sides differ; None for other layers.

    `call` is the layer with its label, which is the name of its weights there too.
    """
    found = _CALL.fullmatch(" ".join(call.text.split()))
    if found is None:
        return None
    given = _given(found["given"], _POOL if found["pool"] else _CONVOLUTION)
    source = _SOURCE.search(call.source.text[: call.start])
    x = source[1] if source is not None else "x"
    if "k" not in given or (not found["pool"] and "c" not in given):
        return None
    return _of_pool(found["pool"], given, x) if found["pool"] else _of_convolution(
        found["label"] or "conv", given, int(found["axes"]), x
    )  # fmt: skip


def _given(written: str, places: Sequence[str]) -> dict[str, str]:
    """The arguments of a call by their names here, as they are written."""
    given = dict[str, str]()
    for at, part in enumerate(split_top(written)):
        name, equals, value = part.partition("=")
        name = _OTHER_NAMES.get(name.strip(), name.strip())
        if not equals and at < len(places):
            name, value = places[at], part
        given[name] = value.strip()
    return given


def _sides(written: str, axes: int) -> list[str]:
    """The entries of a list, or a number for each axis."""
    is_list = written.startswith("[") and written.endswith("]")
    return split_top(written[1:-1]) if is_list else [written] * axes


def _of_convolution(label: str, given: dict[str, str], axes: int, x: str) -> Help | None:
    k, groups = _sides(given["k"], axes), given.get("groups", "")
    if len(k) != axes:
        return None
    groups = groups if groups.isalnum() or not groups else f"({groups})"
    channels = f"size({x}, 1) // {groups}" if groups else f"size({x}, 1)"
    weights = f"{channels} * {' * '.join(k)}"
    names = ("stride", "pad", "dilation", "groups")
    options = [f", {name}={given[name]}" for name in names if name in given]
    lines = [
        f"param {label}.weight: [{given['c']}, {channels}, {', '.join(k)}] = kaiming_uniform()",
        f"y = conv({x}, {label}.weight{''.join(options)})",
    ]
    if given.get("bias") != "false":
        behind = ", ".join(_BEHIND[:axes])
        first, last = f"[n0, c0, {behind}]", f"[n0, {behind}, c0]"
        lines.insert(1, f"param {label}.bias: [{given['c']}] = uniform(({weights}) ** -0.5)")
        lines.append(f"y = rearrange(y, {first} -> {last}) + {label}.bias")
        lines.append(f"y = rearrange(y, {last} -> {first})")
    text = (
        "this layer has one number for all axes, and `conv` a list: weights of the same names are"
    )
    return Help(text, "\n".join(lines))


def _of_pool(name: str, given: dict[str, str], x: str) -> Help | None:
    stride, pad = given.get("stride", given["k"]), given.get("pad", "0")
    if name == "max_pool":
        text = "this layer has one number for all axes, and `window_max` a list"
        return Help(text, f"window_max({x}, {given['k']}, {stride}, {pad})")
    k = _sides(given["k"], 2)
    if not given["k"].startswith("["):
        return None
    text = "this layer has one number for all axes, and `conv` a list"
    window = f"full([size({x}, 1), 1, {', '.join(k)}], 1 / ({' * '.join(k)}))"
    padded = f", pad={pad}" if pad != "0" else ""
    return Help(text, f"conv({x}, {window}, stride={stride}{padded}, groups=size({x}, 1))")
