"""Cures of tensors with more or fewer axes than a layer of the library takes."""

import re
from collections.abc import Sequence

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.problems.parameter_problems import CHANNELS_FIRST
from meganeura_dsl.elaborate.values import Tensor, show_shape
from meganeura_dsl.ir import ops
from meganeura_dsl.symbolic.size import show

_INDEXED = re.compile(r"(?P<name>\w+)\[(?P<index>[^\[\]]*)\]\s*\|>\s*$")
_CONVOLUTION = re.compile(r"(?P<label>(?:[\w.\[\]{}]+:\s*)?)conv(?P<places>[12])d\((?P<rest>.*)")
_RECURRENT = ("lstm", "gru")


def layer_rank_cure(block: str, wanted: int, value: Tensor, call: str, before: str) -> Help | None:
    """The cure of a tensor given to a layer that takes as many axes as `wanted`.

    `call` is the text of the layer, and `before` what stands before it.
    """
    return (
        _whole_axis(wanted, value, call, before)
        or _channels_behind(wanted, value, call)
        or _more_places(value, call)
        or _declared(block, wanted, value)
    )


def _whole_axis(wanted: int, value: Tensor, call: str, before: str) -> Help | None:
    """The value without the index that takes one place of an axis."""
    found = _INDEXED.search(before)
    numbers = re.findall(r"(?:^|,)\s*-?\w+\s*(?=,|$)", found["index"]) if found else []
    if found is None or not numbers or value.type.rank + len(numbers) != wanted:
        return None
    text = "the index leaves one place of an axis, and the layer takes all of them"
    return Help(text, f"{found['name']} |> {call}")


def _channels_behind(wanted: int, value: Tensor, call: str) -> Help | None:
    """One axis of size 1 in the place of channels, where there are two behind all others."""
    shape = value.type.shape
    if len(shape) != wanted + 1 or wanted < 4 or shape[-2:] != (1, 1):
        return None
    names = ["n", *"dhw"[5 - len(shape) + 1 :]][: len(shape) - 2]
    pattern = f"[{', '.join((*names, '1', '1'))}] -> [{', '.join((names[0], '1', *names[1:]))}]"
    text = "channels come before the places, and there is one axis of size 1 too many"
    return Help(text, f"rearrange({pattern}) |> {call}")


def _more_places(value: Tensor, call: str) -> Help | None:
    """The convolution over as many axes as the value has behind its channels."""
    found, places = _CONVOLUTION.fullmatch(" ".join(call.split())), value.type.rank - 2
    if found is None or not int(found["places"]) < places <= 3:
        return None
    text = f"over {places} axes it is"
    return Help(text, f"{found['label']}conv{places}d({found['rest']}")


def counted_twice(
    block: str, wanted: int, value: Tensor, call: str, declared: Sequence[str]
) -> Help | None:
    """The declaration of an input with a number of examples behind the axis that counts them.

    Its last axis is of size 1, as a picture of one channel has it, or the axes `declared` for the
    result of the block are those without the number.
    """
    shape = value.type.shape
    is_number = len(shape) == wanted + 1 >= 4 and isinstance(shape[1], int) and shape[1] > 4
    if not isinstance(value.op, ops.Input) or not is_number or shape[-1] != 1 or shape[-2] == 1:
        return None
    if block in CHANNELS_FIRST:
        rest, is_meant = (1, *shape[2:-1]), shape[1] != shape[2]
    else:
        rest, is_meant = shape[2:], [*declared[:2]] == [show(shape[0]), show(shape[2])]
    if not is_meant:
        return None
    return Help(
        f"the examples are counted by `{show(shape[0])}` alone: if {shape[1]} is their number, "
        f"declare\n`{value.op.name}: {show_shape((shape[0], *rest))}`; if not, drop the axis of "
        "size 1",
        f"rearrange({show_shape(shape)} -> {show_shape(shape[:-1])}) |> {call}",
    )


def _declared(block: str, wanted: int, value: Tensor) -> Help | None:
    """The declaration of an input of the block whose axes are other ones."""
    if not isinstance(value.op, ops.Input):
        return None
    name, shape = value.op.name, value.type.shape
    if block in _RECURRENT and len(shape) == wanted - 1:
        axes = ", ".join((*map(show, shape), "d"))
        return Help("a sequence has numbers at each step: declare how many", f"{name}: [{axes}]")
    if len(shape) == wanted + 1 and isinstance(shape[1], int):
        first = show(shape[0])
        text = (
            f"the examples are counted by `{first}` alone: if {shape[1]} is their number, declare"
        )
        return Help(text, f"{name}: {show_shape((shape[0], *shape[2:]))}")
    return None
