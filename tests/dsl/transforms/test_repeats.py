"""Programs with `repeat`: what they are refused for, and what a step of them leaves."""

from dataclasses import replace

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.objectives import Entering, Moved
from meganeura_dsl.ir.ops.primitive.loop import Loop
from meganeura_dsl.ir.outputs import Gradient
from meganeura_dsl.pipeline import Program, check, elaborate_train
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_dsl.transforms.training_step import TrainingError, TrainingSettings, training_step
from tests.properties.repeated_steps import repeats_as_steps

HEAD = "train fit(x: [batch, 2], y: [batch, 1]):\n"
BODY = "  layer net: linear(1)\n"
SETTINGS = TrainingSettings(Sgd(0.1))


def forward(body: str) -> Graph:
    sink = Sink()
    module = Linker(lambda _: None, sink).link(Source("fit.mgn", HEAD + body))
    assert not sink.has_errors, sink.reports
    return elaborate_train(Program(module), "fit", sizes={"batch": 4}, training=True).graph


REPEATED = f"{BODY}  repeat k in 0..3:\n    minimize mse(x |> net, y)\n"


NESTED = """\
  repeat k in 0..3:
    repeat j in 0..2:
      minimize mse(x |> net: linear(1), y)
"""
MEASURED = """\
  repeat k in 0..3:
    loss = mse(x |> net: linear(1), y)
    minimize loss
    metric error = loss
"""
COLLECTED = f"""\
{BODY}  repeat k in 0..3:
    losses[k] = mse(x |> net, y)
  minimize mean(losses)
"""
ABOVE = f"""\
{BODY}  h = x |> net
  repeat k in 0..3:
    minimize mse(h, y) over net
"""
FOR = f"{BODY}  for k in 0..3:\n    minimize mse(x |> net, y)\n"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (MEASURED, "error_of[k] = loss"),
        (NESTED, "let one `repeat` count"),
        (FOR, "in place of the `for`"),
        (FOR.replace("for", "scan"), "repeat k in 0..3:"),
        (COLLECTED, "scan k in 0..3:"),
        (REPEATED.replace("x |> net", "x[:, :1]"), "no parameter"),
        (ABOVE, "constant in it"),
        (REPEATED.replace("3", "0"), "has an iteration"),
        (f"{REPEATED}  minimize mean(x |> net) over net\n", "moved twice"),
    ],
)
def test_refusals(body: str, words: str) -> None:
    result = check(Source("fit.mgn", HEAD + body), lambda _: None)
    assert words in "\n".join(render(each, colour=False) for each in result.reports)


STEPS = """\
train fit(x: [batch, 3]):
  layer a: linear(3)
  layer b: linear(3)
  minimize mean(tanh(x |> a) ** 2) over a
  project a = 0.5 * a
  minimize mean((x |> a |> b) ** 2 + sin(x |> b)) over b
  metric after = mean(x |> a |> b)
"""


def test_iterations_are_steps() -> None:
    assert repeats_as_steps(STEPS, "fit", 0)


def test_a_step_is_one_loop_and_no_leaf_of_the_elaboration_is_left() -> None:
    values = training_step(forward(REPEATED), SETTINGS).values
    assert len({each.application for each in values if isinstance(each.op, Loop)}) == 1
    assert not any(isinstance(each.op, Entering | Moved) for each in values)


def test_what_stands_above_moves_nothing_and_what_stands_behind_meets_constants() -> None:
    body = (
        "  h = x |> above: linear(2)\n  total = 0.0 * mean(x)\n  repeat k in 0..3:\n"
        "    loss = mse(h |> net: linear(1), y)\n    minimize loss\n    total = total + loss\n"
        "  minimize total * mean(x |> other: linear(1)) + mean(h)\n"
    )
    graph = forward(body)
    moves = {name: each for each in graph.outputs if (name := getattr(each, "moves", None))}
    wanted = {
        ("net.weight", "net.bias"),
        ("above.weight", "above.bias", "other.weight", "other.bias"),
    }
    assert set(moves) == wanted


def test_a_gradient_that_is_shown_is_that_of_the_last_iteration() -> None:
    graph = forward(REPEATED)
    step = training_step(graph, replace(SETTINGS, gradients=True, gradient_norm=True))
    generator = np.random.default_rng(0)
    feeds = {"x": generator.normal(size=(4, 2)), "y": generator.normal(size=(4, 1))}
    weights = {"net.weight": generator.normal(size=(1, 2)), "net.bias": np.zeros(1)}
    shown = Interpreter(step, Precision.DOUBLE).run(feeds | weights).outputs
    slope: dict[str, Array] = {}
    for _ in range(3):
        error = feeds["x"] @ weights["net.weight"].T + weights["net.bias"] - feeds["y"]
        slope = {"net.weight": 2 * error.T @ feeds["x"] / 4, "net.bias": 2 * error.mean(0)}
        weights = {name: weights[name] - 0.1 * each for name, each in slope.items()}
    for name, each in slope.items():
        np.testing.assert_allclose(shown[Gradient(name)], each, rtol=1e-9)


def test_frozen_weights_stay_and_are_not_projected() -> None:
    graph = forward(f"{REPEATED}    project net = 0.5 * net\n")
    step = training_step(graph, replace(SETTINGS, groups=(("net.bias", None),)))
    feeds = {"x": np.ones((4, 2)), "y": np.ones((4, 1))}
    weights = {"net.weight": np.ones((1, 2)), "net.bias": np.ones(1)}
    updates = Interpreter(step, Precision.DOUBLE).run(feeds | weights).updates
    weight = 1.0
    for _ in range(3):
        weight = 0.5 * (weight - 0.1 * 2 * (2 * weight + 1 - 1))
    assert "net.bias" not in updates
    np.testing.assert_allclose(updates["net.weight"], [[weight, weight]], rtol=1e-9)


@pytest.mark.parametrize(
    "settings",
    [
        replace(SETTINGS, accumulate=2),
        replace(SETTINGS, every=(("net.*", 2),)),
        replace(SETTINGS, part=StepPart.GRADIENTS),
    ],
)
def test_one_move_cannot_be_asked_for(settings: TrainingSettings) -> None:
    with pytest.raises(TrainingError):
        training_step(forward(REPEATED), settings)
