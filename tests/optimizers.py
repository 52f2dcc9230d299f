"""A program in which every optimizer moves a layer of its name, and data for it."""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

ALL_OPTIMIZERS = """\
optimizer ours(lr: real, beta: real = 0.9)(p: [...s], g: [...s]) -> [...s]:
  state t: i32[] = zeros
  state m: [...s] = zeros
  update t = t + 1
  update m = beta * m + (1 - beta) * g
  length = sqrt(sum(p * p)) + 0.1
  return p - lr * length / (1 - exp(f32(t) * log(beta))) * tanh(m)

train fit(x: [batch, 16], y: i32[batch]):
  a = x |> sgd: linear(16) |> tanh |> adam: linear(16) |> tanh |> adamw: linear(16) |> tanh
  b = a |> rmsprop: linear(16) |> tanh |> adagrad: linear(16) |> tanh |> lion: linear(16) |> tanh
  c = b |> lamb: linear(16) |> tanh |> adafactor: linear(16) |> tanh |> muon: linear(16) |> tanh
  d = c |> ours: linear(16) |> tanh
  image = d |> rearrange([n, 4 * columns] -> [n, 1, 4, columns])
  kernels = image |> muon.conv: conv2d(4, 3, pad=1) |> adafactor.conv: conv2d(2, 3) |> tanh
  minimize cross_entropy(kernels |> rearrange([n, c, h, w] -> [n, c * h * w]) |> head: linear(3), y)
  run:
    data                     = "points.safetensors"
    batch                    = 8
    epochs                   = 2
    log_every                = 1
    clip_value               = 0.5
    clip_norm                = 1.0
    schedule                 = cosine(warmup=3)
    optimizer                = sgd(lr=0.05, momentum=0.9, weight_decay=0.01, decay="matrices")
    optimizer["adam.*"]      = adam(lr=0.01, amsgrad=true)
    optimizer["adamw.*"]     = adamw(lr=0.01, weight_decay=0.1, decay="matrices")
    optimizer["rmsprop.*"]   = rmsprop(lr=0.01, momentum=0.5, centered=true)
    optimizer["adagrad.*"]   = adagrad(lr=0.05, lr_decay=0.1, initial_accumulator_value=0.1)
    optimizer["lion.*"]      = lion(lr=0.003, weight_decay=0.1)
    optimizer["lamb.*"]      = lamb(lr=0.03, weight_decay=0.1)
    optimizer["adafactor.*"] = adafactor(lr=0.03, weight_decay=0.1)
    optimizer["muon*weight"] = muon(lr=0.02)
    optimizer["ours.*"]      = ours(lr=0.02, beta=0.8)
"""


def write_points(folder: Path) -> None:
    """Forty points of three classes, as `points.safetensors`."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(40, 16)).astype(np.float32)
    y = generator.integers(0, 3, 40).astype(np.int32)
    save_file({"x": x, "y": y}, folder / "points.safetensors")
