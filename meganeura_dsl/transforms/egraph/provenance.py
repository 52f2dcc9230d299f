"""Which rules made what was chosen, and which led there.

A class remembers each rule that said something of it. The rules that made a chosen node are known
by what they make. They matched what other rules had said, of the same class or of those that it
was computed from in the program: so from a chosen class its part of the program is followed down to
what is computed still, and every rule there that states what a contributing one asks for has
contributed too.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from meganeura_dsl.ir.graph import Graph, Op, Origin
from meganeura_dsl.transforms.egraph.encoding.egraph_snapshot import EGraphSnapshot
from meganeura_dsl.transforms.egraph.encoding.schema import constructor_name
from meganeura_dsl.transforms.egraph.extract.extract import Extraction
from meganeura_dsl.transforms.egraph.rewrite_report import AppliedRule
from meganeura_dsl.transforms.egraph.rules.rule_sets import rewrites
from meganeura_dsl.transforms.egraph.saturate.rule_pruning import answers


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

    def contributed(self) -> Iterator[AppliedRule]:
        """The rules that led to those, each once for what it was applied to."""
        below, seen = self._below(), dict[tuple[str, int], None]()
        computed = set(self.plan.order) - set(self.plan.stored)
        final = {(rule, number) for number in self.plan.order for rule in self._makers(number)}
        for number in self.plan.order:
            makers = self._makers(number)
            if makers:
                said = _said(self.found.why, _part(number, below, computed))
                seen.update(dict.fromkeys(_counted(set(_led_to(makers, said)), below)))
        for rule, number in seen:
            if (rule, number) not in final:
                yield self._note(rule, number)

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

    def _below(self) -> dict[int, list[int]]:
        """The classes that each is computed from in the program."""
        below: dict[int, list[int]] = {}
        for value in self.graph.values:
            operands = [self._numbers[operand.id] for operand in value.operands]
            below.setdefault(self._numbers[value.id], []).extend(operands)
        return below

    def _note(self, rule: str, number: int) -> AppliedRule:
        choice = self.plan.load if number in self.plan.stored else self.plan.run
        node = choice.get(number, -1)
        op = type(self.found.nodes[node].op).__name__ if node >= 0 else ""
        origin = self.origins.get(number, Origin())
        return AppliedRule(rule, op, origin.path, location(origin))


def _part(
    number: int, below: Mapping[int, list[int]], computed: Collection[int]
) -> dict[int, bool]:
    """A class, those of the program that it was made of and that are no more, and their operands.

    With each, whether it is no more.
    """
    part = {number: True}
    stack = [number]
    while stack:
        for operand in below.get(stack.pop(), ()):
            if operand not in part:
                part[operand] = operand not in computed
                if part[operand]:
                    stack.append(operand)
    return part


def _said(why: Mapping[int, Iterable[str]], part: Mapping[int, bool]) -> list[tuple[str, int]]:
    """What rules said of classes; of what is computed still, only as what it was looked at."""
    known = rewrites()
    return [
        (rule, number)
        for number, gone in part.items()
        for rule in why.get(number, ())
        if gone or rule not in known
    ]


def _counted(
    reported: Collection[tuple[str, int]], below: Mapping[int, list[int]]
) -> Iterator[tuple[str, int]]:
    """What rules said of classes: once for a chain, and not again for what chains lead to."""
    heads: dict[tuple[str, int], frozenset[int]] = {}

    def heads_of(rule: str, number: int) -> frozenset[int]:
        known = heads.get((rule, number))
        if known is None:
            heads[rule, number] = frozenset()
            inner = (
                heads_of(rule, each) for each in below.get(number, ()) if (rule, each) in reported
            )
            under = frozenset[int]().union(*inner)
            known = heads[rule, number] = under if len(under) > 1 else frozenset((number,))
        return known

    hidden = {(rule, each) for rule, number in reported for each in below.get(number, ())}
    for rule, number in sorted(reported):
        if (rule, number) not in hidden:
            yield from ((rule, each) for each in sorted(heads_of(rule, number)))


def _led_to(makers: Iterable[str], said: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Of what rules said of classes, what the makers asked for, and what that asked for."""
    asking, left = set(makers), list(said)
    while True:
        new = [(rule, number) for rule, number in left if answers(rule, frozenset(asking))]
        if not new:
            return
        yield from new
        asking |= {rule for rule, _ in new}
        left = [each for each in left if each not in new]


def location(origin: Origin) -> str:
    """`resnet.mgn:8`, or nothing for what no line says."""
    return f"{origin.span.source.name}:{origin.span.line}" if origin.span else ""
