"""Everything that the rules find equal to a graph."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter

from meganeura_dsl.graph.core import Graph
from meganeura_dsl.ops import Parameter
from meganeura_dsl.optimize.encode import Shape, encode, loading, shape_of
from meganeura_dsl.optimize.engine import prepared
from meganeura_dsl.optimize.rules.all import Mode, reachable_rules, rule_sets, told
from meganeura_dsl.optimize.rules.analysis import KNOWN
from meganeura_dsl.optimize.rules.geometry import constants, geometry
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
    shapes = frozenset(map(shape_of, graph.values))
    with prepared(_program(shapes, mode, frozenset(disabled), tiled=bool(tiles))) as engine:
        encoding = encode(graph.values)
        encoding.load(engine)
        engine.execute((*geometry(graph.values), *tiles))
        if mode == "infer":
            engine.load(KNOWN, _constants(graph))
        times.append(perf_counter())
        saturation = saturate(engine, len(graph.values))
        times.append(perf_counter())
        found = snapshot(engine, encoding.opaque)
        times.append(perf_counter())
    phases = zip(("encode", "saturate", "read"), times, times[1:], strict=False)
    return Explored(
        found,
        saturation.iterations,
        {name: saturation.matches[name] for name in known},
        {phase: end - start for phase, start, end in phases},
    )


@lru_cache(maxsize=64)
def _program(
    shapes: frozenset[Shape], mode: Mode, disabled: frozenset[str], *, tiled: bool
) -> tuple[str, ...]:
    """What an e-graph is told before it is given a graph of these shapes of values."""
    sets = rule_sets(mode)
    rules = [rule for each in sets for rule in each.rules if rule.name not in disabled]
    present = {*(["tile"] if tiled else []), *(name for name, _ in shapes)}
    return (
        *declarations(),
        *loading(shapes),
        *rule_program(sets, reachable_rules(rules, present)),
        *constants(),
    )


def _constants(graph: Graph) -> list[tuple[int]]:
    """What is known before the first run: the parameters, but for those that a run updates."""
    return [
        (number,)
        for number, value in enumerate(graph.values)
        if isinstance(value.op, Parameter) and value.op.name not in graph.updates
    ]
