"""Ops, values and graphs. They define each other, so they share a file."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.ir.traits import ANCHORS, ElementCost, Operands, Trait, Traits
from meganeura_dsl.ir.types import DType, Shape, TensorType, element_count, size_in_bytes
from meganeura_dsl.limits.work_budget import require_values
from meganeura_dsl.startup.lazy_numpy import Array
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.symbolic.conditions import Compare
from meganeura_dsl.symbolic.size import Size


class TypeRuleError(Exception):
    """Operands an op's type rule refuses for their rank or element type, not for a size."""


class NotDifferentiableError(Exception):
    """A gradient was asked through an op that has none."""


@dataclass(frozen=True)
class Op:
    """One op: its fields are the static attributes, its methods the facets.

    A class declares what passes ask of it; one that does not, and is not marked `abstract`, is
    refused with a `TypeError` when it is defined. The base takes anything, named or not, so that
    each op can name its operands.
    """

    operands: ClassVar[Operands]
    """The operands, by name; the only place that says how many there are."""
    traits: ClassVar[Traits]
    """Traits: how the elements of the result depend on those of the operands."""
    element_cost: ClassVar[ElementCost]
    """The cost of one more element where the result is read."""
    flops_per_element: ClassVar[int] = 1
    """Additions and multiplications, about, for each element of its largest operand or result."""
    multiple_results: ClassVar[bool] = False
    """True if the op has several results; its methods then take and return tuples of them."""

    @property
    def bodies(self) -> tuple[Body, ...]:
        """The graphs among its attributes."""
        return ()

    def __init_subclass__(cls, *, abstract: bool = False) -> None:
        if not abstract:
            cls.require_declared()

    @classmethod
    def require_declared(cls) -> None:
        """Raise `TypeError` where the class leaves out what has no default."""
        traits: Traits = getattr(cls, "traits", frozenset())
        names = ["operands", "traits", "element_cost", "infer"]
        names += ["evaluate"] if not traits & {Trait.LEAF, Trait.LOOP} else []
        names += ["flops"] if traits & _COUNT_THEMSELVES else []
        missing = [name for name in names if getattr(cls, name, None) is getattr(Op, name, None)]
        if missing:
            raise TypeError(f"the op `{cls.__name__}` does not declare {', '.join(missing)}")

    def infer(self, facts: Facts, *operands: Any, **_: Any) -> TensorType | tuple[TensorType, ...]:
        """The type rule: the type of the result, or of each, from `facts` and the operands' types.

        Raises `TypeRuleError`, or `Unproved` where a size condition cannot be shown.
        """
        raise NotImplementedError

    def result_types(self, facts: Facts, *operands: TensorType) -> tuple[TensorType, ...]:
        """The type of each result; raises what `infer` raises."""
        inferred = self.infer(facts, *operands)
        return inferred if isinstance(inferred, tuple) else (inferred,)

    def evaluate(self, *operands: Any, **_: Any) -> Array | tuple[Array, ...]:
        """The reference semantics in NumPy. The caller stores each result in the type inferred.

        A leaf is given, and the iterations of a loop are run by who runs the graph.
        """
        raise NotImplementedError

    def evaluate_all(self, *operands: Any) -> tuple[Array, ...]:
        """Each result in NumPy."""
        found = self.evaluate(*operands)
        return found if isinstance(found, tuple) else (found,)

    def pullback(self, build: Builder, out: Any, cotangent: Any) -> tuple[Value | None, ...]:
        """The cotangent of each operand of `out`, None where it has none.

        Every returned value is linear in `cotangent`. Of an op with several results, `out` is the
        tuple of them, and `cotangent` has None for each that the loss does not depend on.
        """
        raise NotDifferentiableError(f"`{type(self).__name__}` has no gradient")

    def branch_index(self, build: Builder, out: Value) -> Value | None:
        """Returns the number of the smooth branch that each element of `out` is on.

        The numbers are added to `build` and differ between branches. None for a smooth op.
        """
        return None

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        """Additions and multiplications, about.

        An op that is free computes indices alone, which nobody counts.
        """
        if self.element_cost is ElementCost.FREE:
            return 0
        return self.flops_per_element * max(map(element_count, (*operands, result)))

    def bytes_read(self, operand: TensorType, result: TensorType) -> int:
        """Bytes that are read of an operand at least: here all of it."""
        return size_in_bytes(operand)

    def index_operands(self, *operands: Any, **_: Any) -> tuple[tuple[int, Size], ...]:
        """The operands that are indices, by number, and how many things each of them chooses from.

        An index is one of 0 ... count - 1; what may be another number is proved or checked.
        """
        return ()

    def fusible_reduction_axes(self, rank: int) -> tuple[int, ...] | None:
        """The axes it reduces, of an operand of this rank, in one pass with others that do.

        None where no kernel makes it together with other reductions of the same rows.
        """
        return None


_COUNT_THEMSELVES: Traits = ANCHORS - {Trait.REDUCTION}
"""Ops that compute more than once with an element count their arithmetic themselves."""


@dataclass(frozen=True)
class Leaf(Op, abstract=True):
    """A tensor given from outside under a name, which no other leaf of its graph has."""

    operands = Operands()
    traits = frozenset({Trait.LEAF})
    element_cost = ElementCost.LOAD
    is_persistent: ClassVar[bool]
    """True if its value stays from one run to the next, so that a graph may update it."""

    name: str
    dtype: DType
    shape: Shape

    def infer(self, facts: Facts) -> TensorType:
        """The type declared, which has no empty axis."""
        for size in self.shape:
            if not isinstance(size, int) or size < 1:
                facts.require(Compare(">=", size, 1), f"every size of `{self.name}` is at least 1")
        return TensorType(self.dtype, self.shape)


@dataclass(frozen=True)
class Bound(Leaf):
    """A leaf of a loop's body that differs between iterations, while the body is built only."""

    is_persistent = False


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a value: a place in a .mgn file and the path of its layer."""

    span: Span | None = None
    path: str = ""

    @property
    def location(self) -> str:
        """File and line, `net.mgn:7`; empty where they are not known."""
        return f"{self.span.source.name}:{self.span.line}" if self.span else ""

    def __str__(self) -> str:
        """Location and path, `net.mgn:7 layer1.0`, as far as they are known."""
        return " ".join(part for part in (self.location, self.path) if part)


Application = tuple[Op, tuple[int, ...]]
"""An op, and the ids of the values it is applied to."""


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A result of an op applied to operands: the one of number `index`.

    Values compare by identity; `id` is their rank in creation order. The results of one application
    are values of the same op and the same operands; a graph holds those of them that are used.
    """

    id: int
    op: Op
    operands: tuple[Value, ...] = field(repr=False)
    type: TensorType
    origin: Origin = field(default=Origin(), repr=False)
    index: int = 0

    @property
    def application(self) -> Application:
        """The application that gives this result; equal for all its results."""
        return self.op, tuple([operand.id for operand in self.operands])


@dataclass(frozen=True, eq=False)
class Graph:
    """A closed DAG.

    `values` are in topological order and hold all that `outputs` and `updates` reach, plus every
    leaf that was declared. `updates` maps the name of a parameter or state to its next value.
    """

    values: tuple[Value, ...]
    outputs: Mapping[str, Value]
    updates: Mapping[str, Value] = field(default_factory=dict[str, Value])

    @property
    def roots(self) -> tuple[Value, ...]:
        """Everything the graph is evaluated for: outputs, then updates."""
        return (*self.outputs.values(), *self.updates.values())


@dataclass(frozen=True, eq=False)
class Body:
    """A graph that is an attribute of an op. Two are equal if they differ in origins alone."""

    graph: Graph

    @cached_property
    def inputs(self) -> Mapping[str, Value]:
        """Its leaves, by name."""
        leaves = (value for value in self.graph.values if isinstance(value.op, Leaf))
        return {value.op.name: value for value in leaves if isinstance(value.op, Leaf)}

    @cached_property
    def computation(self) -> Hashable:
        """A key of the computation, equal for all of its results."""
        return tuple(
            (value.op, tuple(self.numbers[each.id] for each in value.operands), value.index)
            for value in self.graph.values
        )

    @cached_property
    def numbers(self) -> Mapping[int, int]:
        """The position of each value in the graph, by its id."""
        return {value.id: number for number, value in enumerate(self.graph.values)}

    @cached_property
    def _key(self) -> Hashable:
        outputs = self.graph.outputs.items()
        return self.computation, tuple((name, self.numbers[value.id]) for name, value in outputs)

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Body) and (self is other or self._key == other._key)

    def __hash__(self) -> int:
        return self._hash


_Interned = dict[Application, Value]


class Builder:
    """Makes values, each distinct (op, operands) once, so that shared work is one node."""

    def __init__(self, facts: Facts | None = None) -> None:
        self.origin = Origin()
        self._values: list[Value] = []
        self._skipped = 0
        self._interned: _Interned = {}
        self._interned_under: dict[Facts, _Interned] = {}
        self.facts = Facts() if facts is None else facts

    @property
    def facts(self) -> Facts:
        """The facts that type rules may use. A value of other facts is built and proved again."""
        return self._facts

    @facts.setter
    def facts(self, facts: Facts) -> None:
        self._facts = facts
        self._interned = self._interned_under.setdefault(facts, {})

    @property
    def values(self) -> tuple[Value, ...]:
        """All values made so far, in order."""
        return tuple(self._values)

    @property
    def count(self) -> int:
        """The number of values added so far."""
        return len(self._values)

    @property
    def total(self) -> int:
        """The number of values added so far, with those that were skipped."""
        return len(self._values) + self._skipped

    def skip(self, count: int) -> None:
        """Count values that are not added, so that as many may follow as if they were."""
        self._skipped += count

    def values_from(self, start: int) -> list[Value]:
        """The values made since there were `start` of them."""
        return self._values[start:]

    def add(self, op: Op, *operands: Value) -> Value:
        """The first result of `op` applied to `operands`; raises what `op.infer` raises."""
        key = (op, tuple([operand.id for operand in operands]))
        known = self._interned.get(key)
        if known is not None:
            return known
        if not op.operands.accepts(len(operands)):
            raise TypeError(f"`{type(op).__name__}` takes {op.operands}, not {len(operands)}")
        inferred = op.infer(self._facts, *[operand.type for operand in operands])
        return self._make(key, op, operands, inferred)

    def add_all(self, op: Op, *operands: Value) -> tuple[Value, ...]:
        """All results of `op` applied to `operands`; raises what `op.infer` raises."""
        return self.results_of(self.add(op, *operands))

    def add_typed(self, op: Op, inferred: TensorType, *operands: Value, index: int = 0) -> Value:
        """A result of `op` where its type rule gave `inferred` for operands of the same types."""
        if op.multiple_results:
            return self._values[self.add(op, *operands).id + index]
        key = (op, tuple([operand.id for operand in operands]))
        known = self._interned.get(key)
        return self._make(key, op, operands, inferred) if known is None else known

    def add_new(self, op: Op, type_: TensorType, *operands: Value) -> Value:
        """The one result of an op of which there is no other like it, as two leaves have one name.

        It is not looked for, and its type is not inferred.
        """
        require_values(self.total)
        value = Value(len(self._values), op, operands, type_, self.origin)
        self._values.append(value)
        return value

    def add_leaves(self, ops: Sequence[Op], types: Sequence[TensorType]) -> Sequence[Value]:
        """Leaves of names that are new, as `add_new` adds them."""
        require_values(self.total, len(ops))
        start = len(self._values)
        self._values += [
            Value(number, op, (), type_, self.origin)
            for number, (op, type_) in enumerate(zip(ops, types, strict=True), start)
        ]
        return self._values[start:]

    def reapply(self, value: Value, *operands: Value) -> Value:
        """The same result of the same op as `value`, of other operands."""
        return self._values[self.add(value.op, *operands).id + value.index]

    def results_of(self, value: Value) -> tuple[Value, ...]:
        """All results of the application that a value of this builder is a result of."""
        if not value.op.multiple_results:
            return (value,)
        first = value.id - value.index
        stop = first + 1
        while stop < len(self._values) and self._values[stop].index:
            stop += 1
        return tuple(self._values[first:stop])

    def _make(
        self,
        key: Application,
        op: Op,
        operands: tuple[Value, ...],
        inferred: TensorType | tuple[TensorType, ...],
    ) -> Value:
        """The first result, followed by the others."""
        require_values(self.total)
        types = inferred if isinstance(inferred, tuple) else (inferred,)
        first = Value(len(self._values), op, operands, types[0], self.origin)
        self._values.append(first)
        self._interned[key] = first
        if len(types) > 1:
            self._values += [
                Value(first.id + index, op, operands, each, self.origin, index)
                for index, each in enumerate(types[1:], start=1)
            ]
        return first

    @contextmanager
    def at(self, origin: Origin) -> Generator[None]:
        """Values made inside are said to come from `origin`."""
        before, self.origin = self.origin, origin
        try:
            yield
        finally:
            self.origin = before

    def graph(
        self, outputs: Mapping[str, Value], updates: Mapping[str, Value] | None = None
    ) -> Graph:
        """The graph of what `outputs` and `updates` reach, and of every leaf."""
        updates = {} if updates is None else dict(updates)
        live = reachable((*outputs.values(), *updates.values()))
        kept = tuple(
            value
            for value in self._values
            if value.id in live or (isinstance(value.op, Leaf) and not isinstance(value.op, Bound))
        )
        return Graph(kept, dict(outputs), updates)


def dependencies(roots: Iterable[Value], held: Container[int] = ()) -> tuple[Value, ...]:
    """All values the roots depend on, the roots included, in the order they were made.

    What only values of the ids `held` depend on is left out.
    """
    seen: dict[int, Value] = {}
    stack = list(roots)
    while stack:
        value = stack.pop()
        if value.id not in seen:
            seen[value.id] = value
            stack.extend(() if value.id in held else value.operands)
    return tuple(seen[number] for number in sorted(seen))


def by_application(values: Iterable[Value]) -> list[list[Value]]:
    """Values in order, those of them together that are results of one application."""
    found: dict[Application | int, list[Value]] = {}
    for value in values:
        key = value.application if value.op.multiple_results else value.id
        found.setdefault(key, []).append(value)
    return list(found.values())


def reachable(roots: Iterable[Value]) -> set[int]:
    """Ids of all values the roots depend on, the roots included."""
    return {value.id for value in dependencies(roots)}


def rebuild(
    graph: Graph, build: Builder, change: Callable[[Value, tuple[Value, ...]], Value]
) -> Graph:
    """The graph with each value replaced by `change(value, new operands)`, in order."""
    rebuilt: dict[int, Value] = {}
    before = build.origin
    try:
        for value in graph.values:
            build.origin = value.origin
            operands = tuple([rebuilt[operand.id] for operand in value.operands])
            rebuilt[value.id] = change(value, operands)
    finally:
        build.origin = before
    return build.graph(
        {name: rebuilt[value.id] for name, value in graph.outputs.items()},
        {name: rebuilt[value.id] for name, value in graph.updates.items()},
    )


def continued(graph: Graph, facts: Facts | None = None) -> tuple[Builder, Graph]:
    """A builder that already holds `graph`, to build on, and the graph in that builder's values."""
    build = Builder(facts)
    return build, rebuild(graph, build, lambda value, operands: build.reapply(value, *operands))
