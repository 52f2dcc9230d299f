"""The first value of a graph whose own gradient is wrong: each op is checked where it stands."""

from collections.abc import Mapping
from dataclasses import dataclass

from meganeura_dsl.gradcheck.finite_differences import SidedSlope, Slope, sided_slopes, slopes
from meganeura_dsl.gradcheck.probe import NoGradientError, fitting, probe
from meganeura_dsl.gradcheck.random_inputs import COEFFICIENT, RandomInputs
from meganeura_dsl.ir.graph import Array, Builder, Graph, Leaf, NotDifferentiableError, Value
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.ops import Input


@dataclass(frozen=True)
class FaultyValue:
    """A value of the graph and how its pullback is wrong."""

    value: Value
    slope: Slope | SidedSlope


def first_wrong(
    graph: Graph, feeds: Mapping[str, Array], seed: int, *, sided: bool = False
) -> FaultyValue | None:
    """The first value, from the inputs on, whose pullback disagrees with differences.

    With `sided` the feeds are a special point, and each side has its differences.
    None if every op is right by itself: then the fault lies in how their gradients are added up.
    """
    everything = Graph(graph.values, {str(value.id): value for value in graph.values})
    known = Interpreter(everything, Precision.DOUBLE).run(fitting(graph, feeds)).outputs
    for value in graph.values:
        if value.operands and value.type.dtype.is_float:
            slope = _first_slope(value, known, seed, sided=sided)
            if slope is not None:
                return FaultyValue(value, slope)
    return None


def _first_slope(
    value: Value, known: Mapping[str, Array], seed: int, *, sided: bool
) -> Slope | SidedSlope | None:
    """Returns the slopes of one value's op, alone in a graph, if they disagree; else None."""
    build = Builder()
    operands = [
        build.add(Input(f"operand {index}", operand.type.dtype, operand.type.shape))
        for index, operand in enumerate(value.operands)
    ]
    alone = build.graph({"value": build.reapply(value, *operands)})
    try:
        probed = probe(alone)
    except (NoGradientError, NotDifferentiableError):
        return None
    feeds = {
        f"operand {index}": known[str(operand.id)] for index, operand in enumerate(value.operands)
    }
    point = probed.at({**feeds, **coefficients(probed.graph, seed)})
    found = sided_slopes(point, seed) if sided else slopes(point, seed)
    return next((slope for slope in found if not slope.agrees), None)


def coefficients(graph: Graph, seed: int) -> dict[str, Array]:
    """Numbers for what the outputs of a probe are multiplied by."""
    numbers = RandomInputs(seed)
    return {
        value.op.name: numbers.tensor(value.op.name, value.type)
        for value in graph.values
        if isinstance(value.op, Leaf) and value.op.name.startswith(COEFFICIENT)
    }
