"""Optimize a graph: encode, saturate, choose, decode; then say what was done.

In `forward` mode the result may still be differentiated, so every rewrite keeps the gradient too.
In `train` mode it is a whole step, which may not be. In `infer` mode parameters never change:
whatever depends on them alone is moved into a second graph that is run once, when they are loaded.
"""

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from meganeura_dsl.graph.core import Graph, Origin
from meganeura_dsl.ops import Parameter
from meganeura_dsl.optimize.choose import Plan, choose
from meganeura_dsl.optimize.cost import DeviceModel, graph_cost
from meganeura_dsl.optimize.decode import Decoder, Roots, first_origins, inputs_of, leaves_of
from meganeura_dsl.optimize.encode import encode
from meganeura_dsl.optimize.engine import Engine
from meganeura_dsl.optimize.report import Chosen, Report
from meganeura_dsl.optimize.rules.all import Mode, reachable_rules, rewrites, rule_sets
from meganeura_dsl.optimize.rules.geometry import geometry
from meganeura_dsl.optimize.saturate import OptimizerError, rule_program, saturate
from meganeura_dsl.optimize.schema import declarations
from meganeura_dsl.optimize.snapshot import Snapshot, snapshot

DEFAULT_DEVICE = DeviceModel()


@dataclass(frozen=True)
class Optimized:
    """The optimized graph, how the parameters it adds are derived, and what was done.

    The outputs of `load` are named after the parameters of `graph` whose values they are.
    """

    graph: Graph
    load: Graph
    report: Report


def optimize(
    graph: Graph,
    *,
    mode: Mode,
    device: DeviceModel = DEFAULT_DEVICE,
    disabled: Collection[str] = (),
) -> Optimized:
    """The cheapest graph that the rules find equal to `graph`, whose sizes are all numbers."""
    unknown = sorted(set(disabled) - rewrites().keys())
    if unknown:
        raise OptimizerError(f"there is no rule `{unknown[0]}` to disable")
    return _Optimization(graph, mode, device, disabled).run()


class _Optimization:
    """One call of `optimize`, phase by phase."""

    def __init__(
        self, graph: Graph, mode: Mode, device: DeviceModel, disabled: Collection[str]
    ) -> None:
        self.graph = graph
        self.mode: Mode = mode
        self.device = device
        self.disabled = disabled
        self.seconds: dict[str, float] = {}

    def run(self) -> Optimized:
        with self._timed("encode"):
            encoding = encode(self.graph.values)
            engine = Engine(self._program())
            facts = (*geometry(self.graph.values), *self._constants())
            engine.execute((*encoding.commands, *facts))
        with self._timed("saturate"):
            saturation = saturate(engine, len(self.graph.values))
        with self._timed("read"):
            found = snapshot(engine, encoding.opaque)
        with self._timed("extract"):
            plan = choose(found, self._roots(found).all, self.device)
        with self._timed("decode"):
            graph, load = self._decode(found, plan)
        report = Report(
            mode=self.mode,
            nodes_before=len(self.graph.values),
            nodes_after=len(graph.values),
            enodes=len(found.nodes),
            eclasses=len(found.classes),
            iterations=saturation.iterations,
            seconds=self.seconds,
            matches={name: saturation.matches[name] for name in rewrites()},
            chosen=tuple(self._chosen(found, plan)),
            cost_before=graph_cost(self.graph),
            cost_after=graph_cost(graph),
        )
        return Optimized(graph, load, report)

    @contextmanager
    def _timed(self, phase: str) -> Generator[None]:
        start = perf_counter()
        yield
        self.seconds[phase] = perf_counter() - start

    def _program(self) -> list[str]:
        sets = rule_sets(self.mode)
        rules = [rule for each in sets for rule in each.rules if rule.name not in self.disabled]
        present = {type(value.op).__name__ for value in self.graph.values}
        return [*declarations(), *rule_program(sets, reachable_rules(rules, present))]

    def _constants(self) -> list[str]:
        """In inference, what is known before the first run: all but what a run itself updates."""
        if self.mode != "infer":
            return []
        return [
            f"(constant (node {number}))"
            for number, value in enumerate(self.graph.values)
            if isinstance(value.op, Parameter) and value.op.name not in self.graph.updates
        ]

    def _roots(self, found: Snapshot) -> Roots:
        numbers = dict(zip((value.id for value in self.graph.values), found.values, strict=True))
        return Roots(
            {name: numbers[value.id] for name, value in self.graph.outputs.items()},
            {name: numbers[value.id] for name, value in self.graph.updates.items()},
        )

    def _decode(self, found: Snapshot, plan: Plan) -> tuple[Graph, Graph]:
        origins = first_origins(self.graph, found.values)
        stored = _parameters(found, plan, origins)
        run = Decoder(found, plan.run, origins, stored)
        run.declare(inputs_of(self.graph) if self.mode == "infer" else leaves_of(self.graph))
        graph = run.graph(self._roots(found))
        load = Decoder(found, plan.load, origins)
        outputs = {parameter.name: number for number, parameter in stored.items()}
        return graph, load.graph(Roots(outputs, {}))

    def _chosen(self, found: Snapshot, plan: Plan) -> Iterator[Chosen]:
        """The rewrites whose result is in one of the two graphs, in their order."""
        known = rewrites()
        given = _given(self.graph, found)
        origins = first_origins(self.graph, found.values)
        for number in plan.order:
            choice = plan.load if number in plan.stored else plan.run
            node = found.nodes[choice[number]]
            name = type(node.op).__name__
            made = None if (node.op, node.operands) in given else name
            for rule in found.why.get(number, ()):
                if known[rule].made == made:
                    origin = origins.get(number, Origin())
                    yield Chosen(rule, name, origin.path, _place(origin))


def _given(graph: Graph, found: Snapshot) -> set[tuple[object, tuple[int, ...]]]:
    """The nodes that the graph itself had."""
    numbers = dict(zip((value.id for value in graph.values), found.values, strict=True))
    return {
        (value.op, tuple(numbers[operand.id] for operand in value.operands))
        for value in graph.values
    }


def _parameters(found: Snapshot, plan: Plan, origins: Mapping[int, Origin]) -> dict[int, Parameter]:
    """A frozen parameter for each stored class, named after the layer it is for."""
    parameters: dict[int, Parameter] = {}
    users = {need: user for user in plan.order for need in _operands(found, plan, user)}
    counts: dict[str, int] = {}
    for number in plan.stored:
        user = users.get(number, number)
        path = origins.get(user, origins.get(number, Origin())).path
        prefix = f"{path}." if path else ""
        counts[prefix] = counts.get(prefix, 0) + 1
        of = found.types[number]
        name = f"{prefix}derived.{counts[prefix] - 1}"
        parameters[number] = Parameter(name, of.dtype, of.shape, "frozen")
    return parameters


def _operands(found: Snapshot, plan: Plan, number: int) -> Sequence[int]:
    return () if number in plan.stored else found.nodes[plan.run[number]].operands


def _place(origin: Origin) -> str:
    return f"{origin.span.source.name}:{origin.span.line}" if origin.span else ""
