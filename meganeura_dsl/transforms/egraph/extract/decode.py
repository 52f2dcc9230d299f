"""Decodes chosen nodes to graphs: the one that runs, and the one that is run once before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Origin, Value
from meganeura_dsl.ir.ops import Input, Parameter
from meganeura_dsl.transforms.egraph.encoding.egraph_snapshot import EGraphSnapshot, Node
from meganeura_dsl.transforms.egraph.saturate.saturation import OptimizerError

NOWHERE = Origin()


@dataclass(frozen=True)
class Roots:
    """The classes a graph is evaluated for, by name."""

    outputs: Mapping[str, int]
    updates: Mapping[str, int]

    @property
    def all(self) -> tuple[int, ...]:
        """Each root once."""
        return tuple(dict.fromkeys((*self.outputs.values(), *self.updates.values())))


@dataclass
class Decoder:
    """Builds the values of chosen nodes.

    A value has the origin of the first value of its class; one that a rule invented has the origin
    of the value it was made for. A class in `stored` becomes the parameter of that name.
    """

    found: EGraphSnapshot
    choice: Mapping[int, int]
    origins: Mapping[int, Origin]
    stored: Mapping[int, Parameter] = field(default_factory=dict[int, Parameter])
    build: Builder = field(default_factory=Builder)
    built: dict[int, Value] = field(default_factory=dict[int, Value])
    checked: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]])

    @cached_property
    def kinds(self) -> list[int]:
        """The number of the object that is the type of each class."""
        return list(map(id, self.found.types))

    def declare(self, leaves: Sequence[Value]) -> None:
        """Make leaves first and in this order, whether or not they are used."""
        for leaf in leaves:
            self.build.origin = leaf.origin
            self.build.add_typed(leaf.op, leaf.type)

    def graph(self, roots: Roots, order: Sequence[int] = ()) -> Graph:
        """The graph of these roots, its classes made in this order where they can be.

        A kernel that runs earlier than it must keeps its result in memory; one that runs later
        keeps its operands. The order of the program is that of differentiation, which is good.
        """
        for number in (*order, *roots.all):
            if number not in self.built:
                self._make(number)
        return self.build.graph(
            {name: self.built[number] for name, number in roots.outputs.items()},
            {name: self.built[number] for name, number in roots.updates.items()},
        )

    def _make(self, root: int) -> None:
        stack = [(root, NOWHERE, False)]
        while stack:
            number, inherited, ready = stack.pop()
            if number in self.built:
                continue
            origin = self.origins.get(number, inherited)
            missing = () if ready or number in self.stored else self._missing(number)
            if not missing:
                self.built[number] = self._value(number, origin)
                continue
            stack.append((number, inherited, True))
            stack += [(operand, origin, False) for operand in reversed(missing)]

    def _missing(self, number: int) -> list[int]:
        operands = self.found.nodes[self.choice[number]].operands
        return [operand for operand in operands if operand not in self.built]

    def _value(self, number: int, origin: Origin) -> Value:
        self.build.origin = origin
        stored = self.stored.get(number)
        if stored is not None:
            return self.build.add(stored)
        node = self.found.nodes[self.choice[number]]
        self._check(number, node)
        operands = [self.built[operand] for operand in node.operands]
        of = self.found.types[number]
        return self.build.add_typed(node.op, of, *operands, index=node.index)

    def _check(self, number: int, node: Node) -> None:
        """Hold the type of a class against the type rule; ops and types of one kind once."""
        kinds = self.kinds
        key = (id(node.op), node.index, kinds[number], *[kinds[each] for each in node.operands])
        if key in self.checked or isinstance(node.op, Leaf):
            return
        self.checked.add(key)
        types = self.found.types
        operands = [types[each] for each in node.operands]
        inferred = node.op.result_types(self.build.facts, *operands)[node.index]
        if inferred != types[number]:
            rules = ", ".join(f"`{name}`" for name in self.found.why.get(number, ()))
            raise OptimizerError(
                f"a {types[number]} was rewritten to `{type(node.op).__name__}`,"
                f" which gives a {inferred}; rules that rewrote it: {rules}"
            )


def leaves_of(graph: Graph) -> list[Value]:
    """The inputs and parameters of a graph, in order."""
    return [value for value in graph.values if isinstance(value.op, Leaf)]


def inputs_of(graph: Graph) -> list[Value]:
    """The inputs of a graph, in order."""
    return [value for value in graph.values if isinstance(value.op, Input)]


def first_origins(graph: Graph, classes: Sequence[int]) -> dict[int, Origin]:
    """The origin of the first value of each class that has one."""
    origins: dict[int, Origin] = {}
    for value, number in zip(graph.values, classes, strict=True):
        origins.setdefault(number, value.origin)
    return origins
