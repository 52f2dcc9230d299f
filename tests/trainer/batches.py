"""A program for trainers, and batches for it."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from meganeura import Trainer
from meganeura_runtime.io.tensors.stored_tensor import Array

DEVICES = ("cpu", "wgpu:0", "xla:cpu")

Batch = dict[str, Array]

PROGRAM = """\
train fit(x: [batch, 6], y: i32[batch]):
  h = x |> fc1: linear(8) |> norm: batch_norm |> gelu |> dropout(0.25)
  logits = h |> fc2: linear(3)
  minimize cross_entropy(logits, y)
  metric accuracy = mean(argmax(logits, 1) == y)
  run:
    batch     = 4
    optimizer = adam(lr=0.01)
"""


def batch(examples: int = 4, seed: int = 0) -> Batch:
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(examples, 6)).astype(np.float32)
    return {"x": points, "y": generator.integers(0, 3, examples).astype(np.int32)}


def losses(trainer: Trainer, seeds: range) -> list[float]:
    results = [trainer.step(batch(seed=seed)) for seed in seeds]
    return [result.loss for result in results]


def floats(tensors: Mapping[str, Array]) -> dict[str, NDArray[np.float64]]:
    return {name: each.astype(np.float64) for name, each in tensors.items()}
