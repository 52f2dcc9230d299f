"""A graph made ready to be differentiated both ways: by reverse mode, and by differences.

Every float output is multiplied by its own coefficients and summed, so that each op stands in
the middle of the graph, under a cotangent that is neither one nor uniform.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from meganeura_dsl.gradcheck.kinks import kink_values
from meganeura_dsl.gradcheck.random_inputs import COEFFICIENT, Indices, Stated, indices_of
from meganeura_dsl.ir.graph import Array, Builder, Graph, Leaf, Value, continued
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.ops import Abs, Add, Input, Mul, Parameter, StopGradient, Sum
from meganeura_dsl.ir.outputs import Gradient
from meganeura_dsl.transforms.autodiff import differentiate
from meganeura_dsl.transforms.unroll_loops import unroll_loops

LOSS = "loss"
MAGNITUDE = "magnitude"
DECISION = "decision."
ROUNDINGS = 3
"""The number of times that gradients are computed from differently rounded inputs."""


class NoGradientError(Exception):
    """A graph cannot be differentiated: no float output, or no float to move."""


@dataclass(frozen=True, eq=False)
class Probe:
    """The weighted sum of a graph's outputs, and its gradients by reverse mode."""

    graph: Graph
    """Outputs `loss`, the outputs of the graph itself, and `gradient.NAME` for each leaf moved."""
    forward: Graph
    """Outputs the loss, the sum of the magnitudes of its terms, and which kinks lie where."""
    moved: tuple[str, ...]
    """The float inputs and the parameters that are trained."""
    stated: Stated
    """The whole numbers that it may be fed."""

    @cached_property
    def reverse(self) -> Interpreter:
        """The graph in double precision."""
        return Interpreter(self.graph, Precision.DOUBLE)

    @cached_property
    def indices(self) -> Indices:
        """The ranges of the whole numbers that it reads.

        Iterations of loops are seen one by one.
        """
        has_loops = any(value.op.bodies for value in self.graph.values)
        graphs = (self.graph, self.forward) if has_loops else (self.graph,)
        return indices_of(*graphs, stated=self.stated)

    @cached_property
    def differences(self) -> Interpreter:
        """The forward graph in double precision."""
        return Interpreter(self.forward, Precision.DOUBLE)

    def at(self, feeds: Mapping[str, Array]) -> "Point":
        """The point that these numbers are."""
        return Point(self, feeds)


@dataclass(frozen=True, eq=False)
class Point:
    """The point at which a probe is differentiated."""

    probe: Probe
    feeds: Mapping[str, Array]

    @cached_property
    def gradients(self) -> Mapping[str, Array]:
        """The gradients by reverse mode, in double precision."""
        outputs = self.probe.reverse.run(fitting(self.probe.graph, self.feeds)).outputs
        return {name: outputs[Gradient(name)] for name in self.probe.moved}

    @cached_property
    def rounded_gradients(self) -> tuple[Mapping[str, Array], ...]:
        """The gradients for inputs that are rounded otherwise, in the last digits."""
        generator = np.random.default_rng(0)
        rounded = [
            {name: _rounded(generator, each) for name, each in self.feeds.items()}
            for _ in range(ROUNDINGS)
        ]
        return tuple(self.probe.at(each).gradients for each in rounded)

    @cached_property
    def _values(self) -> tuple[Array | None, ...]:
        return self.probe.differences.every_value(fitting(self.probe.forward, self.feeds))

    @property
    def is_finite(self) -> bool:
        """True if the loss is finite."""
        return bool(np.isfinite(self.moved({}, 0)[LOSS]))

    def moved(self, direction: Mapping[str, Array], by: float) -> Mapping[str, Array]:
        """The outputs of the forward graph at a point nearby.

        What gradients do not flow through stays, since differences must not see it move.
        """
        changed = {name: self.feeds[name] + by * each for name, each in direction.items()}
        return self.probe.differences.perturbed(self._values, changed)


def probe(graph: Graph, stated: Stated | None = None) -> Probe:
    """A graph ready to be checked, `stated` being the whole numbers that it may be fed.

    Raises `NoGradientError`, `NotDifferentiableError`.
    """
    build, kept = continued(graph)
    loss, magnitude = _weighted(build, kept)
    leaves = {leaf.name: value for value in kept.values if (leaf := _movable(value)) is not None}
    if not leaves:
        raise NoGradientError("it reads no float that could be moved")
    gradients = differentiate(build, loss, tuple(leaves.values()))
    named = {Gradient(name): built for name, built in zip(leaves, gradients, strict=True)}
    outputs = {LOSS: loss, **{f"output.{name}": each for name, each in kept.outputs.items()}}
    both = build.graph({**outputs, **named})
    forward = _forward(build.graph({LOSS: loss, MAGNITUDE: magnitude}))
    return Probe(both, forward, tuple(leaves), stated or {})


def fitting(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the feeds that a graph reads."""
    return {
        value.op.name: feeds[value.op.name] for value in graph.values if isinstance(value.op, Leaf)
    }


def _rounded(generator: np.random.Generator, numbers: Array) -> Array:
    if not np.issubdtype(numbers.dtype, np.floating):
        return numbers
    unit = np.finfo(np.float64).eps
    return np.asarray(numbers * (1 + unit * generator.integers(-4, 5, numbers.shape)))


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


def _forward(graph: Graph) -> Graph:
    """The loss, and the decisions that differences can see, in each iteration of a loop."""
    build, kept = continued(unroll_loops(graph))
    chosen = kink_values(build, _differentiated(kept.outputs[LOSS]))
    decisions = {f"{DECISION}{index}": each for index, each in enumerate(chosen)}
    return build.graph({**kept.outputs, **decisions})


def _differentiated(loss: Value) -> list[Value]:
    """The values that gradients flow through, operands first."""
    seen: dict[int, Value] = {}
    stack = [loss]
    while stack:
        value = stack.pop()
        if value.id not in seen and not isinstance(value.op, StopGradient):
            seen[value.id] = value
            stack.extend(value.operands)
    return [seen[number] for number in sorted(seen)]
