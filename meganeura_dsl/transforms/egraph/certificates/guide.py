"""Guides the search for a chain by a saturated e-graph, with rules as the checker has them."""

import json
from functools import cache

from meganeura_verify.equalities import Node
from meganeura_verify.runs import Rule, read_nodes, value_of

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.transforms.egraph.certificates.chain_search import Guide
from meganeura_dsl.transforms.egraph.certificates.graph_record import graph_record, written
from meganeura_dsl.transforms.egraph.encoding.egraph_snapshot import EGraphSnapshot
from meganeura_dsl.transforms.egraph.rules.rule import Rewrite
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode, rule_sets
from meganeura_dsl.transforms.egraph.saturate.saturate_graph import SaturatedGraph, constant_values


def rules_text() -> str:
    """The file of rules that the checker reads: JSON, a rule a line."""
    lines = (json.dumps(each) for each in _records())
    return "[\n" + ",\n".join(lines) + "\n]\n"


def guide_of(graph: Graph, saturated: SaturatedGraph, mode: Mode) -> Guide:
    """Returns the classes and rules in the e-graph of a graph."""
    found = saturated.found
    anchors: dict[str, tuple[str, frozenset[int]]] = {}
    rules: list[Rule] = []
    for each in (rule for every in rule_sets(mode) for rule in every.rules):
        about = "e" if isinstance(each, Rewrite) else each.about
        if about:
            where = frozenset(n for n, names in found.why.items() if each.name in names)
            if not where:
                continue
            anchors[each.name] = about, where
        rules.append(_rules()[each.name])
    known = constant_values(graph) if mode == "infer" else []
    values = [*zip(read_nodes(graph_record(graph)), found.values, strict=True)]
    return Guide(values, _classes(found), anchors, rules, known, saturated.tiles)


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
