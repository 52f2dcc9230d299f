"""Everything that the rules find equal to a graph."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from time import perf_counter

from meganeura_dsl.graph.core import Graph, Leaf
from meganeura_dsl.ops import Parameter, RandomBits
from meganeura_dsl.optimize.encode import Shape, encode, loading
from meganeura_dsl.optimize.engine import prepared
from meganeura_dsl.optimize.rules.all import Mode, rule_sets, told
from meganeura_dsl.optimize.rules.analysis import KNOWN
from meganeura_dsl.optimize.rules.geometry import constants, geometry
from meganeura_dsl.optimize.rules.reach import names_of, reachable_rules, words_of
from meganeura_dsl.optimize.saturate import OptimizerError, rule_program, saturate
from meganeura_dsl.optimize.schema import declarations
from meganeura_dsl.optimize.snapshot import Snapshot, snapshot


@dataclass(frozen=True)
class Explored:
    """A saturated e-graph, and what it took: rounds, matches of each rewrite, time per phase."""

    found: Snapshot
    iterations: int
    matches: Mapping[str, int]
    seconds: Mapping[str, float]


def explore(
    graph: Graph,
    mode: Mode,
    disabled: Collection[str] = (),
    tiles: Collection[str] = (),
) -> Explored:
    """Saturate a graph with the rules of a mode, but for those that are disabled.

    `tiles` are facts about the forms of Winograd's convolution that are looked at; there are none
    in mode `forward`.
    """
    known = told()
    unknown = sorted(set(disabled) - known.keys())
    if unknown:
        raise OptimizerError(f"there is no rule `{unknown[0]}` to disable")
    times = [perf_counter()]
    encoding = encode(graph.values)
    words = words_of(encoding).union(["tile"] if tiles else [])
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
        found = snapshot(engine, encoding.opaque, constant)
        times.append(perf_counter())
    phases = zip(("encode", "saturate", "read"), times, times[1:], strict=False)
    return Explored(
        found,
        saturation.iterations,
        {name: saturation.matches[name] for name in known},
        {phase: end - start for phase, start, end in phases},
    )


@dataclass(frozen=True)
class _Program:
    """What an e-graph is told before it is given a graph, and the tables that are then there."""

    commands: tuple[str, ...]
    tables: frozenset[str]

    def reads(self, fact: str) -> bool:
        """Whether a fact is about one of the tables."""
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
    """What is known before the first run: the parameters, but for those that a run updates.

    And what depends on nothing else.
    """
    known: set[int] = set()
    numbers: list[int] = []
    for number, value in enumerate(graph.values):
        match value.op:
            case Parameter(name=name):
                is_known = name not in graph.updates
            case Leaf() | RandomBits():
                is_known = False
            case _:
                is_known = all(operand.id in known for operand in value.operands)
        if is_known:
            known.add(value.id)
            numbers.append(number)
    return numbers
