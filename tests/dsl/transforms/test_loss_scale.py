"""A scaled loss: the same updates, a scale that follows overflows, and where it is multiplied."""

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph
from meganeura_dsl.ir.interpreter import Interpreter
from meganeura_dsl.ir.ops import Input, MatMul, Mul, Parameter, Sum, Tanh
from meganeura_dsl.ir.traits import PRODUCTS
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.loss_scale import (
    FIRST,
    GROWTH,
    GROWTH_INTERVAL,
    LARGEST,
    LEAST,
    SCALE,
)
from meganeura_dsl.transforms.optimizers.optimizers import Adam
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_dsl.transforms.training_step import (
    LOSS_SCALE,
    SKIPPED,
    TrainingSettings,
    optimized_training_step,
    training_step,
)
from tests.dsl.transforms.test_update_gate import SOUND, forward

SIZES = {"w": (4, 3), "v": (3, 2)}


def network() -> Graph:
    """The sum of two products with a tanh between them, times an input."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (5, 4)))
    w, v = (build.add(Parameter(name, DType.F32, size, "param")) for name, size in SIZES.items())
    y = build.add(MatMul(), build.add(Tanh(), build.add(MatMul(), x, w)), v)
    weighted = build.add(Mul(), y, build.add(Input("s", DType.F32, (5, 2))))
    return build.graph({"loss": build.add(Sum((0, 1)), weighted)})


def settings(
    *, scaled: bool, part: StepPart = StepPart.WHOLE, accumulate: int = 1
) -> TrainingSettings:
    return TrainingSettings(Adam(), scale_loss=scaled, part=part, accumulate=accumulate)


def stepped(
    graph: Graph, fed: dict[str, Array], *, scale: float = FIRST, count: int = 0
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The outputs of a step and what it keeps, from ones and the scale that is given."""
    interpreter = Interpreter(graph)
    kept: dict[str, Array] = {
        name: np.ones([int(str(size)) for size in leaf.type.shape], np.float32)
        if leaf.type.dtype is DType.F32
        else np.array(0, np.int32)
        for name, leaf in interpreter.leaves.items()
        if name not in fed
    }
    if SCALE in kept:
        kept |= {SCALE: np.array(scale - FIRST, np.float32), GROWTH: np.array(count, np.int32)}
    results = interpreter.run({**kept, **fed})
    return dict(results.outputs), {**kept, **results.updates}


def drawn() -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {
        "x": rng.standard_normal((5, 4)).astype(np.float32),
        "s": rng.standard_normal((5, 2)).astype(np.float32),
    }


@pytest.mark.parametrize("scale", [LEAST, 2.0**7, FIRST, LARGEST])
def test_an_update_is_that_of_the_loss_itself_to_the_last_bit(scale: float) -> None:
    _, plain = stepped(training_step(network(), settings(scaled=False)), drawn())
    outputs, kept = stepped(training_step(network(), settings(scaled=True)), drawn(), scale=scale)
    assert outputs[LOSS_SCALE] == scale
    assert outputs[SKIPPED] == 0
    assert {*kept} - {*plain} == {SCALE, GROWTH}
    for name, value in plain.items():
        np.testing.assert_array_equal(kept[name], value)


@pytest.mark.parametrize(
    ("scale", "count", "after"),
    [
        (FIRST, 0, (FIRST, 1)),
        (FIRST, GROWTH_INTERVAL - 1, (2 * FIRST, 0)),
        (LARGEST, GROWTH_INTERVAL - 1, (LARGEST, 0)),
        (LEAST, GROWTH_INTERVAL - 1, (2 * LEAST, 0)),
    ],
)
def test_the_scale_grows_after_so_many_updates(
    scale: float, count: int, after: tuple[float, int]
) -> None:
    graph = training_step(forward(), settings(scaled=True))
    fed = {f"x.{name}": each for name, each in SOUND.items()}
    _, kept = stepped(graph, fed, scale=scale, count=count)
    assert (kept[SCALE] + FIRST, kept[GROWTH]) == after


@pytest.mark.parametrize(("scale", "after"), [(FIRST, FIRST / 2), (2.0, LEAST), (LEAST, LEAST)])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_an_overflow_leaves_the_update_out_and_halves_the_scale(
    scale: float, after: float, value: float
) -> None:
    graph = training_step(forward(), settings(scaled=True))
    fed = {f"x.{name}": each.copy() for name, each in SOUND.items()}
    fed["x.a"][1] = value
    before = stepped(graph, fed, scale=scale, count=7)
    outputs, kept = before
    assert outputs[SKIPPED] == 1
    assert (kept[SCALE] + FIRST, kept[GROWTH]) == (after, 0)
    for name in SOUND:
        np.testing.assert_array_equal(kept[name], np.ones_like(kept[name]))
    assert kept["count"] == 0, "nor do the states of the program move"


def test_parts_of_a_step_have_the_same_states_and_the_scale_moves_with_the_parameters() -> None:
    parts = {
        (part, accumulate): training_step(
            forward(), settings(scaled=True, part=part, accumulate=accumulate)
        )
        for part, accumulate in (
            (StepPart.WHOLE, 1),
            (StepPart.GRADIENTS, 1),
            (StepPart.UPDATE, 1),
            (StepPart.WHOLE, 3),
            (StepPart.SUM, 3),
        )
    }
    for (part, _), graph in parts.items():
        names = {leaf.name for each in graph.values if isinstance(leaf := each.op, Parameter)}
        assert {SCALE, GROWTH} <= names
        assert ({SCALE, GROWTH} <= {*graph.updates}) is part.moves
        assert (LOSS_SCALE in graph.outputs) is part.moves


def test_every_product_of_the_gradients_reads_scaled_ones() -> None:
    """Rewriting keeps the scale in front of the products, where it is needed."""
    step = optimized_training_step(network(), settings(scaled=True), RewriteOptions())
    reached: set[int] = set()
    products = 0
    for value in step.graph.values:
        is_scale = isinstance(value.op, Parameter) and value.op.name == SCALE
        reads = any(each.id in reached for each in value.operands)
        if is_scale or reads:
            reached.add(value.id)
        products += bool(value.op.traits & PRODUCTS and reads)
    assert products == 3, "two gradients of weights and that of the hidden layer"
