"""The gradient that a block takes is the derivative of what it is taken of."""

from random import Random

from meganeura_dsl.elaborate.declarations.models import Inputs, elaborate_block
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.gradcheck.random_inputs import RandomInputs
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.startup.lazy_numpy import np
from tests.properties.graph_sizes import is_small
from tests.properties.objective_slopes import settles

SLOPE, EPS = "Slope", "eps"


def slopes_hold(module: LinkedModule, random: Random) -> int:
    """Hold the block `Slope` to its derivative by `eps`; how many slopes were compared, 0 or 1.

    Raises `AssertionError` for a slope that is another one.
    """
    types = Inputs((TensorType(DType.F32, (2, 3)), TensorType(DType.F32, ())))
    block = module.blocks[SLOPE]
    graph = elaborate_block(module, block, config={}, inputs=types, training=True).graph
    if not is_small(graph):
        return 0
    feeds = RandomInputs(random.randrange(1000)).feeds(graph) | {EPS: np.zeros((), np.float32)}
    whole = Interpreter(graph, Precision.DOUBLE)
    values = whole.every_value(feeds)
    scalar, slope = graph.outputs
    at = whole.run(feeds).outputs
    return settles(
        lambda way: float(whole.perturbed(values, {EPS: np.asarray(way)})[scalar]),
        float(at[slope]),
        f"{scalar} along {EPS}",
    )
