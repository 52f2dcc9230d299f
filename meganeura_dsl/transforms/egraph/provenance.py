"""The rules that made the chosen graph, and those that led there.

A class remembers each rule that said something of it, and the rules that made a chosen node are
known by what they make. The chain from the program to the graph says which other rules that took.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from meganeura_dsl.ir.graph import Graph, Op, Origin
from meganeura_dsl.transforms.egraph.certificates.chain_search import Chain
from meganeura_dsl.transforms.egraph.encoding.egraph_snapshot import EGraphSnapshot
from meganeura_dsl.transforms.egraph.encoding.schema import constructor_name
from meganeura_dsl.transforms.egraph.extract.extract import Extraction
from meganeura_dsl.transforms.egraph.rewrite_report import AppliedRule
from meganeura_dsl.transforms.egraph.rules.rule_sets import rewrites, rules_by_name


@dataclass(frozen=True, eq=False)
class Provenance:
    """A graph, what was found, and what was chosen of it."""

    graph: Graph
    found: EGraphSnapshot
    plan: Extraction
    origins: Mapping[int, Origin]

    def chosen(self) -> Iterator[AppliedRule]:
        """The rewrites whose result is in the graph, in its order."""
        for number in self.plan.order:
            for rule in self._makers(number):
                yield self._note(rule, number)

    def contributed(self, chain: Chain) -> Iterator[AppliedRule]:
        """The other rules of the chain that leads to the graph, with the classes they speak of."""
        final = {(rule, number) for number in self.plan.order for rule in self._makers(number)}
        applied = zip(chain.steps, chain.classes, strict=True)
        reported = rules_by_name()
        for step, number in applied:
            name = step.rule.name
            if name in reported and (name, number) not in final:
                yield self._note(name, number)

    def _makers(self, number: int) -> list[str]:
        """The rewrites that made the chosen node of a class, or made it equal to one."""
        choice = self.plan.load if number in self.plan.stored else self.plan.run
        node = self.found.nodes[choice[number]]
        constructor = None
        if (node.op, node.operands) not in self._given:
            constructor = constructor_name(type(node.op), len(node.operands))
        known = rewrites()
        said = self.found.why.get(number, ())
        return [rule for rule in said if rule in known and known[rule].constructor == constructor]

    @cached_property
    def _numbers(self) -> dict[int, int]:
        """The class of each value of the program."""
        ids = (value.id for value in self.graph.values)
        return dict(zip(ids, self.found.values, strict=True))

    @cached_property
    def _given(self) -> set[tuple[Op, tuple[int, ...]]]:
        """The nodes of the program."""
        return {
            (value.op, tuple(self._numbers[operand.id] for operand in value.operands))
            for value in self.graph.values
        }

    def _note(self, rule: str, number: int) -> AppliedRule:
        choice = self.plan.load if number in self.plan.stored else self.plan.run
        node = choice.get(number, -1)
        is_computed = 0 <= node < len(self.found.nodes)  # and not read from memory
        op = type(self.found.nodes[node].op).__name__ if is_computed else ""
        origin = self.origins.get(number, Origin())
        return AppliedRule(rule, op, origin.path, location(origin))


def location(origin: Origin) -> str:
    """`resnet.mgn:8`, or nothing for what no line says."""
    return f"{origin.span.source.name}:{origin.span.line}" if origin.span else ""
