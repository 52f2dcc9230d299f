"""Cures of results that come from sequences `[n, s, d]`: a step to take, channels to move."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.problems.shape_cures import is_written
from meganeura_dsl.elaborate.problems.window_cures import Same, SourceOf, causal_part
from meganeura_dsl.elaborate.values import ElabValue, Tensor, is_tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.symbolic.size import show

RECURRENT = re.compile(r"\b(?:rnn|lstm|gru|recurrent|mamba)\w*\(", re.IGNORECASE)
"""The layers that give the outputs of all steps, in a text."""
_CONVOLUTION = re.compile(r"(?:[\w.\[\]{}]+:\s*)?(conv1d|depthwise_conv1d)\(.*\)")
_OF_PICTURES = re.compile(r"(?:[\w.\[\]{}]+:\s*)?(conv2d|depthwise_conv2d)\(.*\)")


def made_from(value: Tensor, source_of: SourceOf) -> Iterator[tuple[Tensor, str]]:
    """A value and all it was computed from, each with the text that computes it.

    Layers are followed of whose results only the type is known.
    """
    rest, seen = [value], set[int]()
    while rest:
        value = rest.pop()
        if value.id in seen:
            continue
        seen.add(value.id)
        applied = source_of(value)
        span = value.origin.span if applied is None else applied.span
        rest.extend(value.operands if applied is None else applied.operands)
        yield value, "" if span is None else " ".join(span.text.split())


def last_step_cure(
    value: Tensor,
    written: str,
    wanted: Shape,
    named: Mapping[str, ElabValue],
    source_of: SourceOf,
) -> Help | None:
    """The last step of a recurrent network in place of all, where a result has an axis too many.

    None unless a scan or a recurrent layer made the value.
    """
    found = tuple(map(show, value.type.shape))
    if len(found) < 3 or (found[0], *found[2:]) != tuple(map(show, wanted)):
        return None
    made = made_from(value, source_of)
    if not any(isinstance(each.op, ops.Scan) or RECURRENT.search(text) for each, text in made):
        return None
    begin = re.match(r"\w+", written)
    first = named.get(begin[0], "") if begin is not None else ""
    if begin is None or not is_tensor(first) or first.type.rank < 2:
        return None
    if first.type.shape[1] != value.type.shape[1] or written[begin.end() :].startswith(("(", "[")):
        return None
    mean = "|> mean(1)" if "|>" in written else f"mean({written}, 1)"
    text = f"there are all steps here: take the last one; their mean is `{mean}`"
    return Help(text, f"{begin[0]}[:, -1]{written[begin.end() :]}")


def picture_last_cure(value: Tensor, wanted: Shape, same: Same, source_of: SourceOf) -> Help | None:
    """A `conv2d` between two rearrangements, where a picture with channels last was given to it.

    `wanted` is what is declared, with the channels of the result on the last axis.
    """
    if value.type.rank != len(wanted) or len(wanted) != 4 or same(value.type.shape[1], wanted[1]):
        return None
    if not same(value.type.shape[1], wanted[3]):
        return None
    for each, text in made_from(value, source_of):
        if not _OF_PICTURES.fullmatch(text) or each.type.rank != 4:
            continue
        applied = source_of(each)
        given = each.operands if applied is None else applied.operands
        source = next((one for one in given if one.type.rank == 4), None)
        if source is None or source.type.shape[3] not in (1, 3, 4):
            continue
        (n, h, w, few), c = map(show, source.type.shape), show(each.type.shape[1])
        if not all(map(is_written, (n, h, w, few, c))):
            return None
        is_kept = same(source.type.shape[1], wanted[1]) and same(source.type.shape[2], wanted[2])
        rows, columns = (h, w) if is_kept else ("rows", "columns")
        return Help(
            f"the channels are taken from axis 1, which is {h} here: move them there, and back",
            f"rearrange([{n}, {h}, {w}, {few}] -> [{n}, {few}, {h}, {w}]) |> {text} "
            f"|> rearrange([{n}, {c}, {rows}, {columns}] -> [{n}, {rows}, {columns}, {c}])",
        )
    return None


def tokens_last_cure(first: Tensor, other: Tensor, source_of: SourceOf) -> Help | None:
    """The places of a picture as tokens with their channels last, where they were left on axis 1.

    None unless layers over the last axis made the other value of them.
    """
    made = list(made_from(other, source_of))
    if first.type.rank != 3 or all(each is not first for each, _ in made):
        return None
    is_over_last = any(re.search(r"\b(?:linear|attention)\(", text) for _, text in made)
    span = first.origin.span
    code = " ".join(span.text.split()) if span is not None else ""
    joined = re.fullmatch(
        r"rearrange\((.*?)\[(\w+), (\w+), (\w+), (\w+)\] -> \[\2, \3, \4 \* \5\]\)", code
    )
    if joined is None or not is_over_last:
        return None
    before, n, c, h, w = joined.groups()
    text = "layers over tokens take their channels from the last axis: bring them there"
    return Help(text, f"rearrange({before}[{n}, {c}, {h}, {w}] -> [{n}, {h} * {w}, {c}])")


def causal_result(
    value: Tensor, written: str, wanted: Shape, same: Same, source_of: SourceOf
) -> Help | None:
    """The first steps of a result that a `conv1d` with the padding of a causal one makes longer.

    `written` is the result as the block returns it. None unless its other axes are as wanted.
    """
    found = value.type.shape
    if len(found) != 3 or len(wanted) != 3 or not all(map(same, found[:2], wanted[:2])):
        return None
    code = f"({written})" if "|>" in written else written
    for each, _ in made_from(value, source_of):
        applied = source_of(each)
        if applied is None or each.type.shape != found:
            continue
        cure = causal_part(code, (wanted[2], found[2]), applied, same)
        if cure is not None:
            return replace(cure, code=f"{code}[:, :, :{show(wanted[2])}]")
    return None


def channels_last_cure(
    value: Tensor, wanted: Shape, same: Same, source_of: SourceOf
) -> Help | None:
    """A `conv1d` between two rearrangements, where a sequence with channels last was given to it.

    `wanted` is what is declared: the axes of the result, the last two of them exchanged.
    """
    if value.type.rank != 3 or len(wanted) != 3 or same(value.type.shape[1], wanted[1]):
        return None
    if not same(value.type.shape[1], wanted[2]):
        return None
    last = ""
    for each, text in made_from(value, source_of):
        if not _CONVOLUTION.fullmatch(text) or each.type.rank != 3:
            continue
        last = last or text
        applied = source_of(each)
        given = each.operands if applied is None else applied.operands
        source = next((one for one in given if one.type.rank == 3), None)
        if source is None or not same(source.type.shape[1], wanted[1]):
            continue
        (n, s, d), c = map(show, source.type.shape), show(each.type.shape[1])
        if not all(map(is_written, (n, s, d, c))):
            return None
        there, back = (f"rearrange([{n}, {s}, {d}] -> [{n}, {d}, {s}]) |> {text}", last)
        last_channels = show(value.type.shape[1])
        code = there if text == last else f"{there}\n{back}"
        return Help(
            f"the channels are taken from axis 1, which is {s} here: move them there, and back",
            f"{code} |> rearrange([{n}, {last_channels}, {s}] -> [{n}, {s}, {last_channels}])",
        )
    return None
