"""The rules that a chain to the second graph may need, and the classes that they speak of.

It is followed backwards. A node of that graph may be due to the rules that rewrote its class to its
op; a rule needs the nodes and the facts of its pattern, and a fact the rules that state it.
Patterns are followed in the saturated e-graph, where a variable stands for a set of classes: each
alone is possible, all together need not be. So more is found than a chain needs, but seldom less.
"""

# Values of rules are numbers, texts or tuples of them: patterns tell them apart.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from meganeura_verify.equalities import Node
from meganeura_verify.runs import Rule
from meganeura_verify.terms import Term, is_op, is_variable

from meganeura_dsl.transforms.egraph.certificates.guide import Guide, Place
from meganeura_dsl.transforms.egraph.certificates.pattern_matching import (
    is_variadic,
    plan_of,
)

Sets = dict[str, frozenset[int]]
"""The classes that each variable may be."""
Columns = list[frozenset[int] | None]
"""The classes in each column of a table's rows; None for what is no class, or not known."""
Occurrence = tuple[int, tuple[int, ...]]
"""A node of some op: its class and those of its operands."""
Start = tuple[Rule, str, int]
"""A rule, one of its variables and the class that this is; an empty name and -1 for any."""
Rows = tuple[str, int, int]
"""A table, a column, and the class that is there: the rows of which that is true."""


def relevant(guide: Guide, after: Iterable[Node]) -> Guide:
    """A guide to those places alone that the nodes of the second graph may be due to."""
    return _Relevance(guide).narrowed(after)


class _Relevance:
    """The places that are asked for so far."""

    def __init__(self, guide: Guide) -> None:
        self._guide = guide
        self._of_op: dict[str, list[Occurrence]] = {}
        self._of_class: dict[tuple[str, int], list[Occurrence]] = {}
        self._of_operand: dict[tuple[str, int, int], list[Occurrence]] = {}
        for (op, operands, _, _), owner in guide.classes.items():
            place = owner, operands
            self._of_op.setdefault(op, []).append(place)
            self._of_class.setdefault((op, owner), []).append(place)
            for index, operand in enumerate(operands):
                self._of_operand.setdefault((op, index, operand), []).append(place)
        self._rewrites: dict[int, list[Rule]] = {}
        """The rules that rewrote a class."""
        self._stating: dict[str, list[tuple[Rule, Sequence[Term]]]] = {}
        """The rules that state rows of a table, with the terms of a row."""
        for rule in guide.rules:
            for number in guide.starts[rule.name]["e"] if rule.is_rewrite else ():
                self._rewrites.setdefault(number, []).append(rule)
            for table, arguments in rule.rows:
                self._stating.setdefault(table, []).append((rule, arguments))
        self._manifold = _manifold(guide.values)
        self._found: dict[Start, Sets | None] = {}
        """The variables of each rule that was followed; None where it does not hold, or not yet."""
        self._columns: dict[Rows, Columns] = {}
        self._stated: dict[Start, list[tuple[Rows, Sequence[Term]]]] = {}
        """The rows that a rule is asked for."""
        self._readers: dict[Rows, set[Start]] = {}
        self._asked = set[tuple[int, str]]()
        self._waiting: dict[Start, None] = {}

    def narrowed(self, after: Iterable[Node]) -> Guide:
        """The guide to what the nodes need; the guide itself if a class is not known."""
        owners: list[int] = []
        for op, operands, attributes, of in after:
            wanted = (op, tuple(owners[each] for each in operands), attributes, of)
            if wanted not in self._guide.classes:
                return self._guide
            owners.append(self._guide.classes[wanted])
            self._ask(owners[-1], op)
        while self._waiting:
            start, _ = self._waiting.popitem()
            self._found[start] = found = self._followed(start)
            if found is not None:
                for rows, arguments in self._stated.get(start, ()):
                    self._state(rows, arguments, found)
        return self._guide_to_found()

    def _guide_to_found(self) -> Guide:
        places: dict[str, dict[str, set[int]]] = {}
        read: dict[Place, frozenset[int]] = {}
        for (rule, name, number), found in self._found.items():
            if found is not None:
                places.setdefault(rule.name, {}).setdefault(name, set()).add(number)
                read[rule.name, name, number] = frozenset[int]().union(*found.values())
        starts = {
            rule: {name: frozenset(numbers) for name, numbers in names.items()}
            for rule, names in places.items()
            if "" not in names
        }
        everywhere = {rule: known for rule, known in self._guide.starts.items() if rule in places}
        rules = [rule for rule in self._guide.rules if rule.name in places]
        return replace(self._guide, starts={**everywhere, **starts}, rules=rules, read=read)

    def _ask(self, number: int, op: str) -> None:
        """Ask for the nodes of an op in a class."""
        if (number, op) in self._asked:
            return
        self._asked.add((number, op))
        for rule in self._rewrites.get(number, ()):
            made = rule.then[0][0] if is_op(rule.then[0]) else op
            if made == op or number in self._manifold:
                self._want((rule, "e", number))

    def _want(self, start: Start) -> None:
        rule, name, number = start
        if start not in self._found:
            self._found[start] = None
            noted = self._guide.starts.get(rule.name, {}).get(name)
            if noted is None or number in noted:
                self._waiting[start] = None

    def _rows(self, rows: Rows, reader: Start) -> Columns:
        """Ask for rows; returns their columns so far, and whoever reads them is followed again."""
        table, column, number = rows
        self._readers.setdefault(rows, set()).add(reader)
        if rows not in self._columns:
            self._columns[rows] = []
            for rule, arguments in self._stating[table]:
                start = _start(rule, arguments[column], number)
                self._stated.setdefault(start, []).append((rows, arguments))
                self._want(start)
                found = self._found[start]
                if found is not None:
                    self._state(rows, arguments, found)
        return self._columns[rows]

    def _state(self, rows: Rows, arguments: Sequence[Term], found: Sets) -> None:
        """Add what a rule states; if that is new, those who read it are followed again."""
        columns = self._columns[rows]
        wider = [
            None if None in (known, classes) else (known or frozenset()) | (classes or frozenset())
            for known, classes in zip(
                columns or [frozenset[int]()] * len(arguments),
                (found.get(term) if isinstance(term, str) else None for term in arguments),
                strict=True,
            )
        ]
        if wider != columns:
            columns[:] = wider
            self._waiting.update(dict.fromkeys(self._readers[rows]))

    def _followed(self, start: Start) -> Sets | None:
        """The classes of a rule's variables, one of which may be given; None if it cannot hold."""
        rule, name, number = start
        found: Sets = {name: frozenset((number,))} if name else {}
        for atom in plan_of(rule, name):
            match atom:
                case "node", owner, op, arguments:
                    holds = self._node(owner, op, arguments, found)
                case "row", table, arguments if table in self._stating:
                    holds = self._row(table, arguments, found, start)
                case "equal", str(left), ("vec-get", str(right), _) if right in found:
                    found.setdefault(left, found[right])
                    continue
                case _:
                    continue
            if not holds:
                return None
        return found

    def _node(self, owner: str, op: str, arguments: Sequence[Term], found: Sets) -> bool:
        """Ask for the nodes that an atom may mean; false if there are none."""
        places = list(self._candidates(owner, op, arguments, found))
        found[owner] = frozenset(number for number, _ in places)
        for number in found[owner]:
            self._ask(number, op)
        if is_variadic(op):
            found[str(arguments[0])] = frozenset(
                each for _, operands in places for each in operands
            )
        elif places:
            for index, term in enumerate(arguments[: len(places[0][1])]):
                found[str(term)] = frozenset(operands[index] for _, operands in places)
        return bool(places)

    def _candidates(
        self, owner: str, op: str, arguments: Sequence[Term], found: Mapping[str, frozenset[int]]
    ) -> Iterator[Occurrence]:
        known = [] if is_variadic(op) else enumerate(arguments)
        bound = [(index, found[str(term)]) for index, term in known if term in found]
        if owner in found:
            places = [p for number in found[owner] for p in self._of_class.get((op, number), ())]
        elif bound:
            index, numbers = bound[0]
            places = [p for n in numbers for p in self._of_operand.get((op, index, n), ())]
        else:
            places = self._of_op.get(op, [])
        for number, operands in places:
            if all(operands[index] in classes for index, classes in bound):
                yield number, operands

    def _row(self, table: str, arguments: Sequence[Term], found: Sets, reader: Start) -> bool:
        """Ask for the rows that an atom may mean; false if there are none."""
        column = next((place for place, term in enumerate(arguments) if term in found), None)
        if column is None:
            for rule, _ in self._stating[table]:
                self._want((rule, "", -1))
            return True
        asked = ((table, column, number) for number in found[str(arguments[column])])
        several = [columns for rows in asked if (columns := self._rows(rows, reader))]
        for index, term in enumerate(arguments):
            classes = [columns[index] for columns in several]
            if not is_variable(term) or None in classes:
                continue
            union = frozenset[int]().union(*(each or () for each in classes))
            found[str(term)] = found[str(term)] & union if term in found else union
        return bool(several)


def _start(rule: Rule, term: Term, number: int) -> Start:
    """Where to follow a rule that states a row with a class: from that, if it is a variable."""
    return (rule, str(term), number) if is_variable(term) else (rule, "", -1)


def _manifold(values: Sequence[tuple[Node, int]]) -> frozenset[int]:
    """The classes of several nodes of the first graph, which rules make equal."""
    owners = [owner for _, owner in values]
    nodes: dict[int, set[Node]] = {}
    for (op, operands, attributes, of), owner in values:
        node = op, tuple(owners[each] for each in operands), attributes, of
        nodes.setdefault(owner, set()).add(node)
    return frozenset(owner for owner, each in nodes.items() if len(each) > 1)
