"""Steps that move weights several times against PyTorch's loops.

A step of the program moves a critic with a batch norm and a head on its values four times, each
time by other examples, clips the critic's weights after each of its moves, and then moves a
generator once.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.reserved_names import LEARNING_RATE
from meganeura_dsl.ir.types import DType
from meganeura_dsl.pipeline import Program, elaborate_train
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Adam
from meganeura_dsl.transforms.training_step import (
    TrainingSettings,
    optimized_training_step,
    training_step,
)
from meganeura_runtime.backends.registry import choose_device
from tests.effort import effort

pytestmark = pytest.mark.parity

LIMIT, PART, BATCH, STEPS, RATE, EPS = 0.3, 3, 12, 3, 2e-2, 1e-3
TEXT = f"""\
block Critic(hidden)(x: [n, 6]) -> [n, hidden]
    where n >= 2:
  return x |> fc1: linear(hidden, bias=false) |> norm: batch_norm |> tanh

train gan(real: [batch, 6], noise: [batch, 4], order: i32[batch])
    where batch >= 4, batch % 4 == 0, 0 <= order, order < batch:
  layer g: linear(6)
  layer d: Critic(5)
  layer head: linear(1)
  fake = noise |> g
  repeat k in 0..4:
    part = batch // 4
    at = order[k * part:(k + 1) * part]
    values = gather(real, at) |> d
    d_loss = mean(softplus(-sum(values, 1))) + mean(softplus(sum(gather(fake, at) |> d, 1)))
    minimize d_loss over d
    project d = minimum(maximum(d, -{LIMIT}), {LIMIT})
    fit = mean((gather(real, at) |> d |> head) ** 2 + head.bias)
    minimize fit over head
    d_losses[k] = d_loss
  g_loss = mean(softplus(-sum(fake |> d, 1)))
  minimize g_loss over g
  metric d_loss = mean(d_losses)
  metric g_loss = g_loss
"""
SETTINGS = TrainingSettings(Adam(RATE, beta1=0.5, eps=EPS), clip_norm=0.5, feed_learning_rate=True)


class Critic(nn.Module):
    """A linear layer and a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(6, 5, bias=False)
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.norm(self.fc1(x)))


def networks() -> nn.ModuleDict:
    """The three networks in double precision, their weights drawn."""
    torch.manual_seed(3)
    nets = {"g": nn.Linear(4, 6), "d": Critic(), "head": nn.Linear(5, 1)}
    return nn.ModuleDict(nets).double()


def batches() -> list[dict[str, Array]]:
    generator = np.random.default_rng(5)
    return [
        {
            "real": generator.normal(size=(BATCH, 6)),
            "noise": generator.normal(size=(BATCH, 4)),
            "order": generator.permutation(BATCH).astype(np.int32),
            LEARNING_RATE: np.array(RATE * (1 + step)),
        }
        for step in range(STEPS)
    ]


@cache
def theirs() -> tuple[list[tuple[float, ...]], Mapping[str, Array]]:
    """The losses of each step, and all weights and statistics after them."""
    nets = networks()
    optimizers = {
        name: torch.optim.Adam(nets[name].parameters(), RATE, (0.5, 0.999), EPS) for name in nets
    }

    def move(name: str, loss: torch.Tensor) -> None:
        optimizers[name].zero_grad()
        gradients = torch.autograd.grad(loss, list(nets[name].parameters()), retain_graph=True)
        for parameter, gradient in zip(nets[name].parameters(), gradients, strict=True):
            parameter.grad = gradient
        nn.utils.clip_grad_norm_(nets[name].parameters(), 0.5)
        optimizers[name].step()

    softplus = nn.functional.softplus
    losses: list[tuple[float, ...]] = []
    for batch in batches():
        for optimizer in optimizers.values():
            optimizer.param_groups[0]["lr"] = float(batch[LEARNING_RATE])
        real, noise = torch.tensor(batch["real"]), torch.tensor(batch["noise"])
        order = torch.tensor(batch["order"]).long()
        fake = nets["g"](noise)
        d_losses: list[float] = []
        fits: list[float] = []
        for k in range(4):
            at = order[k * PART : (k + 1) * PART]
            d_loss = softplus(-nets["d"](real[at]).sum(1)).mean()
            d_loss = d_loss + softplus(nets["d"](fake[at].detach()).sum(1)).mean()
            move("d", d_loss)
            for weight in nets["d"].parameters():
                weight.data.clamp_(-LIMIT, LIMIT)
            fit = (nets["head"](nets["d"](real[at])) ** 2 + nets["head"].bias).mean()
            move("head", fit)
            d_losses.append(d_loss.item())
            fits.append(fit.item())
        g_loss = softplus(-nets["d"](fake).sum(1)).mean()
        move("g", g_loss)
        total = float(np.mean(d_losses) + np.mean(fits) + g_loss.item())
        losses.append((float(np.mean(d_losses)), g_loss.item(), total))
    return losses, {name: each.numpy() for name, each in nets.state_dict().items()}


@cache
def forward() -> Graph:
    sink = Sink()
    module = Linker(lambda _: None, sink).link(Source("gan.mgn", TEXT))
    assert not sink.has_errors, sink.reports
    return elaborate_train(Program(module), "gan", sizes={"batch": BATCH}, training=True).graph


def started(graph: Graph) -> dict[str, Array]:
    """Returns the kept tensors before the first step, in double precision."""
    given = {name: each.numpy() for name, each in networks().state_dict().items()}
    kept: dict[str, Array] = {}
    for name, leaf in Interpreter(graph).leaves.items():
        if name not in batches()[0]:
            dtype = np.int32 if leaf.type.dtype is DType.I32 else np.float64
            shape = [int(str(size)) for size in leaf.type.shape]
            kept[name] = given.get(name, np.zeros(shape)).astype(dtype)
    return kept


def assert_equal(
    losses: list[tuple[float, ...]], kept: Mapping[str, Array], tolerance: float
) -> None:
    wanted, weights = theirs()
    np.testing.assert_allclose(losses, wanted, rtol=tolerance)
    for name, values in kept.items():
        if not name.startswith("optimizer."):
            np.testing.assert_allclose(values, weights[name], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("skips", effort([True], [False, True]))
@pytest.mark.parametrize("optimized", effort([True], [False, True]))
def test_in_double_precision(*, optimized: bool, skips: bool) -> None:
    settings = replace(SETTINGS, skip_not_finite=skips)
    graph = (
        optimized_training_step(forward(), settings, RewriteOptions()).graph
        if optimized
        else training_step(forward(), settings)
    )
    interpreter = Interpreter(graph, Precision.DOUBLE)
    kept, losses = started(graph), list[tuple[float, ...]]()
    for batch in batches():
        results = interpreter.run({**batch, **kept})
        kept |= results.updates
        found = (float(results.outputs[name]) for name in ("d_loss", "g_loss", "loss"))
        losses.append(tuple(found))
    assert set(theirs()[1]) <= set(kept)
    assert_equal(losses, kept, 1e-9)


@pytest.mark.parametrize(
    "device", effort(["cpu"], ["cpu", "xla", pytest.param("wgpu", marks=pytest.mark.adapter)])
)
def test_on_devices(device: str) -> None:
    graph = optimized_training_step(forward(), SETTINGS, RewriteOptions()).graph
    losses: list[tuple[float, ...]] = []
    with choose_device(device).open(graph) as session:
        session.load({name: _single(each) for name, each in started(graph).items()})
        for batch in batches():
            outputs = session.step({name: _single(each) for name, each in batch.items()})
            losses.append(tuple(float(outputs[name]) for name in ("d_loss", "g_loss", "loss")))
        kept = {name: session.read(name) for name in graph.updates}
    assert_equal(losses, kept, 5e-4)


def _single(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype == np.float64 else array
