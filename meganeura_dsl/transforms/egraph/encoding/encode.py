"""A graph as tables of numbers, a row for each value, and the rules that make them an e-graph.

A command of egglog takes longer than a row of a table. So what values repeat, their attributes and
types, is given by commands, and the values themselves by what they refer to:

    (types 3 (T "f32" (vec-of 2 5)))   (form-Sum 7 (vec-of 1))   values-1: 12 7 3 11
    value 12 is the sum over axis 1 of value 11
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import NamedTuple

from meganeura_dsl.ir.graph import Body, Leaf, Op, Value
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.transforms.egraph.encoding.egglog_engine import Engine
from meganeura_dsl.transforms.egraph.encoding.schema import (
    OPAQUE,
    Constructor,
    NotConcreteError,
    constructor_name,
    constructors,
    is_exact,
    literal,
    type_literal,
)

LEAVES = "leaves"
PARAMETERS = "parameters"
LOAD = "(run-schedule (run loading))"

Row = tuple[int, ...]
Shape = tuple[str, int]
"""A constructor's name, and how many operands it has."""


class Use(NamedTuple):
    """An op that is no leaf, the type of its result, and how many operands it has."""

    op: Op
    of: TensorType
    arity: int

    @property
    def constructor(self) -> str:
        """The name of the constructor."""
        return constructor_name(type(self.op), self.arity)


@dataclass(frozen=True)
class Encoding:
    """The text that loads a graph: commands, then rows of tables.

    Ops that are `opaque`, and `bodies`, are known by their place.

    `types` and `uses` say what the graph is made of, each once.
    """

    commands: tuple[str, ...]
    tables: dict[str, list[Row]]
    opaque: tuple[Op, ...]
    bodies: tuple[Body, ...]
    types: tuple[TensorType, ...]
    uses: tuple[Use, ...]

    @property
    def shapes(self) -> frozenset[Shape]:
        """The shapes that the loading rules depend on."""
        return frozenset((use.constructor, use.arity) for use in self.uses)

    def load(self, engine: Engine) -> None:
        """Add the graph to an e-graph, which `loading` has given its shapes."""
        engine.execute(self.commands)
        engine.load(self.tables)
        engine.run(LOAD)


def loading(shapes: Iterable[Shape]) -> Iterator[str]:
    """The tables of graphs whose values have these shapes, and the rules that read them."""
    known = sorted(set(shapes))
    yield "(ruleset loading)"
    yield "(function types (i64) Type :no-merge)"
    yield f"(relation {LEAVES} (i64 i64 i64))"
    yield f"(relation {PARAMETERS} (i64))"
    leaf = _inserted(f"({OPAQUE} f t)")
    yield f"(rule (({LEAVES} i f k) (= t (types k))) {leaf} :ruleset loading)"
    for count in sorted({count for _, count in known}):
        yield f"(relation values-{count} (i64 i64 i64{' i64' * count}))"
    for name in sorted({constructors()[name].op.__name__ for name, _ in known}):
        yield f"(relation form-{name} (i64 {' '.join(constructors()[name].attributes)}))"
    for name, count in known:
        yield _rule(constructors()[name], count)


def _rule(constructor: Constructor, count: int) -> str:
    positions = [f"x{position}" for position in range(count)]
    attributes = [f"a{position}" for position in range(len(constructor.attributes))]
    operands = [f"(Value {position})" for position in positions]
    if constructor.arity is None:
        operands = [f"(vec-of {' '.join(operands)})"]
    row = f"(values-{count} {' '.join(('i', 'f', 'k', *positions))})"
    form = f"(form-{constructor.op.__name__} {' '.join(('f', *attributes))})"
    inserted = _inserted(f"({' '.join((constructor.name, *operands, *attributes, 't'))})")
    return f"(rule ({row} (= t (types k)) {form}) {inserted} :ruleset loading)"


def _inserted(term: str) -> str:
    return f"((let v (Value i)) (union v {term}) (set (type v) t))"


def encode(values: Sequence[Value]) -> Encoding:
    """Every value, in order, as `(Value 0)`, `(Value 1)`, ... of the e-graph."""
    return _Encoder({value.id: number for number, value in enumerate(values)}).encode(values)


@dataclass
class _Encoder:
    """`kinds` are the types that are one object, which are met again and again, by its id."""

    numbers: dict[int, int]
    commands: list[str] = field(default_factory=list[str])
    tables: dict[str, list[Row]] = field(default_factory=dict[str, list[Row]])
    rows: dict[int, list[Row]] = field(default_factory=dict[int, list[Row]])
    opaque: list[Op] = field(default_factory=list[Op])
    bodies: dict[Body, int] = field(default_factory=dict[Body, int])
    forms: dict[tuple[Op, int], int] = field(default_factory=dict[tuple[Op, int], int])
    types: dict[TensorType, int] = field(default_factory=dict[TensorType, int])
    kinds: dict[int, int] = field(default_factory=dict[int, int])
    uses: dict[tuple[int, int, int], Use] = field(default_factory=dict[tuple[int, int, int], Use])

    def encode(self, values: Iterable[Value]) -> Encoding:
        for number, value in enumerate(values):
            try:
                self._add(number, value)
            except NotConcreteError as error:
                error.add_note(f"in %{value.id} = {type(value.op).__name__}")
                raise
        rows = {f"values-{count}": rows for count, rows in self.rows.items()}
        return Encoding(
            tuple(self.commands),
            {**self.tables, **rows},
            tuple(self.opaque),
            tuple(self.bodies),
            tuple(self.types),
            tuple(self.uses.values()),
        )

    def _add(self, number: int, value: Value) -> None:
        op, kind = value.op, self.kinds.get(id(value.type), -1)
        if kind < 0:
            kind = self.kinds[id(value.type)] = self._type(value.type)
        if type(op) not in _without_reals() and (isinstance(op, Leaf) or not is_exact(op)):
            self.tables.setdefault(LEAVES, []).append((number, len(self.opaque), kind))
            self.opaque.append(op)
            if isinstance(op, Parameter):
                self.tables.setdefault(PARAMETERS, []).append((number,))
            return
        form = self.forms.get((op, value.index))
        if form is None:
            form = self.forms[op, value.index] = len(self.forms)
            written = " ".join(self._attributes(op, value.index))
            self.commands.append(f"(form-{type(op).__name__} {form} {written})")
        operands = tuple([self.numbers[operand.id] for operand in value.operands])
        use = (form, kind, len(operands))
        if use not in self.uses:
            self.uses[use] = Use(op, value.type, len(operands))
        self.rows.setdefault(len(operands), []).append((number, form, kind, *operands))

    def _type(self, of: TensorType) -> int:
        number = self.types.get(of)
        if number is None:
            number = self.types[of] = len(self.types)
            self.commands.append(f"(set (types {number}) {type_literal(of)})")
        return number

    def _attributes(self, op: Op, index: int) -> Iterator[str]:
        sorts = dict(constructors()[type(op).__name__].fields)
        for each in fields(op):
            given = getattr(op, each.name)
            if isinstance(given, Body):
                yield str(self.bodies.setdefault(given, len(self.bodies)))
            else:
                yield literal(given, sorts[each.name])
        if op.multiple_results:
            yield str(index)


@cache
def _without_reals() -> frozenset[type[Op]]:
    return frozenset(each.op for each in constructors().values() if not each.has_reals)
