"""A training step moves what its objectives say, each along the slope of its loss."""

from collections.abc import Callable, Mapping
from math import isfinite
from random import Random

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.training_blocks import free_sizes
from meganeura_dsl.elaborate.problems.shape_problems import NormOverOne
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.gradcheck.random_inputs import RandomInputs
from meganeura_dsl.ir.graph import Array, Builder, Graph, Value
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.objectives import Moved, Objective, objectives
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.reserved_names import STATES
from meganeura_dsl.ir.verify import verify
from meganeura_dsl.pipeline import Program, elaborate_train
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import LOSS, TrainingSettings, training_step
from tests.properties.graph_sizes import is_small
from tests.properties.training_programs import PROJECTED

RATE = 0.125
AVERAGE = "slow."
"""The prefix of parameters that an update of their layer moves."""
COUNTER, BATCH = "batch", 2
WAYS = (1e-5, 1e-6, 3e-7, 3e-8, 3e-9)
"""Distances at which a loss is measured; one of them meets no kink, and little curvature."""
CLOSE, ROUNDING = 1e-5, 1e-14
"""Tolerances of a slope by differences: relative to 1 and the slope, and to the loss for each
unit of the distance."""
LARGEST = 1e6
"""A loss beyond this says nothing."""
MOST_PARAMETERS = 24
"""A `train` block with more is left to other tests."""

Values = Mapping[str, Array]


def follows_slopes(module: LinkedModule, name: str, random: Random) -> int:
    """Hold a step of a `train` block to what it says; how many slopes were compared.

    Some parameters are frozen by settings, and some move at every second step, which is not this
    one. Raises `AssertionError`.
    """
    train = module.trains[name]
    if free_sizes(train) != (COUNTER,):
        return 0
    program = Program(module)
    try:
        forward = elaborate_train(program, name, sizes={COUNTER: BATCH}, training=True).graph
    except ProblemError as error:
        if isinstance(error.problem, NormOverOne):
            return 0
        raise
    parameters = sorted(_parameters(forward))
    if len(parameters) > MOST_PARAMETERS or not is_small(forward):
        return 0
    still = random.sample(parameters, random.randint(0, 1))
    seldom = random.sample(parameters, random.randint(0, 1))
    settings = TrainingSettings(
        Sgd(RATE),
        groups=tuple((each, None) for each in still),
        every=tuple((each, 2) for each in seldom),
    )
    step = training_step(forward, settings)
    verify(step)
    feeds = RandomInputs(random.randrange(1000)).feeds(step)
    feeds |= {each: 0 * array for each, array in feeds.items() if each.startswith(STATES)}
    done = Interpreter(step, Precision.DOUBLE).run(feeds)
    new = {each: done.updates.get(each, feeds[each]) for each in parameters}
    moves = objectives(forward) or (Objective(0, tuple(parameters)),)
    movable = {each for objective in moves for each in objective.moves} - {*still, *seldom}
    moved = {
        name: array / PROJECTED if name in movable and name in forward.updates else array
        for name, array in new.items()
    }
    whole = Interpreter(_with_leaves_once(forward), Precision.DOUBLE)
    known = {each: array for each, array in feeds.items() if not each.startswith(STATES)}
    for leaf in whole.leaves.values():
        if isinstance(leaf.op, Moved):
            known[leaf.op.name] = moved[leaf.op.parameter]
    found = whole.run(known).outputs
    for output, array in found.items():
        if not isinstance(output, Objective):
            assert np.allclose(done.outputs[output], array, equal_nan=True), f"{output} of a step"
    for each in parameters:
        is_moved = each in movable
        changed = not np.array_equal(new[each], feeds[each], equal_nan=True)
        assert is_moved or each.startswith(AVERAGE) or not changed, f"{each} moved"
    slopes = 0
    for objective in moves:
        going = [each for each in objective.moves if each in movable]
        slopes += len(going)
        for each in going:
            loss = objective if objective in found else LOSS
            _along(whole, loss, known, each, (moved[each] - feeds[each]) / -RATE, random)
    return slopes


def _along(
    whole: Interpreter, loss: str, known: Values, name: str, slope: Array, random: Random
) -> None:
    """Compare a step's slope with differences of the loss, in a random direction."""
    direction = np.random.default_rng(random.randrange(1000)).normal(size=slope.shape)
    values = whole.every_value(known)

    def measure(way: float) -> float:
        return float(whole.perturbed(values, {name: known[name] + way * direction})[loss])

    settles(measure, float(np.sum(slope * direction)), f"{loss} along {name}")


def settles(measure: Callable[[float], float], taken: float, what: str) -> int:
    """Hold a slope to differences of a number; returns 1 if they bear it out, and 0 if they cannot.

    They speak against it where those of two ways agree with each other, and not with it. Raises
    `AssertionError` then.
    """
    measured: list[float] = []
    has_settled = False
    for way in WAYS:
        high, low = measure(way), measure(-way)
        found = (high - low) / (2 * way)
        if not isfinite(found) or abs(high) > LARGEST:
            return 0
        limit = CLOSE * (1 + abs(found)) + ROUNDING * abs(high) / way
        if abs(found - taken) <= limit:
            return 1
        has_settled |= any(abs(found - before) <= 2 * limit for before in measured[-1:])
        measured.append(found)
    assert not has_settled, f"{what}: {measured}, and the slope is {taken}"
    return 0


def _with_leaves_once(graph: Graph) -> Graph:
    """The graph with one leaf for each parameter after an objective, so that it can be fed."""
    build = Builder()
    leaves: dict[str, Value] = {}
    made: dict[int, Value] = {}
    for value in graph.values:
        known = leaves.get(value.op.name) if isinstance(value.op, Moved) else None
        made[value.id] = known or build.reapply(value, *(made[each.id] for each in value.operands))
        if isinstance(value.op, Moved):
            leaves[value.op.name] = made[value.id]
    return build.graph({name: made[value.id] for name, value in graph.outputs.items()}, {})


def _parameters(graph: Graph) -> list[str]:
    return [
        value.op.name
        for value in graph.values
        if isinstance(value.op, Parameter) and value.op.kind == "param"
    ]
