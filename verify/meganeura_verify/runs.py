"""Checks that each optimized graph of a run equals the graph it was made of.

A certificate holds both graphs and a chain of steps. A step names a rule of `rules.json` and says
what each of its variables is. It is right if all that the rule asks for is there; then what the
rule states is added. In the end each node of the second graph must be among the nodes, and each of
its outputs must be equal to that of the first graph. What a rule means is not checked here.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

from meganeura_verify import CertificateError, require
from meganeura_verify.equalities import Equalities, Node
from meganeura_verify.terms import (
    NODE_TAGS,
    STEERING,
    Atom,
    Term,
    Value,
    atoms_of,
    evaluate,
    is_op,
    names_of,
    parsed,
    terms_of,
)

FORMAT = "meganeura-run-1"
Json = Any


class Rule:
    """A rule of the optimizer: where the atoms hold, `then` holds too."""

    def __init__(self, name: str, kind: str, when: str, then: str) -> None:
        self.name = name
        self.is_rewrite = kind == "rewrite"
        self.atoms = atoms_of(when)
        terms = [term for atom in self.atoms for term in terms_of(atom)]
        self.variables = frozenset(name for term in terms for name in names_of(term))
        self.then = parsed(then)
        self.rows = [] if self.is_rewrite else [_row(term) for term in self.then]
        """The tables of a fact, each with the terms of the row that it states."""


def read_rules(path: Path | None = None) -> tuple[Mapping[str, Rule], str]:
    """The rules by name, and the SHA-256 of their file."""
    return _rules_of((path or Path(__file__).with_name("rules.json")).read_bytes())


@lru_cache(maxsize=1)
def _rules_of(content: bytes) -> tuple[Mapping[str, Rule], str]:
    """The rules in the content of a file, which to parse takes longer than a small certificate."""
    rules = {each["name"]: Rule(**each) for each in json.loads(content)}
    return MappingProxyType(rules), hashlib.sha256(content).hexdigest()


class Replay(Equalities):
    """The equalities that follow from a graph and the steps so far."""

    def __init__(self, graph: Json, bodies: Mapping[str, str] | None = None) -> None:
        """A loop is equal to one whose body is another, for the `bodies` that are equal."""
        super().__init__()
        self.values: list[int] = []
        """The node of each value of the graph; values that are written alike share one."""
        for op, operands, attributes, of in read_nodes(graph):
            nodes = tuple(self.values[operand] for operand in operands)
            self.values.append(self.make((op, nodes, attributes, of)))
        for number, (op, operands, attributes, of) in enumerate(
            tuple(self.nodes if bodies else ())
        ):
            changed = tuple(_exchanged(each, bodies or {}) for each in attributes)
            self.join(number, self.make((op, operands, changed, of)))
        named: Mapping[str, int] = graph["outputs"]
        self.outputs = {name: self.values[number] for name, number in named.items()}
        self.parameters = frozenset(graph["parameters"])
        """The numbers of the values that are parameters."""

    def holds(self, atom: Atom, bound: Mapping[str, Value]) -> bool:
        """True if an atom holds for what its variables are bound to."""
        match atom:
            case "node", name, op, arguments:
                found = self.find(self.node_of(op, self.values_of(arguments, bound)))
                return found is not None and self.root(found) == self.root(bound[name][1])
            case "row", table, arguments:
                return self._states(table, tuple(self.values_of(arguments, bound)))
            case "value", name, number:
                value = self.value(number, bound)
                return self.root(bound[name][1]) == self.root(self.values[value])
            case _:
                *kind, left, right = atom
                values = self.values_of((left, right), bound)
                return _compare(kind[-1], *map(self.canonical, values))

    def apply(self, rule: Rule, bound: Mapping[str, Value]) -> None:
        """Add what a rule states; raises `CertificateError` where something it asks for lacks.

        No more may be bound than its variables: what is written in a rule is no choice of a step.
        """
        more = bound.keys() - rule.variables
        require(not more, f"{rule.name}: {sorted(more)} are no variables of the rule")
        for atom in rule.atoms:
            if not self.holds(atom, bound):
                raise CertificateError(f"{rule.name}: {atom} does not hold")
        if rule.is_rewrite:
            self.join(bound["e"][1], self.build(rule.then[0], bound)[1], (rule, bound))
            return
        for table, arguments in rule.rows:
            if table not in STEERING:
                self.state(table, [self.build(each, bound) for each in arguments])

    def build(self, term: Term, bound: Mapping[str, Value]) -> Value:
        """The value of a term whose ops become nodes."""
        if isinstance(term, str) or not term[1:]:
            return self.value(term, bound)
        values = [self.build(each, bound) for each in term[1:]]
        if is_op(term):
            return ("node", self.make(self.node_of(term[0], values)))
        names = tuple(f"argument {place}" for place in range(len(values)))
        return self.value((term[0], *names), dict(zip(names, values, strict=True)))

    def value(self, term: Term, bound: Mapping[str, Value]) -> Value:
        """The value of a term without ops."""
        return evaluate(term, bound, self.type_of)

    def values_of(self, terms: Sequence[Term], bound: Mapping[str, Value]) -> list[Value]:
        """The values of terms without ops."""
        return [evaluate(each, bound, self.type_of) for each in terms]

    def node_of(self, op: str, values: list[Value]) -> Node:
        """A node of an op: operands first, then attributes, and the type at the end."""
        operands: list[int] = []
        known = 0
        for value in values:
            if not isinstance(value, tuple) or not value or value[0] not in NODE_TAGS:
                break
            tag, numbers = value
            operands += [numbers] if tag == NODE_TAGS[0] else numbers
            known += 1
        *attributes, of = values[known:]
        require(isinstance(of, tuple) and of[:1] == ("type",), f"`{op}` without a type")
        return op, tuple(operands), tuple(attributes), of

    def _states(self, table: str, row: tuple[Value, ...]) -> bool:
        """True if a fact holds: by arithmetic, by the first graph, or as a step stated it."""
        match table, row:
            case "copies", (shape, kept, axes, count):
                size = float(prod(shape[axis] for axis in axes))
                return axes == _others(kept, len(shape)) and type(count) is float and count == size
            case "corner", (rank, zeros, ones):
                known = len(zeros)
                return (rank, zeros, ones) == (known, (0,) * known, (1,) * known)
            case "swap", (order, rank):
                return rank == len(order) and order == (*range(rank - 2), rank - 1, rank - 2)
            case "outputs", _:
                return row in ((True, 0), (False, 1)) and type(row[0]) is bool
            case "nested", (inner, outer, both):
                return both == tuple(sorted((*inner, *(_left(axis, inner) for axis in outer))))
            case "parameters", (number,):
                return number in self.parameters
            case "known", (number,):  # it steers: what depends on parameters is computed once
                return type(number) is int and 0 <= number < len(self.values)
            case _:
                return table in STEERING or self.place(table, row) is not None


def check_run(run: Json, rules: Mapping[str, Rule], earlier: Sequence[Json] = ()) -> None:
    """Check one run, after those of its loops; raises `CertificateError` unless it is right."""
    try:
        replay = Replay(run["before"], _equal_bodies(run["bodies"], earlier))
        for place, step in enumerate(run["steps"]):
            bound = {name: value_of(each) for name, each in step["bound"].items()}
            require(step["rule"] in rules, f"step {place}: there is no rule `{step['rule']}`")
            try:
                replay.apply(rules[step["rule"]], bound)
            except CertificateError as error:
                raise CertificateError(f"step {place}: {error}") from None
        after: list[int] = []
        for op, operands, attributes, of in read_nodes(run["after"]):
            found = replay.find((op, tuple(after[each] for each in operands), attributes, of))
            if found is None:
                raise CertificateError(f"no step leads to the `{op}` of value {len(after)}")
            after.append(found)
        outputs = run["after"]["outputs"]
        require(outputs.keys() == replay.outputs.keys(), "the graphs have other outputs")
        for name, number in outputs.items():
            is_equal = replay.root(replay.outputs[name]) == replay.root(after[number])
            require(is_equal, f"`{name}` is not shown to be equal")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CertificateError(f"malformed: {error!r}") from None


def check_runs(certificate: Json) -> list[Json]:
    """Check every run of a certificate; raises `CertificateError`, or returns the runs."""
    require(isinstance(certificate, dict), "this is no certificate")
    require(certificate.get("format") == FORMAT, f"the format is not {FORMAT}")
    rules, digest = read_rules()
    require(certificate.get("rules") == digest, "it was made with other rules than these")
    runs = certificate.get("runs")
    require(isinstance(runs, list) and bool(runs), "there are no runs in it")
    for number, run in enumerate(runs):
        try:
            check_run(run, rules, runs[:number])
        except CertificateError as error:
            raise CertificateError(f"run {number}: {error}") from None
    return runs


def value_of(data: Json) -> Value:
    """A value of JSON: `{"node": 3}`, `{"nodes": [3, 4]}`, `{"type": ["f32", [2]]}` or `[2]`."""
    if isinstance(data, list):
        return _integers(data)
    if not isinstance(data, dict):
        return data
    match data:
        case {"node": int(number)}:
            return ("node", number)
        case {"nodes": list(numbers)}:
            return ("nodes", _integers(numbers))
        case {"type": [str(dtype), list(shape)]}:
            return ("type", dtype, _integers(shape))
        case {"body": str(text)}:
            return ("body", text)
        case _:
            raise CertificateError(f"{data} is no value")


def _integers(items: list[Json]) -> tuple[int, ...]:
    if not {int}.issuperset(map(type, items)):
        raise CertificateError(f"{items} are no integers")
    return tuple(items)


def read_nodes(graph: Json) -> list[Node]:
    """The nodes of a graph, each after its operands, which are numbers of values."""
    nodes: list[Node] = []
    for op, operands, attributes, dtype, shape in graph["nodes"]:
        require(all(0 <= each < len(nodes) for each in operands), "an operand comes later")
        of = ("type", dtype, _integers(shape))
        nodes.append((op, tuple(operands), tuple(map(value_of, attributes)), of))
    return nodes


def digest(record: Json) -> str:
    """The SHA-256 by which the record of a body is known."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _row(term: Term) -> tuple[str, tuple[Term, ...]]:
    """A table, and the terms of a row: of one that is set, the pair is its last columns."""
    table, *arguments = term
    if table == "set":
        (table, *columns), (_, *pair) = arguments
        arguments = [*columns, *pair]
    return table, tuple(arguments)


def _equal_bodies(bodies: Json, earlier: Sequence[Json]) -> Mapping[str, str]:
    """The bodies that earlier runs have shown to be equal to others."""
    for each in bodies:
        run = earlier[each["run"]]
        is_shown = (each["before"], each["after"]) == (digest(run["before"]), digest(run["after"]))
        require(is_shown and each["run"] >= 0, "no earlier run is about this body of a loop")
    return {each["before"]: each["after"] for each in bodies}


def _exchanged(attribute: Value, bodies: Mapping[str, str]) -> Value:
    match attribute:
        case ("body", text):
            return ("body", bodies.get(text, text))
        case _:
            return attribute


def _compare(test: str, left: Value, right: Value) -> bool:
    if test == "!=":
        return bool(left != right)
    if type(left) is not type(right):
        return False
    results = {"equal": left == right, "<": left < right, "<=": left <= right}
    return bool({**results, ">": left > right, ">=": left >= right}[test])


def _left(axis: int, without: tuple[int, ...]) -> int:
    """The axis that is at a place where others are left out."""
    require(axis >= 0, f"an axis {axis}")
    for each in sorted(set(without)):
        axis += each <= axis
    return axis


def _others(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return tuple(axis for axis in range(rank) if axis not in axes)
