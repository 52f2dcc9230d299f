"""The e-graph as plain Python: classes of nodes, each node an op again, with its attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from meganeura_dsl.ir.graph import Body, Op
from meganeura_dsl.ir.ops import Constant, Iota
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.transforms.egraph.encoding.egglog_engine import Engine, Tables
from meganeura_dsl.transforms.egraph.encoding.schema import (
    OPAQUE,
    Attribute,
    Constructor,
    Sort,
    constructors,
)

if TYPE_CHECKING:
    from meganeura_dsl.transforms.egraph.encoding.egglog_engine import Cell


@dataclass(frozen=True, slots=True)
class Node:
    """One way to compute a class: a result of an op applied to classes."""

    op: Op
    operands: tuple[int, ...]
    owner: int
    index: int = 0


@dataclass(frozen=True)
class EGraphSnapshot:
    """All classes of a saturated e-graph. Classes and nodes are known by number.

    `values` gives the class of each encoded value, `constant` the classes that can be computed
    before the first run, and `why` the rules that rewrote a class.
    """

    nodes: tuple[Node, ...]
    classes: tuple[tuple[int, ...], ...]
    types: tuple[TensorType, ...]
    values: tuple[int, ...]
    constant: frozenset[int]
    why: dict[int, tuple[str, ...]]


def applications(nodes: Sequence[Node]) -> list[list[int]]:
    """The nodes that are results of the same application, for ops with several results."""
    found: dict[tuple[Op, tuple[int, ...]], list[int]] = {}
    for number, node in enumerate(nodes):
        if node.op.multiple_results:
            found.setdefault((node.op, node.operands), []).append(number)
    return list(found.values())


def snapshot(
    engine: Engine,
    opaque: Sequence[Op],
    bodies: Sequence[Body] = (),
    constant: Iterable[int] = (),
) -> EGraphSnapshot:
    """Returns the present content of the e-graph, with some of its values constant.

    Ops that are `opaque`, and `bodies`, are known there by their place.
    """
    return _Reader(engine, opaque, bodies).read(constant)


def _known(nodes: Sequence[Node], start: Iterable[int]) -> frozenset[int]:
    """Some classes, and those that a node computes from them alone."""
    users: dict[int, list[Node]] = {}
    for node in nodes:
        for operand in node.operands:
            users.setdefault(operand, []).append(node)
    known = set(start)
    fresh = [node.owner for node in nodes if isinstance(node.op, Constant | Iota)] + list(known)
    known.update(fresh)
    while fresh:
        for user in users.get(fresh.pop(), ()):
            if user.owner not in known and known.issuperset(user.operands):
                known.add(user.owner)
                fresh.append(user.owner)
    return frozenset(known)


@dataclass
class _Reader:
    engine: Engine
    opaque: Sequence[Op]
    bodies: Sequence[Body]
    numbers: dict[Cell, int] = field(default_factory=dict["Cell", int])
    attributes: dict[tuple[Sort, Cell], Attribute] = field(
        default_factory=dict[tuple[Sort, "Cell"], Attribute]
    )

    def read(self, constant: Iterable[int]) -> EGraphSnapshot:
        tables = self.engine.tables()
        named = {self.engine.integer(number): node for (number,), node in tables.rows("Value")}
        values = tuple([self._class(named[number]) for number in range(len(named))])
        start = [values[number] for number in constant]
        nodes = [
            Node(self.opaque[self.engine.integer(cells[0])], (), self._class(node))
            for cells, node in tables.rows(OPAQUE)
        ]
        for name, constructor in constructors().items():
            nodes += self._nodes(constructor, tables.rows(name))
        return EGraphSnapshot(
            tuple(nodes),
            self._classes(nodes),
            self._types(tables),
            values,
            _known(nodes, start) if start else frozenset(),
            self._why(tables.rows("why")),
        )

    def _nodes(
        self, constructor: Constructor, rows: Iterable[tuple[Sequence[Cell], Cell]]
    ) -> list[Node]:
        arity = 1 if constructor.arity is None else constructor.arity
        numbers, ops = self.numbers, dict[tuple["Cell", ...], tuple[Op, int]]()
        nodes: list[Node] = []
        for cells, result in rows:
            operands = cells[:arity]
            if constructor.arity is None:
                operands = self.engine.vector(operands[0])
            key = tuple(cells[arity:-1])
            known = ops.get(key)
            if known is None:
                known = ops[key] = self._op(constructor, key)
            op, index = known
            node = tuple([numbers.setdefault(cell, len(numbers)) for cell in operands])
            nodes.append(Node(op, node, numbers.setdefault(result, len(numbers)), index))
        return nodes

    def _op(self, constructor: Constructor, cells: tuple[Cell, ...]) -> tuple[Op, int]:
        """The op of these attributes, and which of its results is meant."""
        count = len(constructor.fields)
        named = zip(constructor.fields, cells[:count], strict=True)
        node = constructor.make({name: self._attribute(sort, cell) for (name, sort), cell in named})
        return node, self.engine.integer(cells[count]) if cells[count:] else 0

    def _class(self, cell: Cell) -> int:
        return self.numbers.setdefault(cell, len(self.numbers))

    def _attribute(self, sort: Sort, cell: Cell) -> Attribute:
        key = (sort, cell)
        if key not in self.attributes:
            read: dict[Sort, Callable[[Cell], Attribute]] = {
                "i64": self.engine.integer,
                "f64": self.engine.real,
                "bool": self.engine.boolean,
                "String": self.engine.text,
                "Ints": self._integers,
                "Body": self._body,
            }
            self.attributes[key] = read[sort](cell)
        return self.attributes[key]

    def _body(self, cell: Cell) -> Body:
        return self.bodies[self.engine.integer(cell)]

    def _integers(self, cell: Cell) -> tuple[int, ...]:
        return tuple(map(self.engine.integer, self.engine.vector(cell)))

    def _classes(self, nodes: Sequence[Node]) -> tuple[tuple[int, ...], ...]:
        members: list[list[int]] = [[] for _ in self.numbers]
        for number, node in enumerate(nodes):
            members[node.owner].append(number)
        return tuple(map(tuple, members))

    def _types(self, tables: Tables) -> tuple[TensorType, ...]:
        known = {
            of: TensorType(DType(self.engine.text(dtype)), self._integers(shape))
            for (dtype, shape), of in tables.rows("T")
        }
        types = {self._class(node): known[of] for (node,), of in tables.rows("type")}
        return tuple([types[number] for number in range(len(self.numbers))])

    def _why(self, rows: Iterable[tuple[Sequence[Cell], Cell]]) -> dict[int, tuple[str, ...]]:
        found: dict[int, list[str]] = {}
        for (node, name), _ in rows:
            found.setdefault(self._class(node), []).append(self.engine.text(name))
        return {number: tuple(sorted(names)) for number, names in found.items()}
