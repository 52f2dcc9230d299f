"""Cures of results whose width a layer makes: the layer with the width that is meant."""

import re
from collections.abc import Collection, Sequence
from math import prod

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.problems.origin_cures import main_operand
from meganeura_dsl.elaborate.problems.sequence_cures import made_from
from meganeura_dsl.elaborate.problems.window_cures import SourceOf
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.symbolic.size import Size, show

_INCOMING = re.compile(
    r"(?P<name>(?:[\w.\[\]{}]+:\s*)?(?:lstm|gru))\((?P<first>\w+), (?P<second>\w+)(?P<rest>[,)].*)"
)
_LINEAR = re.compile(r"(?P<begin>(?:[\w.\[\]{}]+:\s*)?linear\()(?P<width>\d+)(?P<rest>[,)].*)")


_LAYER = re.compile(
    r"(?P<begin>(?:[\w.\[\]{}]+:\s*)?(?:linear|conv(?P<kind>[123])d)\()(?P<width>[^(),=]+)"
    r"(?P<rest>[,)].*)"
)


def width_cure(value: Tensor, at: Sequence[int], wanted: Shape, source_of: SourceOf) -> Help | None:
    """The layer that makes a result of the `wanted` shape, where `at` are the axes that differ."""
    return incoming_cure(value, at, wanted, source_of) or _split_width(value, wanted, source_of)


def _split_width(value: Tensor, wanted: Shape, source_of: SourceOf) -> Help | None:
    """The `linear` that makes as many numbers as `wanted` has, where a `rearrange` splits them."""
    sizes = [size for size in wanted[1:] if isinstance(size, int)]
    if not isinstance(value.op, ops.Reshape) or len(sizes) < max(2, len(wanted) - 1):
        return None
    for each, text in made_from(value.operands[0], source_of):
        found = _LINEAR.fullmatch(text)
        if found is None or each.type.rank != 2 or each.type.shape[-1] != int(found["width"]):
            continue
        shown, count = ", ".join(map(show, wanted)), prod(sizes)
        words = f"[{shown}] has {count} numbers for each of `{show(wanted[0])}`: make as many"
        return Help(words, f"{found['begin']}{count}{found['rest']}")
    return None


def incoming_cure(
    value: Tensor, at: Sequence[int], wanted: Shape, source_of: SourceOf
) -> Help | None:
    """A recurrent layer without the width that comes in, with which it begins in other systems.

    `at` are the axes that differ from `wanted`. None unless its second argument is the wanted size.
    """
    for each, text in made_from(value, source_of):
        found = _INCOMING.fullmatch(text)
        applied = source_of(each)
        if found is None or applied is None or not applied.operands:
            continue
        widths = show(applied.operands[0].type.shape[-1]), *(show(wanted[axis]) for axis in at)
        if widths == (found["first"], found["second"]):
            words = (
                "the width of what comes in is never written, and a second number is that of layers"
            )
            return Help(words, f"{found['name']}({found['second']}{found['rest']}")
    return None


def other_width(value: Tensor, found: Size, wanted: Size, source_of: SourceOf) -> Help | None:
    """The `linear` of another width, where `found` and `wanted` differ in one name alone.

    Such are `e//heads` and `d//heads`: the layer `linear(e)` is to be `linear(d)`.
    """
    names = [set(re.findall(r"[A-Za-z_]\w*", show(size))) for size in (found, wanted)]
    ours, theirs = names[0] - names[1], names[1] - names[0]
    if len(ours) != 1 or len(theirs) != 1:
        return None
    mine, other = *ours, *theirs
    if re.sub(rf"\b{mine}\b", other, show(found)) != show(wanted):
        return None
    for _, text in made_from(value, source_of):
        made = re.fullmatch(rf"((?:[\w.\[\]{{}}]+:\s*)?linear\(){mine}([,)].*)", text)
        if made is not None:
            words = (
                f"it has {show(found)} here, and {show(wanted)} is needed: make it of that width"
            )
            return Help(words, f"{made[1]}{other}{made[2]}")
    return None


def kept_width(
    value: Tensor, axis: int, wanted: Size, name: str, source_of: SourceOf
) -> Help | None:
    """The last of several layers that make the size of an axis, with the size of a residual.

    `name` is the other side, of the size that is `wanted`, and which the block returns.
    """
    made, found = list[str](), value.type.shape[axis]
    while value.type.rank > axis and value.type.shape[axis] == found:
        applied = source_of(value)
        span = value.origin.span if applied is None else applied.span
        text = "" if span is None else " ".join(span.text.split())
        layer = _LAYER.fullmatch(text)
        is_last = axis == value.type.rank - 1
        if layer is not None and (axis == 1 if layer["kind"] else is_last) and text not in made:
            made.append(text)
        before = main_operand(value, source_of)
        if before is None:
            break
        value = before
    layer = _LAYER.fullmatch(made[0]) if len(made) > 1 else None
    if layer is None or "groups=" in layer["rest"]:
        return None
    words = (
        f"a residual keeps the size: the last layer makes {show(found)}, and `{name}` has "
        f"{show(wanted)}, as is returned"
    )
    return Help(words, f"{layer['begin']}{_spaced(wanted)}{layer['rest']}")


def made_width(
    value: Tensor,
    axis: int,
    wanted: Size | None,
    source_of: SourceOf,
    known: Collection[str] = (),
) -> Help | None:
    """The last layer that makes the size of an axis, with the width that is `wanted` there.

    Both are numbers, or of names that are `known`: of the configuration.
    """
    rank, found = value.type.rank, value.type.shape[axis]
    if wanted is None or axis not in (1, rank - 1) or not _is_made_of(known, found, wanted):
        return None
    for each, text in made_from(value, source_of):
        made = _LAYER.fullmatch(text)
        if made is None or not _is_written_as(made["width"], found) or each.type.rank != rank:
            continue
        if axis == (1 if made["kind"] else rank - 1) and each.type.shape[axis] == found:
            words = f"`{text}` makes {show(found)} of them: make {show(wanted)}"
            return Help(words, f"{made['begin']}{_spaced(wanted)}{made['rest']}")
    return None


def _is_made_of(known: Collection[str], *sizes: Size) -> bool:
    """True if sizes are numbers, or products of names that are known."""
    shown = [show(size) for size in sizes]
    names = {name for each in shown for name in re.findall(r"[A-Za-z_]\w*", each)}
    return names <= set(known) and all(re.fullmatch(r"[\w* ]+", each) for each in shown)


def _is_written_as(code: str, size: Size) -> bool:
    return code.replace(" ", "") == show(size).replace(" ", "")


def _spaced(size: Size) -> str:
    return re.sub(r"\*+", r" \g<0> ", show(size))
