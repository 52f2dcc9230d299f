"""Guides the search for a chain by a saturated e-graph, with rules as the checker has them."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

from meganeura_verify.equalities import Node
from meganeura_verify.runs import Rule, read_nodes, value_of

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.transforms.egraph.certificates.graph_record import Json, written
from meganeura_dsl.transforms.egraph.encoding.egraph_snapshot import EGraphSnapshot
from meganeura_dsl.transforms.egraph.rules.rule import Rewrite
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode, rule_sets
from meganeura_dsl.transforms.egraph.saturate.saturate_graph import SaturatedGraph, constant_values

Place = tuple[str, str, int]
"""A rule, one of its variables, and the class that this is."""


@dataclass(frozen=True)
class Guide:
    """A view of the e-graph: the class of a node, and the places where rules matched."""

    values: Sequence[tuple[Node, int]]
    """The values of the first graph, their loops with the bodies that replace them, and classes."""
    classes: Mapping[Node, int]
    """The class of a node whose operands are classes."""
    anchors: Mapping[str, str]
    """For rules that the e-graph has noted: the variable that is the class which it noted."""
    starts: Mapping[str, Mapping[str, frozenset[int]]]
    """For rules that are looked for in some classes: the variables that are such a class."""
    rules: Sequence[Rule]
    """The rules that matched."""
    known: Collection[int] = ()
    tiles: Sequence[tuple[int, ...]] = ()
    read: Mapping[Place, frozenset[int]] = field(default_factory=dict[Place, frozenset[int]])
    """The classes that a rule reads at a place; all, where that is not said."""

    @cached_property
    def ops(self) -> frozenset[str]:
        """The ops in the patterns of the rules."""
        return frozenset(atom[2] for rule in self.rules for atom in rule.atoms if atom[0] == "node")


def rules_text() -> str:
    """The file of rules that the checker reads: JSON, a rule a line."""
    lines = (json.dumps(each) for each in _records())
    return "[\n" + ",\n".join(lines) + "\n]\n"


def guide_of(graph: Graph, record: Json, saturated: SaturatedGraph, mode: Mode) -> Guide:
    """Returns the classes and rules in the e-graph of a graph, which is given with its record."""
    found = saturated.found
    anchors: dict[str, str] = {}
    starts: dict[str, dict[str, frozenset[int]]] = {}
    rules: list[Rule] = []
    for each in (rule for every in rule_sets(mode) for rule in every.rules):
        about = "e" if isinstance(each, Rewrite) else each.about
        if about:
            where = frozenset(n for n, names in found.why.items() if each.name in names)
            if not where:
                continue
            anchors[each.name] = about
            starts[each.name] = {about: where}
        rules.append(_rules()[each.name])
    known = constant_values(graph) if mode == "infer" else []
    values = [*zip(read_nodes(record), found.values, strict=True)]
    tiles = saturated.tiles
    return Guide(values, _classes(found), anchors, starts, rules, frozenset(known), tiles)


def _classes(found: EGraphSnapshot) -> dict[Node, int]:
    """The class of each node, whose operands are classes."""
    classes: dict[Node, int] = {}
    for node in found.nodes:
        name, attributes = written(node.op, len(node.operands), node.index)
        of = found.types[node.owner]
        shape = ("type", of.dtype.value, tuple(of.shape))
        classes[name, node.operands, tuple(map(value_of, attributes)), shape] = node.owner
    return classes


def _records() -> list[dict[str, str]]:
    rules = [rule for each in rule_sets("infer") for rule in each.rules]
    return [
        {
            "name": rule.name,
            "kind": "rewrite" if isinstance(rule, Rewrite) else "fact",
            "when": rule.when,
            "then": rule.becomes if isinstance(rule, Rewrite) else rule.then,
        }
        for rule in rules
    ]


@cache
def _rules() -> dict[str, Rule]:
    return {each["name"]: Rule(**each) for each in _records()}
