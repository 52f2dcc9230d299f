"""The text of a block, read without its tree: arguments in brackets, and the axes of a value.

A file that does not parse has no types. So the axes of a value are read from its text: where it is
declared, where it is rearranged, and behind layers that keep or set the last axis.
"""

import re
from collections.abc import Sequence

_SAME_SHAPE = re.compile(
    r"(?:[\w.\[\]{}]+:\s*)?(?:relu|gelu|silu|tanh|sigmoid|softmax|layer_norm|rms_norm|batch_norm"
    r"|dropout)(?:\([^()]*\))?"
)
_LINEAR = re.compile(r"[\w.\[\]{}]+:\s*linear\(\s*([^(),]+?)\s*(?:,[^()]*)?\)")
_WINDOW = re.compile(
    r"(?:[\w.\[\]{}]+:\s*)?(conv[123]d|conv_transpose[123]d|max_pool|avg_pool)\([^()]*\)"
)


def block_before(text: str) -> str:
    """Returns the end of a text, from the last line on that is not indented."""
    return re.split(r"^(?=\S)", text, flags=re.MULTILINE)[-1]


def block_rest(text: str) -> str:
    """Returns the begin of a text, up to the next line that is not indented."""
    end = re.search(r"\n(?=\S)", text)
    return text if end is None else text[: end.start()]


def split_top(text: str) -> list[str]:
    """Splits a text at the commas that are outside of all brackets."""
    found, depth, quoted = [""], 0, False
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == '"':
            depth += -1 if quoted else 1
            quoted = not quoted
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return [each.strip() for each in found]


def bracketed(text: str, start: int) -> tuple[tuple[str, ...], int] | None:
    """The arguments in the brackets that open at a place, and where they end; None if they do not.

    Text beyond the line that holds the opening bracket is read too.
    """
    depth = 0
    for at in range(start, min(len(text), start + 400)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            inside = " ".join(text[start + 1 : at].split())
            return (tuple(split_top(inside)) if inside else ()), at + 1
    return None


def bare(value: str) -> str:
    """A value without the brackets around all of it."""
    inside = bracketed(value, 0) if value[:1] == "(" else None
    return value[1:-1] if inside is not None and inside[1] == len(value) else value


def value_before(text: str) -> str:
    """The value that ends a text: a name with brackets behind it, or brackets alone."""
    at = len(text)
    while at > 0 and (text[at - 1] in ")]" or re.match(r"[\w.]", text[at - 1])):
        if text[at - 1] not in ")]":
            at -= 1
            continue
        depth, back = 0, at
        while back > 0:
            back -= 1
            depth += (text[back] in ")]") - (text[back] in "([")
            if depth == 0:
                break
        if depth:
            return ""
        at = back
    return text[at:]


def axes_of(value: str, before: str) -> list[str] | None:
    """The axes of a value by the text of its block up to here; None if that does not say them."""
    if not re.fullmatch(r"[A-Za-z_]\w*", value):
        return _axes_behind(value, before) if value.startswith("rearrange(") else None
    bound = list(
        re.finditer(rf"^[ \t]+{value}\s*=\s*(\S.*(?:\n[ \t]+\|>.*)*)$", before, re.MULTILINE)
    )
    if bound:
        return _axes_behind(bound[-1][1].strip(), before[: bound[-1].start()])
    found = re.search(rf"\b{value}:\s*(?:f32|f16|i32|u32|bool)?\[([^\]]*)\]", before)
    return None if found is None else split_top(found[1])


def _axes_behind(written: str, before: str) -> list[str] | None:
    """The axes of what a name is bound to."""
    pattern = re.search(r"->\s*\[([^\]]*)\]\s*\)$", written)
    if pattern is not None:
        return split_top(pattern[1])
    first, *steps = (each.strip() for each in written.split("|>"))
    axes = axes_of(first, before)
    for step in steps:
        linear, window = _LINEAR.fullmatch(step), _WINDOW.fullmatch(step)
        if axes and linear:
            axes = [*axes[:-1], linear[1]]
        elif axes and window:
            axes = _behind_window(axes, window[1], before)
        elif not _SAME_SHAPE.fullmatch(step):
            return None
    return axes


def _behind_window(axes: Sequence[str], layer: str, before: str) -> list[str]:
    """The axes behind a convolution or pooling, of whose sizes that of the first is kept."""
    pools = layer.endswith("pool")
    names = ["l"] if layer.endswith("1d") else ["z", "h", "w"] if layer.endswith("3d") else "hw"
    longer = {"c": "channels", "l": "steps", "z": "planes", "h": "rows", "w": "columns"}
    declared = set(re.findall(r"\w+", block_before(before)))
    free = [longer[each] if each in declared else each for each in ("c", *names)]
    kept = axes[1] if pools and len(axes) == len(free) + 1 else free[0]
    return [axes[0], kept, *free[1:]]
