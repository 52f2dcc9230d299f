"""The chain of rule instances that leads from one graph to another.

The e-graph says which rules rewrote which classes, and which class a node belongs to. The search
looks for the instances iteration by iteration, until the second graph is among the nodes. Steps
that it does not depend on are left out: a step is needed if it made a node of that graph, if an
equality rests on it, or if another needed step read a fact that it stated.
"""

# Values of rules are numbers, texts or tuples of them: patterns tell them apart.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meganeura_verify import CertificateError
from meganeura_verify.equalities import Node
from meganeura_verify.runs import Replay, Rule, read_nodes
from meganeura_verify.terms import Atom, Value

from meganeura_dsl.transforms.egraph.certificates.guide import Guide
from meganeura_dsl.transforms.egraph.certificates.pattern_matching import Bound, Matcher
from meganeura_dsl.transforms.egraph.certificates.relevance import relevant

Json = Any
MOST_ITERATIONS = 40
"""Iterations of matching; the deepest standard model takes 14."""


@dataclass(frozen=True)
class Step:
    """A rule, and what its variables are."""

    rule: Rule
    bound: Bound


@dataclass(frozen=True)
class Chain:
    """Steps, and the class that each speaks of; -1 where it is bookkeeping."""

    steps: Sequence[Step]
    classes: Sequence[int]


@dataclass
class _Premises:
    """The premises of a step: nodes and rows, and the pairs of nodes that had to be equal."""

    nodes: list[int] = field(default_factory=list[int])
    pairs: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    rows: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])


class Application(Replay):
    """A replay that remembers the nodes of each step."""

    def __init__(self, graph: Json, bodies: Mapping[str, str]) -> None:
        self.steps: list[Step] = []
        self.built: list[list[int]] = []
        """The nodes that each step asked for, made or found, in order."""
        super().__init__(graph, bodies)

    def add(self, step: Step) -> None:
        """Apply a step; raises `CertificateError` where it does not hold."""
        self.steps.append(step)
        self.built.append([])
        try:
            self.apply(step.rule, step.bound)
        except CertificateError:
            self.steps.pop()
            self.built.pop()
            raise

    def make(self, node: Node) -> int:
        """As in `Equalities`; the node is remembered."""
        number = super().make(node)
        if self.steps:
            self.built[-1].append(number)
        return number


class Derivation(Application):
    """A replay that remembers what each node, row and equality is due to."""

    def __init__(self, graph: Json, bodies: Mapping[str, str]) -> None:
        self._made: dict[int, int] = {}
        self._links: dict[int, list[tuple[int, int | None]]] = {}
        """Forest of equalities: neighbours, each with a step, or with None by congruence."""
        self._row_steps: dict[str, list[int]] = {}
        self._premises: list[_Premises] = []
        self.touched = set[int]()
        """The nodes that were made, made equal to others, or stated a fact of."""
        super().__init__(graph, bodies)

    def add(self, step: Step) -> None:
        """As in `Application`; what it rests on is remembered."""
        self._premises.append(self._read(step))
        try:
            super().add(step)
        except CertificateError:
            self._premises.pop()
            raise

    def make(self, node: Node) -> int:
        """As in `Application`; so is the step that made it."""
        known = len(self.nodes)
        number = super().make(node)
        if number == known:
            self.touched.add(number)
        if self.steps:
            if number == known:
                self._made[number] = len(self.steps) - 1
            else:  # it is that node because the operands are equal
                self._premises[-1].nodes.append(number)
                self._premises[-1].pairs += zip(self.nodes[number][1], node[1], strict=True)
        return number

    def linked(self, left: int, right: int, reason: object) -> None:
        """Remember which step made two classes one, or that congruence did."""
        step = None if reason is None else len(self.steps) - 1
        self.touched.update((left, right))
        self._links.setdefault(left, []).append((right, step))
        self._links.setdefault(right, []).append((left, step))

    def state(self, table: str, row: Iterable[Value]) -> None:
        """As in `Equalities`; the step is remembered."""
        row = tuple(row)
        super().state(table, row)
        self.touched.update(number for value in row for number in _numbers(value))
        self._row_steps.setdefault(table, []).append(len(self.steps) - 1)

    def _read(self, step: Step) -> _Premises:
        found = _Premises()
        for value in step.bound.values():
            found.nodes += _numbers(value)
        for atom in step.rule.atoms:
            self._note(atom, step.bound, found)
        return found

    def _note(self, atom: Atom, bound: Bound, found: _Premises) -> None:
        match atom:
            case "node", name, op, arguments:
                node = self.node_of(op, [self.value(each, bound) for each in arguments])
                number = self.find(node)
                if number is not None:
                    found.nodes.append(number)
                    found.pairs.append((number, bound[name][1]))
                    found.pairs += zip(self.nodes[number][1], node[1], strict=True)
            case "row", table, arguments:
                row = tuple(self.value(each, bound) for each in arguments)
                place = self.place(table, row)
                if place is not None:
                    found.rows.append((table, place))
                    for stated, read in zip(self.rows[table][place], row, strict=True):
                        found.pairs += zip(_numbers(stated), _numbers(read), strict=True)
            case "value", name, number:
                found.pairs.append((bound[name][1], self.values[self.value(number, bound)]))
            case "equal", left, right:
                sides = (_numbers(self.value(each, bound)) for each in (left, right))
                found.pairs += zip(*sides, strict=False)
            case _:
                pass

    def needed(self, nodes: Iterable[int], pairs: Iterable[tuple[int, int]]) -> list[int]:
        """The steps that these nodes and equalities are due to, in order."""
        steps = set[int]()
        seen_nodes, seen_pairs = set[int](), set[tuple[int, int]]()
        nodes, pairs = list(nodes), list(pairs)
        while nodes or pairs:
            due: list[int] = []
            if nodes:
                number = nodes.pop()
                if number in seen_nodes:
                    continue
                seen_nodes.add(number)
                nodes += self.nodes[number][1]
                due += [self._made[number]] if number in self._made else []
            else:
                left, right = pairs.pop()
                if left == right or (left, right) in seen_pairs:
                    continue
                seen_pairs.add((left, right))
                for first, second, step in self._path(left, right):
                    nodes += [first, second]
                    if step is None:
                        pairs += zip(self.nodes[first][1], self.nodes[second][1], strict=True)
                    else:
                        due.append(step)
            for step in due:
                if step not in steps:
                    steps.add(step)
                    premises = self._premises[step]
                    nodes += premises.nodes
                    pairs += premises.pairs
                    rows = (self._row_steps[table][place] for table, place in premises.rows)
                    due += rows
        return sorted(steps)

    def _path(self, start: int, end: int) -> Iterator[tuple[int, int, int | None]]:
        """The links between two equal nodes."""
        before: dict[int, tuple[int, int | None]] = {start: (start, None)}
        stack = [start]
        while stack and end not in before:
            number = stack.pop()
            for other, step in self._links.get(number, ()):
                if other not in before:
                    before[other] = number, step
                    stack.append(other)
        while end != start:
            other, step = before[end]
            yield end, other, step
            end = other


def _numbers(value: Value) -> list[int]:
    """The nodes in a value."""
    match value:
        case ("node", int(number)):
            return [number]
        case ("nodes", tuple(numbers)):
            return list(numbers)
        case _:
            return []


class ChainSearch:
    """Steps from a graph until another one is among the nodes."""

    def __init__(self, before: Json, after: Json, bodies: Mapping[str, str], guide: Guide) -> None:
        self._guide = guide
        self._before, self._bodies = before, bodies
        self._after, self._wanted = after, read_nodes(after)
        self._derivation = Derivation(before, bodies)
        self._classes = self._known_classes()
        self._seen = set[tuple[str, tuple[Value, ...]]]()

    def run(self) -> Chain | None:
        """The steps that are needed; None if the rules that matched do not lead there.

        The places where they may be needed are searched first, and then all.
        """
        for guide in (relevant(self._guide, self._wanted), self._guide):
            for tried in range(MOST_ITERATIONS):
                reached = self._reached()
                if reached is not None:
                    return self._shortened(*reached)
                steps = list(self._round(guide, is_new=not tried))
                if not steps:
                    break
                for step in steps:
                    try:
                        self._derivation.add(step)
                    except CertificateError:  # a step of this iteration made it superfluous
                        continue
        return None

    def _round(self, guide: Guide, *, is_new: bool) -> Iterator[Step]:
        """The instances of all rules that are new."""
        self._classify()
        derivation = self._derivation
        matcher = Matcher(derivation, guide.ops)
        matcher.known_values, matcher.tiles = self._guide.known, self._guide.tiles
        changed = {self._classes[number] for number in derivation.touched}
        derivation.touched.clear()
        roots: dict[int, set[int]] = {}
        for number, of in enumerate(self._classes):
            roots.setdefault(of, set()).add(derivation.root(number))
        for rule in guide.rules:
            starts = guide.starts.get(rule.name)
            if starts is None:
                found = matcher.matches(rule)
            else:
                found = (
                    bound
                    for name, classes in starts.items()
                    for of in classes
                    if is_new
                    or not changed.isdisjoint(guide.read.get((rule.name, name, of), changed))
                    for root in roots.get(of, ())
                    for bound in matcher.matches_at(rule, name, root)
                )
            for bound in found:
                values = (derivation.canonical(bound[name]) for name in rule.variables)
                key = rule.name, tuple(values)
                if key not in self._seen:
                    self._seen.add(key)
                    yield Step(rule, bound)

    def _known_classes(self) -> list[int]:
        """The class of each node so far; loops whose bodies become equal are one value."""
        derivation, numbers = self._derivation, list[int]()
        classes: dict[int, int] = {}
        for (op, operands, attributes, of), owner in self._guide.values:
            number = derivation.find(
                (op, tuple(numbers[each] for each in operands), attributes, of)
            )
            assert number is not None, f"the first graph has no {op}"
            numbers.append(number)
            classes[derivation.root(number)] = owner
        return [classes[derivation.root(number)] for number in range(len(derivation.nodes))]

    def _classify(self) -> None:
        """Find the classes of the nodes that were made."""
        for number in range(len(self._classes), len(self._derivation.nodes)):
            op, operands, attributes, of = self._derivation.nodes[number]
            key = op, tuple(self._classes[operand] for operand in operands), attributes, of
            self._classes.append(self._guide.classes.get(key, -1))

    def _reached(self) -> tuple[list[int], list[tuple[int, int]]] | None:
        """The nodes of the second graph and the equalities it rests on, if it is there."""
        derivation = self._derivation
        numbers: list[int] = []
        pairs: list[tuple[int, int]] = []
        for op, operands, attributes, of in self._wanted:
            wanted = tuple(numbers[operand] for operand in operands)
            number = derivation.find((op, wanted, attributes, of))
            if number is None:
                return None
            pairs += zip(derivation.nodes[number][1], wanted, strict=True)
            numbers.append(number)
        for name, value in self._after["outputs"].items():
            first = derivation.outputs[name]
            if derivation.root(first) != derivation.root(numbers[value]):
                return None
            pairs.append((first, numbers[value]))
        return numbers, pairs

    def _shortened(self, nodes: list[int], pairs: list[tuple[int, int]]) -> Chain:
        """The steps that are needed, with the numbers that nodes have without the others."""
        whole, short = self._derivation, Application(self._before, self._bodies)
        numbers = {number: number for number in range(len(short.nodes))}
        classes: list[int] = []
        for place in whole.needed(nodes, pairs):
            step = whole.steps[place]
            anchor = self._guide.anchors.get(step.rule.name)
            classes.append(-1 if anchor is None else self._classes[step.bound[anchor][1]])
            bound = {name: _renumbered(value, numbers) for name, value in step.bound.items()}
            short.add(Step(step.rule, bound))
            numbers.update(zip(whole.built[place], short.built[-1], strict=True))
        return Chain(short.steps, classes)


def _renumbered(value: Value, numbers: Mapping[int, int]) -> Value:
    match value:
        case ("node", int(number)):
            return ("node", numbers[number])
        case ("nodes", tuple(each)):
            return ("nodes", tuple(numbers[number] for number in each))
        case _:
            return value
