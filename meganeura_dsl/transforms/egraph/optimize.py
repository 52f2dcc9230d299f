"""Optimize a graph: explore what is equal to it, choose, decode; then say what was done.

In `forward` mode the result may still be differentiated, so every rewrite keeps the gradient too.
In `train` mode it is a whole step, which may not be. In `infer` mode parameters never change:
whatever depends on them alone is moved into a second graph that is run once, when they are loaded.
"""

from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import replace
from time import perf_counter

from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE, DeviceModel
from meganeura_dsl.ir.graph import Graph, Origin, Value
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.transforms.egraph.certificates.chain_search import ChainSearch
from meganeura_dsl.transforms.egraph.certificates.graph_record import graph_record, inference_record
from meganeura_dsl.transforms.egraph.certificates.guide import guide_of
from meganeura_dsl.transforms.egraph.cost.graph_cost import graph_cost
from meganeura_dsl.transforms.egraph.cost.winograd_candidates import promising_forms, tile_facts
from meganeura_dsl.transforms.egraph.encoding.egraph_snapshot import EGraphSnapshot
from meganeura_dsl.transforms.egraph.extract.decode import (
    Decoder,
    Roots,
    first_origins,
    inputs_of,
    leaves_of,
)
from meganeura_dsl.transforms.egraph.extract.extract import Extraction, extract_graph
from meganeura_dsl.transforms.egraph.optimized import Evidence, Optimized
from meganeura_dsl.transforms.egraph.provenance import Provenance
from meganeura_dsl.transforms.egraph.rewrite_report import AppliedRule, Findings, RewriteReport
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode
from meganeura_dsl.transforms.egraph.saturate.saturate_graph import SaturatedGraph, saturate_graph
from meganeura_dsl.transforms.loop_bodies import with_bodies


def optimize(
    graph: Graph,
    *,
    mode: Mode,
    device: DeviceModel = DEFAULT_DEVICE,
    disabled: Collection[str] = (),
) -> Optimized:
    """The cheapest graph that the rules find equal to `graph`, whose sizes are all numbers.

    Rules do not look into loops, but the graph of each body is optimized by itself before.
    """
    inner: Mode = "forward" if mode == "forward" else "train"
    bodies: list[tuple[Graph, Optimized]] = []

    def optimized(body: Graph) -> Graph:
        done = optimize(body, mode=inner, device=device, disabled=disabled)
        bodies.append((body, done))
        return done.graph

    explored = with_bodies(graph, optimized)
    forms = () if mode == "forward" else promising_forms(explored, device)
    saturated = saturate_graph(explored, mode, disabled, tile_facts(forms, device))
    done = select(explored, saturated, mode, device)
    evidence = replace(done.evidence, before=graph, bodies=tuple(bodies))
    return replace(done, evidence=evidence)


def select(graph: Graph, explored: SaturatedGraph, mode: Mode, device: DeviceModel) -> Optimized:
    """The cheapest of all that was found equal to a graph."""
    return _Selection(graph, explored, mode).run(device)


class _Selection:
    """One choice among what was explored, and the graphs it gives."""

    def __init__(self, graph: Graph, explored: SaturatedGraph, mode: Mode) -> None:
        self.graph = graph
        self.explored = explored
        self.found = explored.found
        self.mode: Mode = mode
        ids = (value.id for value in graph.values)
        self.numbers = dict(zip(ids, self.found.values, strict=True))
        self.origins = first_origins(graph, self.found.values)

    def run(self, device: DeviceModel) -> Optimized:
        start = perf_counter()
        apart = self.mode == "forward"
        plan = extract_graph(self.found, self._roots().all, device, apart=apart)
        chosen = perf_counter()
        graph, load = self._decode(plan)
        seconds = {"extract": chosen - start, "decode": perf_counter() - chosen}
        report = RewriteReport(
            mode=self.mode,
            nodes_before=len(self.graph.values),
            nodes_after=len(graph.values),
            enodes=len(self.found.nodes),
            eclasses=len(self.found.classes),
            iterations=self.explored.iterations,
            seconds={**self.explored.seconds, **seconds},
            matches=self.explored.matches,
            look=lambda: self._findings(plan, graph),
            trace=lambda: self._trace(plan, graph, load),
        )
        evidence = Evidence(self.graph, self.graph, self.explored)
        return Optimized(graph, load, report, evidence)

    def _roots(self) -> Roots:
        return Roots(
            {name: self.numbers[value.id] for name, value in self.graph.outputs.items()},
            {name: self.numbers[value.id] for name, value in self.graph.updates.items()},
        )

    def _decode(self, plan: Extraction) -> tuple[Graph, Graph]:
        stored = _parameters(self.found, plan, self.origins)
        needed = set(plan.order)
        run = Decoder(self.found, plan.run, self.origins, stored)
        run.declare(self._declared(needed) if self.mode == "infer" else leaves_of(self.graph))
        load = Decoder(self.found, plan.load, self.origins)
        outputs = {parameter.name: number for number, parameter in stored.items()}
        order = [number for number in dict.fromkeys(self.found.values) if number in needed]
        return run.graph(self._roots(), order), load.graph(Roots(outputs, {}))

    def _declared(self, needed: Container[int]) -> list[Value]:
        """The inputs, and what is updated though nothing reads it before."""
        unread = [
            leaf
            for leaf in leaves_of(self.graph)
            if isinstance(leaf.op, Parameter)
            and leaf.op.name in self.graph.updates
            and self.numbers[leaf.id] not in needed
        ]
        return [*inputs_of(self.graph), *unread]

    def _findings(self, plan: Extraction, graph: Graph) -> Findings:
        chosen = Provenance(self.graph, self.found, plan, self.origins).chosen()
        return Findings(tuple(chosen), graph_cost(self.graph), graph_cost(graph))

    def _trace(self, plan: Extraction, graph: Graph, load: Graph) -> tuple[AppliedRule, ...] | None:
        after = inference_record(graph, load) if self.mode == "infer" else graph_record(graph)
        before = graph_record(self.graph)
        guide = guide_of(self.graph, before, self.explored, self.mode)
        chain = ChainSearch(before, after, {}, guide).run()
        if chain is None:
            return None
        provenance = Provenance(self.graph, self.found, plan, self.origins)
        return tuple(provenance.contributed(chain))


def _parameters(
    found: EGraphSnapshot, plan: Extraction, origins: Mapping[int, Origin]
) -> dict[int, Parameter]:
    """A frozen parameter for each stored class, named after the layer it is for."""
    users = {need: user for user in plan.order for need in _operands(found, plan, user)}
    counts: Counter[str] = Counter()
    parameters: dict[int, Parameter] = {}
    for number in plan.stored:
        user = users.get(number, number)
        path = origins.get(user, origins.get(number, Origin())).path
        prefix = f"{path}." if path else ""
        of = found.types[number]
        name = f"{prefix}derived.{counts[prefix]}"
        counts[prefix] += 1
        parameters[number] = Parameter(name, of.dtype, of.shape, "frozen")
    return parameters


def _operands(found: EGraphSnapshot, plan: Extraction, number: int) -> Sequence[int]:
    return () if number in plan.stored else found.nodes[plan.run[number]].operands
