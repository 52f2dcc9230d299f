"""A graph as egglog commands, one for each value, so that shared work stays one node."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields

from meganeura_dsl.graph.core import Op, Value
from meganeura_dsl.optimize.schema import (
    NotConcreteError,
    constructors,
    is_exact,
    literal,
    type_literal,
)


@dataclass(frozen=True)
class Encoding:
    """The commands that load a graph; an op in `opaque` is known to the e-graph by its place."""

    commands: tuple[str, ...]
    opaque: tuple[Op, ...]


def encode(values: Sequence[Value]) -> Encoding:
    """Every value, in order, as node 0, 1, ... of the e-graph."""
    return _Encoder({value.id: number for number, value in enumerate(values)}).encode(values)


@dataclass
class _Encoder:
    numbers: dict[int, int]
    commands: list[str] = field(default_factory=list[str])
    opaque: list[Op] = field(default_factory=list[Op])
    known: dict[str, str] = field(default_factory=dict[str, str])

    def encode(self, values: Iterable[Value]) -> Encoding:
        for value in values:
            term = self._term(value)
            self.commands.append(f"(set (node {self.numbers[value.id]}) {term})")
        return Encoding(tuple(self.commands), tuple(self.opaque))

    def _term(self, value: Value) -> str:
        op = value.op
        try:
            of = self._shared("t", type_literal(value.type))
            if not is_exact(op):
                self.opaque.append(op)
                return f"(Opaque {len(self.opaque) - 1} {of})"
            constructor = constructors()[type(op).__name__]
            operands = [f"(node {self.numbers[operand.id]})" for operand in value.operands]
            if constructor.arity is None:
                operands = [f"(vec-of {' '.join(operands)})"]
            return f"({constructor.name} {' '.join((*operands, *self._fields(op), of))})"
        except NotConcreteError as error:
            error.add_note(f"in %{value.id} = {type(op).__name__}")
            raise

    def _fields(self, op: Op) -> list[str]:
        sorts = dict(constructors()[type(op).__name__].fields)
        texts = [literal(getattr(op, each.name), sorts[each.name]) for each in fields(op)]
        return [self._shared("a", text) if text.startswith("(vec-of") else text for text in texts]

    def _shared(self, prefix: str, text: str) -> str:
        """A global for what many values repeat: a type, or a vector of sizes."""
        name = self.known.get(text)
        if name is None:
            name = self.known[text] = f"${prefix}{len(self.known)}"
            self.commands.append(f"(let {name} {text})")
        return name
