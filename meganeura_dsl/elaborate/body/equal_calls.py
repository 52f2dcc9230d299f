"""In a check, a call that was seen before: of the same block, with equal arguments.

A network repeats its layers. That a layer's arguments fit its signature and that its `where` holds
follows from their types, their numbers and the facts alone, so it is found once for equal calls.
"""

from collections.abc import Hashable, Sequence

from meganeura_dsl.elaborate.body.layer_templates import is_hashable, with_types
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.summary import EqualCall, Summary
from meganeura_dsl.elaborate.typecheck.positions import whole_number
from meganeura_dsl.elaborate.typecheck.signatures import Arguments
from meganeura_dsl.elaborate.values import BlockValue, Evaluated, Tensor, is_tensor
from meganeura_dsl.ir.types import DType
from meganeura_dsl.syntax import ast


def tensors_of(arguments: Arguments) -> list[Tensor]:
    """The tensors of a call, in order."""
    values = (*arguments.positional, *arguments.named.values())
    return [value for value in values if is_tensor(value)]


def call_key(inner: Frame, block: ast.Block, arguments: Arguments) -> Hashable:
    """What equal calls have in common, or None if nothing tells that they are equal."""
    state = inner.state
    if state.shared or state.indices or state.scans:
        return None
    given = tensors_of(arguments)
    if len({value.id for value in given}) != len(given):
        return None
    parts: list[Hashable] = []
    for value in (*arguments.positional, *arguments.named.values()):
        part = _part(inner, value)
        if part is None:
            return None
        parts.append(part)
    key = (
        block, inner.may_own, state.training, state.frozen, state.generalized, state.numbers,
        inner.facts,
        len(arguments.positional), tuple(arguments.named), tuple(parts),
    )  # fmt: skip
    return key if is_hashable(key) else None


def _part(inner: Frame, value: Evaluated) -> Hashable:
    """What is known of an argument, or None if that is more than can be compared."""
    if not is_tensor(value):
        is_layer = isinstance(value, BlockValue) and value.path is not None
        return None if is_layer else with_types(value)
    number = inner.state.neutral.get(value.id)
    whole = None
    if value.type.dtype is DType.I32:
        whole = whole_number(inner.state, value)
        if whole is None:
            return None
    return value.type, type(number), number, whole


def inputs_of(call: EqualCall, arguments: Arguments) -> list[Tensor | None]:
    """The tensors that are the inputs of the block; None for a default."""
    given = tensors_of(arguments)
    return [None if slot is None else given[slot] for slot in call.slots]


def equal_call(summary: Summary, inputs: Sequence[Tensor], arguments: Arguments) -> EqualCall:
    """What is remembered of a call whose block had these inputs."""
    given = {value.id: slot for slot, value in enumerate(tensors_of(arguments))}
    return EqualCall(summary, tuple(given.get(value.id) for value in inputs))
