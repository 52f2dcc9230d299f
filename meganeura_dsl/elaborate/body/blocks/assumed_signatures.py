"""Modular proofs: a call of a proved block has the declared result types, its body is not read."""

from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.typecheck.index_reach import reach_of
from meganeura_dsl.elaborate.typecheck.shape_patterns import solved_names
from meganeura_dsl.elaborate.typecheck.stated_positions import is_position, positions_in
from meganeura_dsl.elaborate.typecheck.symbolic_inputs import REST_RANKS, rest_names
from meganeura_dsl.elaborate.values import (
    Axes,
    BlockValue,
    ElabValue,
    is_condition,
    is_initializer,
    is_number,
    is_size,
    is_tensor,
)
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.assumptions import Compare
from meganeura_dsl.symbolic.size import Dim
from meganeura_dsl.syntax import ast


def may_assume_signature(inner: Frame, block: ast.Block) -> bool:
    """True if the block was proved for the arguments it is given here."""
    proof = inner.state.proof
    if proof is None or proof.flags_if_proved is None:
        return False
    if block.results is None or inner.path in proof.opened:
        return False
    if not (
        all(_covers_input(inner.names[item.name]) for item in block.inputs)
        and not _reaches(inner, block)
        and all(_covers_rest(inner.names[name]) for name in rest_names(block))
        and all(is_known_size(inner, name) for name in solved_names(block))
        and all(_covers(inner, parameter) for parameter in block.parameters)
    ):
        return False
    flags = proof.flags_if_proved(inner.module, block)
    return flags is not None and all(_is_flag(inner.names[name]) for name in flags)


def _covers_input(value: ElabValue) -> bool:
    return is_tensor(value) and value.type.dtype is not DType.F16


def is_known_size(inner: Frame, name: str) -> bool:
    """True if a size that a call solved for is at least 1, as axes are, or is not needed.

    `x: [n, c + k]` takes `k` columns too, where `c` is 0.
    """
    size = inner.names.get(name)
    return size is None or (is_size(size) and inner.facts.proves(Compare(">=", size, 1)))


def _reaches(inner: Frame, block: ast.Block) -> bool:
    """True if the block indexes by an input that may be out of range, and no `where` bounds it.

    Such a block is looked into where it is applied, as its own proof knows nothing of the input.
    """
    return any(
        is_tensor(value := inner.names[item.name])
        and not reach_of(inner, value).is_trivial
        and item.name not in positions_in(block)
        for item in block.inputs
        if is_position(item)
    )


def _is_flag(value: ElabValue) -> bool:
    return is_condition(value) or is_initializer(value)


def _covers_rest(value: ElabValue) -> bool:
    return isinstance(value, Axes) and len(value) in REST_RANKS


def _covers(inner: Frame, parameter: ast.Parameter) -> bool:
    """True if a configuration value is among those a proof takes for all (see `prove`)."""
    if parameter.kind is not None:
        return True  # the value was fitted to the kind
    value = inner.names[parameter.name]
    if isinstance(value, BlockValue):
        return True  # it was proved to fit where it was given
    node = parameter.default
    default = None if node is None else inner.evaluate(node)
    if isinstance(default, int | Dim) and not isinstance(default, bool) and _follows(node):
        # In its own proof it may have been a size, which is 1 or more, whatever it is here.
        return is_size(value) and inner.facts.proves(Compare(">=", value, 1))
    match default:
        case bool():
            return _is_flag(value)
        case int() if default < 0:
            return value == default
        case None | int():
            least = 1 if default is None else min(default, 1)
            return is_size(value) and inner.facts.proves(Compare(">=", value, least))
        case float():
            return is_number(value)
        case _ if is_initializer(default):
            return is_initializer(value)
        case _:
            return type(value) is type(default) and value == default


def _follows(node: ast.Expression | None) -> bool:
    """True if a default is computed from other arguments."""
    return node is not None and any(isinstance(each, ast.Name) for each in walk(node))
