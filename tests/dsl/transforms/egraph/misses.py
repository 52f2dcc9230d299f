"""Near misses of a graph: itself with one thing changed that a rule has to ask about."""

from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, get_args, get_type_hints

from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Op, TypeRuleError, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Compare,
    Constant,
    Cos,
    Div,
    Exp,
    Expm1,
    Input,
    Log,
    Log1p,
    Logistic,
    Maximum,
    Minimum,
    Mul,
    ReduceMax,
    Sin,
    Sub,
    Sum,
    Tanh,
    Where,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.symbolic.assumptions import Unproved

SIBLINGS: dict[Op, Op] = {
    Add(): Sub(),
    Sub(): Add(),
    Mul(): Maximum(),
    Div(): Mul(),
    Maximum(): Minimum(),
    Minimum(): Maximum(),
    Sin(): Cos(),
    Cos(): Sin(),
    Exp(): Tanh(),
    Expm1(): Exp(),
    Log(): Log1p(),
    Log1p(): Log(),
    Logistic(): Tanh(),
    Tanh(): Exp(),
}
"""For an op, another of the same operands."""


@dataclass(frozen=True)
class Edit:
    """An edit: the ops of values, by their ids, or the operands or type of the value `at`."""

    at: int = -1
    ops: dict[int, Op] = field(default_factory=dict[int, Op])
    operand: int | None = None
    """This operand is another tensor than where else it is read."""
    swaps: bool = False
    """The last two operands change places."""
    bends: bool = False
    """A relu follows."""


def near_misses(build: Builder, graph: Graph) -> list[Value]:
    """Each near miss of a graph of one output whose values are of `build`, once."""
    (wanted,) = graph.outputs.values()
    found: dict[Value, None] = {}
    for edit in _edits(graph):
        try:
            found[_edited(build, graph, edit)[wanted.id]] = None
        except (TypeRuleError, Unproved):
            continue
    found.pop(wanted, None)
    return list(found)


def _edits(graph: Graph) -> Iterator[Edit]:
    read = [operand.id for value in graph.values for operand in value.operands]
    for value in graph.values:
        for op in _others_of(value.op):
            yield Edit(ops={value.id: op})
        for place, operand in enumerate(value.operands):
            # A leaf with one reader would be the same by another name.
            if not isinstance(operand.op, Leaf) or read.count(operand.id) > 1:
                yield Edit(value.id, operand=place)
        if len(value.operands) > 1 and value.operands[-1].type == value.operands[-2].type:
            yield Edit(value.id, swaps=True)
        if value.operands and value.type.dtype.is_float:
            yield Edit(value.id, bends=True)
    for rank in {value.type.rank for value in graph.values}:
        for axis in range(1, rank):
            yield Edit(ops=_turned(graph, rank, axis))


def _turned(graph: Graph, rank: int, axis: int) -> dict[int, Op]:
    """Sums, maxima and copies of this rank along this axis in place of the one before, and back."""
    other = {axis: axis - 1, axis - 1: axis}
    ops: dict[int, Op] = {}
    for value in graph.values:
        match value.op:
            case Sum(axes=axes) | ReduceMax(axes=axes) if value.operands[0].type.rank == rank:
                pass
            case Broadcast(axes=axes) if value.type.rank == rank:
                pass
            case _:
                continue
        ops[value.id] = replace(value.op, axes=tuple(sorted(other.get(at, at) for at in axes)))
    return ops


def _edited(build: Builder, graph: Graph, edit: Edit) -> dict[int, Value]:
    made: dict[int, Value] = {}
    for value in graph.values:
        operands = [made[operand.id] for operand in value.operands]
        op = edit.ops.get(value.id, value.op)
        if value.id != edit.at:
            made[value.id] = build.add(op, *operands)
            continue
        if edit.operand is not None:
            of = operands[edit.operand].type
            operands[edit.operand] = build.add(Input(f"another {of}", of.dtype, of.shape))
        if edit.swaps:
            operands[-2:] = operands[-1], operands[-2]
        y = build.add(op, *operands)
        made[value.id] = _relu(build, y) if edit.bends else y
    return made


def _relu(build: Builder, x: Value) -> Value:
    zero = full(build, x.type, 0)
    return build.add(Where(), build.add(Compare("le"), x, zero), zero, x)


def _others_of(op: Op) -> Iterator[Op]:
    """A sibling of an op, and itself with other attributes."""
    if op in SIBLINGS:
        yield SIBLINGS[op]
    match op:
        case Leaf():
            return
        case Constant(value=float(value), dtype=dtype):
            yield from (Constant(other, dtype) for other in (-2.0, value / 2, 1.0))
        case Constant(value=value, dtype=dtype):
            yield Constant(not value, dtype)
        case _:
            hints = get_type_hints(type(op))
            names: list[Field[Any]] = list(fields(op))
            for name in (each.name for each in names):
                for other in _others(getattr(op, name), get_args(hints[name])):
                    yield replace(op, **{name: other})


def _others(attribute: object, choices: tuple[object, ...]) -> Iterator[object]:
    """Other values of an attribute, which is one of the choices if it is a word."""
    match attribute:
        case bool():
            yield not attribute
        case str():
            yield from (choice for choice in choices if choice != attribute)
        case int():
            yield from (attribute - 1, attribute + 1)
        case tuple():
            numbers: list[Any] = [*attribute]
            for place, number in enumerate(numbers):
                for other in (number - 1, number + 1):
                    yield (*numbers[:place], other, *numbers[place + 1 :])
            for place in range(1, len(numbers)):
                before, pair = numbers[: place - 1], numbers[place - 1 : place + 1]
                yield (*before, *reversed(pair), *numbers[place + 1 :])
            yield from ((), (0,), (1,))
        case _:
            return
