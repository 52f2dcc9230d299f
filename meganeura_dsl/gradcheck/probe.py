"""A graph made ready to be differentiated both ways: by reverse mode, and by differences.

Every float output is multiplied by coefficients of its own and summed, so that each op stands in
the middle of the graph, under a cotangent that is neither one nor uniform.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

from meganeura_dsl.gradcheck.kinks import kink_values
from meganeura_dsl.ir.graph import Array, Builder, Graph, Leaf, Value, continued, rebuild
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.ops import Abs, Add, Input, Mul, Parameter, StopGradient, Sum
from meganeura_dsl.transforms.autodiff import differentiate
from meganeura_dsl.transforms.unroll_loops import unroll_loops

LOSS = "loss"
MAGNITUDE = "magnitude"
GRADIENT = "gradient."
COEFFICIENT = "coefficient."
HELD = "held."
DECISION = "decision."


class NoGradientError(Exception):
    """There is nothing to differentiate: no float output, or no float to move."""


@dataclass(frozen=True, eq=False)
class Probe:
    """The weighted sum of a graph's outputs, and its gradients by reverse mode."""

    graph: Graph
    """Outputs `loss`, the outputs of the graph itself, and `gradient.NAME` for each leaf moved."""
    forward: Graph
    """Outputs the loss, the sum of the magnitudes of its terms, and which kinks lie where.

    What gradients do not flow through is an input `held.N` of its own, since differences must not
    see it move.
    """
    held: Graph
    """The values of those inputs."""
    moved: tuple[str, ...]
    """The float inputs and the parameters that are trained."""

    @cached_property
    def _forward(self) -> Interpreter:
        return Interpreter(self.forward, Precision.DOUBLE)

    def gradients(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """By reverse mode, in double precision."""
        outputs = Interpreter(self.graph, Precision.DOUBLE).run(fitting(self.graph, feeds)).outputs
        return {name: outputs[GRADIENT + name] for name in self.moved}

    def fixed(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The feeds, and what is held at the point they are."""
        held = Interpreter(self.held, Precision.DOUBLE).run(fitting(self.held, feeds)).outputs
        return {**feeds, **held}

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """The loss, its magnitude and the decisions; `feeds` come from `fixed`."""
        return self._forward.run(fitting(self.forward, feeds)).outputs


def probe(graph: Graph) -> Probe:
    """A graph ready to be checked. Raises `NoGradientError`, `NotDifferentiableError`."""
    build, kept = continued(graph)
    loss, magnitude = _weighted(build, kept)
    leaves = {leaf.name: value for value in kept.values if (leaf := _movable(value)) is not None}
    if not leaves:
        raise NoGradientError("it reads no float that could be moved")
    gradients = differentiate(build, loss, tuple(leaves.values()))
    named = {GRADIENT + name: made for name, made in zip(leaves, gradients, strict=True)}
    outputs = {LOSS: loss, **{f"output.{name}": each for name, each in kept.outputs.items()}}
    both = build.graph({**outputs, **named})
    # Differences see what gradients do not flow through, and kinks, in each round of a loop.
    build, alone = continued(unroll_loops(build.graph({LOSS: loss, MAGNITUDE: magnitude})))
    stopped = [value for value in alone.values if isinstance(value.op, StopGradient)]
    held = build.graph({f"{HELD}{value.id}": value for value in stopped})
    return Probe(both, _held(alone), held, tuple(leaves))


def fitting(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Of the feeds, those a graph reads."""
    return {
        value.op.name: feeds[value.op.name] for value in graph.values if isinstance(value.op, Leaf)
    }


def _weighted(build: Builder, graph: Graph) -> tuple[Value, Value]:
    """The sum of coefficients times outputs, and of the absolute values of the same terms."""
    outputs = [value for value in graph.outputs.values() if value.type.dtype.is_float]
    if not outputs:
        raise NoGradientError("none of its results is a float")
    terms = [
        build.add(Mul(), build.add(_coefficient(index, value)), value)
        for index, value in enumerate(dict.fromkeys(outputs))
    ]
    return _total(build, terms), _total(build, (build.add(Abs(), term) for term in terms))


def _coefficient(index: int, value: Value) -> Input:
    return Input(f"{COEFFICIENT}{index}", value.type.dtype, value.type.shape)


def _total(build: Builder, terms: Iterable[Value]) -> Value:
    sums = (build.add(Sum(tuple(range(term.type.rank))), term) for term in terms)
    return reduce(lambda total, term: build.add(Add(), total, term), sums)


def _movable(value: Value) -> Leaf | None:
    match value.op:
        case Input(name=name) if value.type.dtype.is_float and not name.startswith(COEFFICIENT):
            return value.op
        case Parameter(kind="param") if value.type.dtype.is_float:
            return value.op
        case _:
            return None


def _held(graph: Graph) -> Graph:
    """The graph with what gradients do not flow through as inputs, and its decisions as outputs."""
    build = Builder()

    def hold(value: Value, operands: tuple[Value, ...]) -> Value:
        if isinstance(value.op, StopGradient):
            return build.add(Input(f"{HELD}{value.id}", value.type.dtype, value.type.shape))
        return build.reapply(value, *operands)

    changed = rebuild(graph, build, hold)
    chosen = kink_values(build, changed.values)
    return build.graph(
        {**changed.outputs, **{f"{DECISION}{index}": each for index, each in enumerate(chosen)}}
    )
