"""Symbols that a proof makes up, none of which is in use already.

A proof stands for all sizes because each is a separate symbol. What is new, such as the index of
a loop or an element of a tensor, must not get a symbol that something else has: what is known of
the one would be taken for true of the other. So each gets its name here, with marks behind it where
that is taken. No program can write a mark.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.values import (
    Axes,
    BlockValue,
    ElabValue,
    NamedTensors,
    OpenText,
    StaticValue,
    TensorList,
    is_condition,
    is_tensor,
)
from meganeura_dsl.symbolic.assumptions import And, Compare, Flag, Not, Or
from meganeura_dsl.symbolic.conditions import flags_in, sizes_in, with_flags, with_sizes
from meganeura_dsl.symbolic.polynomial import variables_of
from meganeura_dsl.symbolic.size import Dim, Size, dim, substitute


def new_symbol(name: str, frame: Frame, *also: Size) -> str:
    """The name, with marks behind it where it is in use, or in one of the sizes `also`."""
    return marked(name, in_use(frame).union(*map(variables_of, also)))


def marked(name: str, taken: Iterable[str]) -> str:
    """The name with as many marks behind it as make it none of those that are taken."""
    known = frozenset(taken)
    while name in known:
        name += "'"
    return name


def in_use(frame: Frame) -> frozenset[str]:
    """The symbols that mean something in a frame, or in one around it."""
    state = frame.state
    used = {*state.values.lasting_symbols, *state.loops.indices, *state.scans}
    for each in (frame, *frame.enclosing()):
        for value in (*each.names.values(), *each.signature.values()):
            used |= symbols_in(value)
    return frozenset(used)


def symbols_in(value: ElabValue) -> frozenset[str]:
    """The symbols that a value, or the type of a tensor, speaks of."""
    if isinstance(value, Dim):
        return value.variables()
    if is_tensor(value):
        return _union(value.type.shape)
    if isinstance(value, Flag | OpenText):
        return frozenset([value.name])
    if is_condition(value):
        return sizes_in(value) | flags_in(value)
    match value:
        case Axes() | list() | tuple():
            return _union(value)
        case TensorList(items=items):
            return _union(items)
        case NamedTensors():
            return _union(value.tensors)
        case BlockValue(config=config):
            return _union(each for _, each in config)
        case _:
            return frozenset()


def _union(values: Iterable[ElabValue]) -> frozenset[str]:
    return frozenset[str]().union(*map(symbols_in, values))


def with_symbols_as(value: StaticValue, names: Mapping[str, str]) -> StaticValue:
    """The value with other names for its symbols, all at once."""
    sizes = {name: dim(other) for name, other in names.items()}
    match value:
        case Flag(name) | OpenText(name):
            return type(value)(names.get(name, name))
        case Compare() | Not() | And() | Or():
            return with_flags(with_sizes(value, sizes), names)
        case _:
            return _changed(value, lambda each: with_symbols_as(each, names), sizes)


def with_values(value: StaticValue, sizes: Mapping[str, Size]) -> StaticValue:
    """The value with sizes for its symbols, all at once."""
    if isinstance(value, Compare | Not | And | Or):
        return with_sizes(value, sizes)
    return _changed(value, lambda each: with_values(each, sizes), sizes)


def _changed(
    value: StaticValue, change: Callable[[StaticValue], StaticValue], sizes: Mapping[str, Size]
) -> StaticValue:
    match value:
        case Dim():
            return substitute(value, sizes)
        case Axes():
            return Axes(substitute(each, sizes) for each in value)
        case list():
            return list(map(change, value))
        case BlockValue(config=config):
            return replace(value, config=tuple((name, change(each)) for name, each in config))
        case _:
            return value
