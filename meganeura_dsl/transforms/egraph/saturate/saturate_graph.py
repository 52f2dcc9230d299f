"""Equality saturation: everything that the rules find equal to a graph."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from time import perf_counter

from meganeura_dsl.ir.graph import Graph, Leaf
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.transforms.egraph.encoding.egglog_engine import prepared
from meganeura_dsl.transforms.egraph.encoding.egraph_snapshot import EGraphSnapshot, snapshot
from meganeura_dsl.transforms.egraph.encoding.encode import Shape, encode, loading
from meganeura_dsl.transforms.egraph.encoding.schema import declarations
from meganeura_dsl.transforms.egraph.rules.constant_analysis import KNOWN
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode, rule_sets, rules_by_name
from meganeura_dsl.transforms.egraph.saturate.axis_facts import constants, geometry
from meganeura_dsl.transforms.egraph.saturate.rule_pruning import (
    features_of,
    names_of,
    reachable_rules,
)
from meganeura_dsl.transforms.egraph.saturate.saturation import (
    OptimizerError,
    rule_program,
    saturate,
)


@dataclass(frozen=True)
class SaturatedGraph:
    """A saturated e-graph, with iterations, matches of each rewrite, and time per phase."""

    found: EGraphSnapshot
    iterations: int
    matches: Mapping[str, int]
    seconds: Mapping[str, float]
    tiles: tuple[tuple[int, ...], ...] = ()
    """The rows of the table `tile`: the forms of Winograd's convolution that were looked at."""


def saturate_graph(
    graph: Graph,
    mode: Mode,
    disabled: Collection[str] = (),
    tiles: Collection[str] = (),
) -> SaturatedGraph:
    """Saturate a graph with the rules of a mode, but for those that are disabled.

    `tiles` are facts about the forms of Winograd's convolution that are looked at; there are none
    in mode `forward`.
    """
    known = rules_by_name()
    unknown = sorted(set(disabled) - known.keys())
    if unknown:
        raise OptimizerError(f"there is no rule `{unknown[0]}` to disable")
    times = [perf_counter()]
    encoding = encode(graph.values)
    words = features_of(encoding).union(["tile"] if tiles else [])
    constant = constant_values(graph) if mode == "infer" else []
    program = _program(encoding.shapes, words, mode, frozenset(disabled))
    with prepared(program.commands) as engine:
        encoding.load(engine)
        facts = (*geometry(graph.values), *tiles)
        engine.execute(fact for fact in facts if program.reads(fact))
        if KNOWN in program.tables:
            engine.load({KNOWN: [(number,) for number in constant]})
        times.append(perf_counter())
        saturation = saturate(engine, len(graph.values))
        times.append(perf_counter())
        found = snapshot(engine, encoding.opaque, encoding.bodies, constant)
        times.append(perf_counter())
    phases = zip(("encode", "saturate", "read"), times, times[1:], strict=False)
    return SaturatedGraph(
        found,
        saturation.iterations,
        {name: saturation.matches.get(name, 0) for name in known},
        {phase: end - start for phase, start, end in phases},
        tuple(tuple(map(int, each[1:-1].split()[1:])) for each in tiles),
    )


@dataclass(frozen=True)
class _Program:
    """The program that an e-graph runs before it is given a graph, and the tables it declares."""

    commands: tuple[str, ...]
    tables: frozenset[str]

    def reads(self, fact: str) -> bool:
        """True if a fact is about one of the tables."""
        return fact[1:].split(maxsplit=1)[0] in self.tables


@lru_cache(maxsize=64)
def _program(
    shapes: frozenset[Shape], words: frozenset[str], mode: Mode, disabled: frozenset[str]
) -> _Program:
    """The program for graphs of these shapes of values and words: only what those can meet."""
    sets = rule_sets(mode)
    rules = reachable_rules(
        (rule for each in sets for rule in each.rules if rule.name not in disabled), words
    )
    named = names_of(rules)
    read = [each for each in sets if not named.isdisjoint(each.table_names)]
    program = _Program(
        (
            *declarations(named.union(name for name, _ in shapes)),
            *loading(shapes),
            *(table for each in read for table in each.tables),
            *rule_program(rules),
        ),
        frozenset[str]().union(*(each.table_names for each in read)),
    )
    facts = tuple(fact for fact in constants() if program.reads(fact))
    return replace(program, commands=program.commands + facts)


def constant_values(graph: Graph) -> list[int]:
    """Returns the values known before the first run: parameters that no run updates.

    And what depends on nothing else.
    """
    known: set[int] = set()
    numbers: list[int] = []
    for number, value in enumerate(graph.values):
        match value.op:
            case Parameter(name=name):
                is_known = name not in graph.updates
            case Leaf():
                is_known = False
            case _:
                is_known = all(operand.id in known for operand in value.operands)
        if is_known:
            known.add(value.id)
            numbers.append(number)
    return numbers
