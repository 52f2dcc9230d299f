"""Matching of a rule's pattern among nodes: all bindings of its variables, by backtracking.

A pattern's atoms are visited in an order that is planned once: next comes the atom that the
variables bound so far restrict most.
"""

# Values of rules are numbers, texts or tuples of them: patterns tell them apart.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import prod

from meganeura_verify import CertificateError
from meganeura_verify.runs import Replay, Rule
from meganeura_verify.terms import (
    Atom,
    Term,
    Value,
    evaluate,
    is_variable,
    names_of,
    terms_of,
)

from meganeura_dsl.transforms.egraph.encoding.schema import constructors

Bound = Mapping[str, Value]


@cache
def is_variadic(op: str) -> bool:
    """True if the operands of an op are one list in a pattern."""
    constructor = constructors().get(op)
    return constructor is not None and constructor.arity is None


def planned(atoms: Sequence[Atom], known: Iterable[str]) -> tuple[Atom, ...]:
    """The atoms in the order in which they are matched, where some names are bound."""
    bound, left, order = set(known), list(atoms), list[Atom]()
    while left:
        best = min(left, key=lambda atom: _cost(atom, bound))
        left.remove(best)
        order.append(best)
        for term in terms_of(best):
            bound.update(names_of(term))
    return tuple(order)


@cache
def plan_of(rule: Rule, known: str) -> tuple[Atom, ...]:
    """The atoms of a rule as they are matched, where a name is bound, or none."""
    return planned(rule.atoms, {known} if known else ())


def _cost(atom: Atom, bound: set[str]) -> int:
    """Returns the number of possible matches of an atom; those not evaluable yet come last."""
    terms = terms_of(atom)
    free = sum(not bound.issuperset(names_of(term)) for term in terms)
    if not free:
        return 0
    is_met = any(names_of(term) and bound.issuperset(names_of(term)) for term in terms)
    match atom:
        case "node", name, _, _:
            return 1 if name in bound else 3 if is_met else 20
        case "equal", left, right:
            sides = [bound.issuperset(names_of(side)) for side in (left, right)]
            opposite = [right, left][sides.index(True)] if any(sides) else None
            return 1 if opposite is not None and _is_unified(opposite) else 99
        case "row", "copies", [shape, kept, *_]:
            return 1 if bound.issuperset((*names_of(shape), *names_of(kept))) else 98
        case "row", ("nested" | "corner" | "swap"), [first, second, *_]:
            needed = [*names_of(first), *(names_of(second) if atom[1] == "nested" else ())]
            return 1 if bound.issuperset(needed) else 98
        case "test", *_:
            return 100
        case "value", *_:
            return 2 if is_met else 90
        case _:
            return 2 + free if is_met else 15 + free


def _is_unified(term: Term) -> bool:
    return is_variable(term) or (not isinstance(term, str) and term[0] in ("T", "vec-of"))


class Matcher:
    """Finds matches in a replay, whose nodes do not change meanwhile."""

    def __init__(self, replay: Replay, ops: Container[str]) -> None:
        """Matches are found of patterns of these ops alone."""
        self.replay = replay
        self._of_op: dict[str, list[int]] = {}
        self._of_class: dict[tuple[str, int], list[int]] = {}
        self._of_operand: dict[tuple[str, int, int], list[int]] = {}
        self._rows: dict[str, list[tuple[Value, ...]]] = {}
        self._rows_by: dict[tuple[str, int], dict[Value, list[tuple[Value, ...]]]] = {}
        self._values_of: dict[int, list[int]] = {}
        """The values of the first graph that are of a class."""
        for place, number in enumerate(replay.values):
            self._values_of.setdefault(replay.root(number), []).append(place)
        seen = set[object]()
        for number, node in enumerate(replay.nodes):
            op, operands, attributes, of = node
            if op not in ops:
                continue
            classes = tuple(map(replay.root, operands))
            key = (op, classes, attributes, of, replay.root(number))
            if key in seen:
                continue
            seen.add(key)
            self._of_op.setdefault(op, []).append(number)
            self._of_class.setdefault((op, replay.root(number)), []).append(number)
            for place, operand in enumerate(classes):
                self._of_operand.setdefault((op, place, operand), []).append(number)

    def matches(self, rule: Rule) -> Iterator[Bound]:
        """All bindings under which a rule holds."""
        yield from self._matched(plan_of(rule, ""), {})

    def matches_at(self, rule: Rule, name: str, root: int) -> Iterator[Bound]:
        """The bindings under which a rule holds, where one of its variables is a certain class."""
        yield from self._matched(plan_of(rule, name), {name: ("node", root)})

    def _matched(self, atoms: Sequence[Atom], bound: Bound) -> Iterator[Bound]:
        if not atoms:
            yield bound
            return
        for further in self._ways(atoms[0], bound):
            yield from self._matched(atoms[1:], further)

    def _ways(self, atom: Atom, bound: Bound) -> Iterator[Bound]:
        match atom:
            case "node", name, op, arguments:
                yield from self._nodes(name, op, arguments, bound)
            case "row", table, arguments:
                for row in self._candidates(table, arguments, bound):
                    yield from self._unified(arguments, row, bound)
            case "value", name, number:
                yield from self._values(name, number, bound)
            case "equal", left, right:
                known = left if self._is_bound(left, bound) else right
                other = right if known is left else left
                value = self._value(known, bound)
                if value is not None:
                    yield from self._unified([other], (value,), bound)
            case _:
                if self._holds(atom, bound):
                    yield bound

    def _nodes(
        self, name: str, op: str, arguments: Sequence[Term], bound: Bound
    ) -> Iterator[Bound]:
        for number in self._choice(name, op, arguments, bound):
            _, operands, attributes, of = self.replay.nodes[number]
            values: list[Value] = [("node", operand) for operand in operands]
            if is_variadic(op):
                values = [("nodes", operands)]
            values += [*attributes, of]
            if len(values) == len(arguments):
                yield from self._unified([name, *arguments], (("node", number), *values), bound)

    def _choice(self, name: str, op: str, arguments: Sequence[Term], bound: Bound) -> Sequence[int]:
        """The nodes of an op that may be meant."""
        replay = self.replay
        if name in bound:
            return self._of_class.get((op, replay.root(bound[name][1])), ())
        for place, term in enumerate(arguments):
            value = bound.get(term) if isinstance(term, str) else None
            if isinstance(value, tuple) and value[:1] == ("node",):
                return self._of_operand.get((op, place, replay.root(value[1])), ())
        return self._of_op.get(op, ())

    def _values(self, name: str, number: Term, bound: Bound) -> Iterator[Bound]:
        replay = self.replay
        if self._is_bound(number, bound):
            places: Iterable[int] = (bound[str(number)],)
        else:
            places = self._values_of.get(replay.root(bound[name][1]), ())
        for place in places:
            yield from self._unified([name, number], (("node", replay.values[place]), place), bound)

    def _candidates(
        self, table: str, arguments: Sequence[Term], bound: Bound
    ) -> Iterable[tuple[Value, ...]]:
        """The rows of a table that may be meant; those of arithmetic are computed."""
        given = [self._value(term, bound) for term in arguments]
        match table, given:
            case "copies", [tuple() as shape, tuple() as kept, *_]:
                axes = tuple(axis for axis in range(len(shape)) if axis not in kept)
                return [(shape, kept, axes, float(prod(shape[axis] for axis in axes)))]
            case "corner", [int() as rank, *_]:
                return [(rank, (0,) * rank, (1,) * rank)]
            case "swap", [tuple() as order, *_]:
                rank = len(order)
                is_swap = rank > 1 and order == (*range(rank - 2), rank - 1, rank - 2)
                return [(order, rank)] if is_swap else []
            case "outputs", _:
                return [(True, 0), (False, 1)]
            case "nested", [tuple() as inner, tuple() as outer, *_]:
                left = [axis for axis in range(12) if axis not in inner]
                return [(inner, outer, tuple(sorted((*inner, *(left[axis] for axis in outer)))))]
            case (("parameters" | "known"), [number]):
                of = self.replay.parameters if table == "parameters" else self.known_values
                if number is not None:
                    return [(number,)] if number in of else []
                return [(each,) for each in sorted(of)]
            case "tile", _:
                return self.tiles
            case _:
                return self._stated(table, given)

    known_values: Collection[int] = ()
    """The values of the first graph that depend on parameters alone."""
    tiles: Sequence[tuple[int, ...]] = ()
    """The forms of Winograd's convolution that are tried."""

    def _stated(self, table: str, given: Sequence[Value]) -> Sequence[tuple[Value, ...]]:
        if table not in self._rows:
            canonical = self.replay.canonical
            rows = (tuple(map(canonical, row)) for row in self.replay.rows.get(table, ()))
            self._rows[table] = list(dict.fromkeys(rows))
        place = next((place for place, value in enumerate(given) if value is not None), None)
        if place is None:
            return self._rows[table]
        if (table, place) not in self._rows_by:
            index = self._rows_by[table, place] = {}
            for row in self._rows[table]:
                index.setdefault(row[place], []).append(row)
        return self._rows_by[table, place].get(self.replay.canonical(given[place]), ())

    def _unified(
        self, terms: Sequence[Term], values: Sequence[Value], bound: Bound
    ) -> Iterator[Bound]:
        """The bindings with those that make each term its value; none where that cannot be."""
        further: dict[str, Value] | None = None
        pairs = list(zip(terms, values, strict=True))
        while pairs:
            term, value = pairs.pop()
            known: Bound = bound if further is None else further
            if is_variable(term) and term not in known:
                further = dict(bound) if further is None else further
                further[str(term)] = value
                continue
            match term, value:
                case ["T", dtype, shape], ("type", found, sizes):
                    pairs += [(shape, sizes), (dtype, found)]
                    continue
                case ["vec-of", *items], ("nodes", numbers):
                    if len(items) != len(numbers):
                        return
                    pairs += zip(items, [("node", each) for each in numbers], strict=True)
                    continue
                case ["vec-of", *items], tuple() if len(items) == len(value):
                    pairs += zip(items, value, strict=True)
                    continue
                case _:
                    pass
            wanted = self._value(term, known)
            if wanted is None or not self._is_same(wanted, value):
                return
        yield bound if further is None else further

    def _is_same(self, left: Value, right: Value) -> bool:
        left, right = self.replay.canonical(left), self.replay.canonical(right)
        return type(left) is type(right) and bool(left == right)

    def _is_bound(self, term: Term, bound: Bound) -> bool:
        return all(map(bound.__contains__, names_of(term)))

    def _value(self, term: Term, bound: Bound) -> Value | None:
        """The value of a term; None where it has none, or none yet."""
        if not self._is_bound(term, bound):
            return None
        try:
            return evaluate(term, bound, self.replay.type_of)
        except CertificateError:
            return None

    def _holds(self, atom: Atom, bound: Bound) -> bool:
        try:
            return self.replay.holds(atom, bound)
        except CertificateError:
            return False
