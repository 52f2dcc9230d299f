"""Five steps of a GAN against PyTorch's loop of two optimizers and schedules.

It has batch norms, and the weights of its critic are clipped after each of their moves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import softplus
from torch.optim.lr_scheduler import LambdaLR, LinearLR

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
from meganeura_dsl.transforms.optimizers.schedules import Constant, Linear, RunLength
from meganeura_dsl.transforms.training_step import (
    TrainingSettings,
    optimized_training_step,
    training_step,
)
from meganeura_runtime.backends.registry import choose_device

pytestmark = pytest.mark.parity

LIMIT = 0.25
TEXT = f"""\
block Generator(hidden)(z: [n, 4]) -> [n, 6]
    where n >= 2:
  return z |> fc1: linear(hidden, bias=false) |> norm: batch_norm |> relu |> fc2: linear(6) |> tanh

block Critic(hidden)(x: [n, 6]) -> [n]
    where n >= 2:
  y = x |> fc1: linear(hidden, bias=false) |> norm: batch_norm |> relu |> fc2: linear(1)
  return rearrange(y, [n, 1] -> [n])

train gan(real: [batch, 6], noise: [batch, 4])
    where batch >= 2:
  layer g: Generator(8)
  layer d: Critic(7)
  fake = noise |> g
  d_loss = mean(softplus(-(real |> d))) + mean(softplus(stop_gradient(fake) |> d))
  minimize d_loss over d
  project d = minimum(maximum(d, -{LIMIT}), {LIMIT})
  g_loss = mean(softplus(-(fake |> d)))
  minimize g_loss over g
  metric d_loss = d_loss
  metric g_loss = g_loss
"""
STEPS, BATCH = 5, 12
RATES = {"g": 2e-2, "d": 4e-2}
CLIP = 0.3
EPS = 1e-3
"""Large enough that gradients which are rounding alone do not count."""
SETTINGS = TrainingSettings(
    Adam(RATES["g"], beta1=0.5, eps=EPS),
    clip_norm=CLIP,
    feed_learning_rate=True,
    groups=(("d.*", Adam(RATES["d"], beta1=0.5, eps=EPS)),),
    schedules=("d.*",),
)
LENGTH = RunLength(STEPS, STEPS)
SCHEDULES = {"g": Constant(warmup=3), "d": Linear(final=0.5)}
"""One of each objective."""


@dataclass(frozen=True)
class Trained:
    """The two losses of each step, and all weights and statistics after them."""

    losses: list[tuple[float, float]]
    kept: Mapping[str, Array]


class Net(nn.Module):
    """Two linear layers with a batch norm between them."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(inputs, hidden, bias=False)
        self.norm = nn.BatchNorm1d(hidden)
        self.fc2 = nn.Linear(hidden, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.relu(self.norm(self.fc1(x))))


def networks() -> nn.ModuleDict:
    """Generator and critic in double precision, their weights drawn."""
    torch.manual_seed(3)
    return nn.ModuleDict({"g": Net(4, 8, 6), "d": Net(6, 7, 1)}).double()


def batches() -> list[dict[str, Array]]:
    """Returns the inputs of each step, the rates too: those of the optimizer of all paths."""
    generator = np.random.default_rng(5)
    shapes = {"real": (BATCH, 6), "noise": (BATCH, 4)}
    fed: list[dict[str, Array]] = []
    for step in range(STEPS):
        factors = [each.at(step, LENGTH) for each in SCHEDULES.values()]
        data = {name: generator.normal(size=shape) for name, shape in shapes.items()}
        fed.append({**data, LEARNING_RATE: RATES["g"] * np.array(factors)})
    return fed


@cache
def theirs() -> Trained:
    """The usual loop: the critic moves first, and the generator meets it as it is then."""
    nets = networks()
    g, d = nets["g"], nets["d"]
    optimizers = {
        name: torch.optim.Adam(nets[name].parameters(), rate, (0.5, 0.999), EPS)
        for name, rate in RATES.items()
    }
    schedules = {
        "g": LambdaLR(optimizers["g"], lambda step: min(1.0, (step + 1) / 3)),
        "d": LinearLR(optimizers["d"], 1.0, 0.5, STEPS),
    }
    losses: list[tuple[float, float]] = []
    for batch in batches():
        real, noise = torch.tensor(batch["real"]), torch.tensor(batch["noise"])
        fake = torch.tanh(g(noise))
        d_loss = softplus(-d(real)).mean() + softplus(d(fake.detach())).mean()
        optimizers["d"].zero_grad()
        d_loss.backward()
        nn.utils.clip_grad_norm_(d.parameters(), CLIP)
        optimizers["d"].step()
        for weight in d.parameters():
            weight.data.clamp_(-LIMIT, LIMIT)
        g_loss = softplus(-d(fake)).mean()
        optimizers["g"].zero_grad()
        g_loss.backward()
        nn.utils.clip_grad_norm_(g.parameters(), CLIP)
        optimizers["g"].step()
        for each in schedules.values():
            each.step()
        losses.append((d_loss.item(), g_loss.item()))
    return Trained(losses, {name: each.numpy() for name, each in nets.state_dict().items()})


@cache
def forward() -> Graph:
    sink = Sink()
    module = Linker(lambda _: None, sink).link(Source("gan.mgn", TEXT))
    assert not sink.has_errors, sink.reports
    return elaborate_train(Program(module), "gan", sizes={"batch": BATCH}, training=True).graph


def steps(*, optimized: bool) -> Graph:
    """One training step."""
    if optimized:
        return optimized_training_step(forward(), SETTINGS, RewriteOptions()).graph
    return training_step(forward(), SETTINGS)


def started(graph: Graph) -> dict[str, Array]:
    """Returns the kept tensors before the first step, in double precision."""
    given = {name: each.numpy() for name, each in networks().state_dict().items()}
    kept: dict[str, Array] = {}
    for name, leaf in Interpreter(graph).leaves.items():
        if name not in ("real", "noise", LEARNING_RATE):
            dtype = np.int32 if leaf.type.dtype is DType.I32 else np.float64
            shape = [int(str(size)) for size in leaf.type.shape]
            kept[name] = given.get(name, np.zeros(shape)).astype(dtype)
    return kept


def assert_equal(mine: Trained, tolerance: float) -> None:
    np.testing.assert_allclose(mine.losses, theirs().losses, rtol=tolerance)
    for name, values in mine.kept.items():
        if not name.startswith("optimizer."):
            wanted = theirs().kept[name]
            np.testing.assert_allclose(values, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("optimized", [False, True])
def test_in_double_precision(*, optimized: bool) -> None:
    graph = steps(optimized=optimized)
    interpreter = Interpreter(graph, Precision.DOUBLE)
    kept, losses = started(graph), list[tuple[float, float]]()
    for batch in batches():
        results = interpreter.run({**batch, **kept})
        kept |= results.updates
        losses.append((float(results.outputs["d_loss"]), float(results.outputs["g_loss"])))
    assert set(theirs().kept) <= set(kept)
    assert_equal(Trained(losses, kept), 1e-9)


@pytest.mark.parametrize(
    ("device", "optimized"),
    [
        ("cpu", False),
        ("cpu", True),
        ("xla", False),
        pytest.param("wgpu", True, marks=pytest.mark.adapter),
    ],
)
def test_on_devices(device: str, *, optimized: bool) -> None:
    graph = steps(optimized=optimized)
    losses: list[tuple[float, float]] = []
    with choose_device(device).open(graph) as session:
        session.load({name: _single(each) for name, each in started(graph).items()})
        for batch in batches():
            outputs = session.step({name: _single(each) for name, each in batch.items()})
            losses.append((float(outputs["d_loss"]), float(outputs["g_loss"])))
        kept = {name: session.read(name) for name in graph.updates}
    assert_equal(Trained(losses, kept), 2e-4)


def _single(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype == np.float64 else array


def test_the_order_of_objectives_is_of_consequence() -> None:
    """The tolerances above would notice a generator that meets the critic of before the step."""
    old = TEXT.replace("  g_loss = mean(softplus(-(fake |> d)))\n", "").replace(
        "  minimize d_loss", "  g_loss = mean(softplus(-(fake |> d)))\n  minimize d_loss"
    )
    lines = old.splitlines()
    assert any("g_loss = " in a and "minimize d_loss" in b for a, b in pairwise(lines))
    sink = Sink()
    module = Linker(lambda _: None, sink).link(Source("gan.mgn", old))
    graph = training_step(
        elaborate_train(Program(module), "gan", sizes={"batch": BATCH}, training=True).graph,
        SETTINGS,
    )
    found = Interpreter(graph, Precision.DOUBLE).run({**batches()[0], **started(graph)})
    d_loss, g_loss = theirs().losses[0]
    assert float(found.outputs["d_loss"]) == pytest.approx(d_loss, rel=1e-9)
    assert abs(float(found.outputs["g_loss"]) / g_loss - 1) > 1e-2
