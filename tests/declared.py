"""Rules that programs declare, as settings name them, and their steps by fed gradients."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from meganeura_dsl import pipeline
from meganeura_dsl.ir.graph import Array, Builder, Graph
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.ops import Add, Input, Mul, Parameter, Sum
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.settings.declared_optimizers import declared_optimizers
from meganeura_dsl.transforms.optimizers.declared import DeclaredOptimizer
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step

SHAPES: Mapping[str, tuple[int, ...]] = {"scale": (), "bias": (3,), "weight": (2, 5)}

RULES = """\
optimizer our_sgd(lr: real, factor: real = 0.0, nesterov: bool = false)(
    p: [...s], g: [...s]) -> [...s]:
  direction = g
  if factor > 0:
    state momentum: [...s] = zeros
    update momentum = factor * momentum + g
    direction = g + factor * momentum if nesterov else momentum
  return p - lr * direction

optimizer our_lion(lr: real, beta1: real = 0.9, beta2: real = 0.99, weight_decay: real = 0.0)(
    p: [...s], g: [...s]) -> [...s]:
  state exp_avg: [...s] = zeros
  c = exp_avg + (1 - beta1) * (g - exp_avg)
  direction = where(c > 0, 1.0, where(c < 0, -1.0, 0.0))
  update exp_avg = exp_avg + (1 - beta2) * (g - exp_avg)
  return (1 - lr * weight_decay) * p - lr * direction

optimizer our_adam(lr: real, beta1: real = 0.9, beta2: real = 0.999, eps: real = 1e-8)(
    p: [...s], g: [...s]) -> [...s] where 0 < beta1, 0 < beta2:
  state t: i32[] = zeros
  state exp_avg: [...s] = zeros
  state exp_avg_sq: [...s] = zeros
  update t = t + 1
  update exp_avg = exp_avg + (1 - beta1) * (g - exp_avg)
  update exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * (g * g)
  root = sqrt(exp_avg_sq) / sqrt(1 - exp(log(beta2) * f32(t))) + eps
  return p - lr / (1 - exp(log(beta1) * f32(t))) * (exp_avg / root)
"""


def declared_in(text: str, folder: Path) -> Mapping[str, Callable[..., DeclaredOptimizer]]:
    """Returns the optimizers of a program, which is proved."""
    (folder / "rules.mgn").write_text(text)
    return declared_optimizers(pipeline.load(str(folder / "rules.mgn")).module)


def network() -> Graph:
    """The loss is the sum of each weight times an input of its shape: its gradient."""
    build = Builder()
    parts = []
    for name, shape in SHAPES.items():
        p = build.add(Parameter(name, DType.F32, shape, "param"))
        g = build.add(Input(f"slope.{name}", DType.F32, shape))
        product = build.add(Mul(), p, g)
        parts.append(build.add(Sum(tuple(range(len(shape)))), product) if shape else product)
    loss = build.add(Add(), build.add(Add(), parts[0], parts[1]), parts[2])
    return build.graph({"loss": loss})


def started() -> dict[str, Array]:
    """The weights before the first step, in double precision."""
    generator = np.random.default_rng(3)
    return {name: np.asarray(generator.normal(size=shape)) for name, shape in SHAPES.items()}


def slopes(steps: int) -> Iterator[dict[str, Array]]:
    """Gradients of some steps, zeros among them."""
    generator = np.random.default_rng(7)
    for _ in range(steps):
        drawn = {name: generator.normal(size=shape) for name, shape in SHAPES.items()}
        drawn["weight"][0, 0] = 0
        yield drawn


def steps_of(
    settings: TrainingSettings, steps: int, precision: Precision = Precision.SINGLE
) -> dict[str, Array]:
    """Returns the weights and states after some steps, each with its own gradients.

    Of accumulated batches the last moves weights.
    """
    dtype = np.float32 if precision is Precision.SINGLE else np.float64
    parts = {
        part: Interpreter(training_step(network(), _with_part(settings, part)), precision)
        for part in (StepPart.WHOLE, StepPart.SUM)
    }
    kept: dict[str, Array] = {name: each.astype(dtype) for name, each in started().items()}
    for name, value in parts[StepPart.WHOLE].leaves.items():
        if name.startswith("optimizer."):
            whole = value.type.dtype is DType.I32
            kept[name] = np.zeros(concrete_shape(value.type.shape), np.int32 if whole else dtype)
    for number, drawn in enumerate(slopes(steps)):
        moves = (number + 1) % settings.accumulate == 0
        fed = {f"slope.{name}": np.asarray(each, dtype) for name, each in drawn.items()}
        rate = {"learning_rate": np.asarray(0.01 / (number + 1), dtype)}
        running = parts[StepPart.WHOLE if moves else StepPart.SUM]
        given = {**fed, **kept, **rate}
        kept |= running.run({name: given[name] for name in running.leaves}).updates
    return kept


def _with_part(settings: TrainingSettings, part: StepPart) -> TrainingSettings:
    return replace(settings, part=part)
