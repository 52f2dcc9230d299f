"""Programs of the library whose losses are their own, or that draw at random, against PyTorch.

Both sides are given the same weights and the same draws: a stream depends on its layer's path and
on its rank there, so a program that draws in the same order has the numbers of the library's.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from textwrap import dedent

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - so it is known
from torch import nn
from torch.func import functional_call

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import Interpreter, Precision, evaluate
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.outputs import Gradient
from meganeura_dsl.ir.types import DType
from meganeura_dsl.pipeline import Program, elaborate_model, elaborate_train, load
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step
from tests.parity import models
from tests.parity.references.images import DigitsNet, UNet
from tests.parity.references.small import (
    Autoencoder,
    Critic,
    Generator,
    Perceptron,
    Regressor,
    Solution,
    WassersteinCritic,
)
from tests.parity.references.spectral import Process

pytestmark = pytest.mark.parity

Draws = tuple[torch.Tensor, ...]
Tensors = Mapping[str, torch.Tensor]
Losses = Iterator[tuple[str, torch.Tensor, str]]
"""The output that shows a loss, the loss, and the path below which it moves the weights."""

STEPS, RATE, MOMENTUM = 5, 0.01, 0.9
SEED = 7


def draws(text: str, step: int) -> Draws:
    """Returns the random numbers of the model `net` in a step, in double precision."""
    sink = Sink()
    module = Linker(lambda _: None, sink).link(Source("draws.mgn", dedent(text)))
    assert not sink.has_errors, sink.reports
    graph = elaborate_model(Program(module), "net").graph
    counter = np.array([SEED, step], np.uint32)
    found = evaluate(graph, {"counter": counter}, Precision.DOUBLE).outputs
    return tuple(torch.tensor(each) for each in found.values())


def stored(module: nn.Module, elaboration: Elaboration) -> dict[str, Array]:
    """The weights of a module, which are all that a program has and no others."""
    given = {name: each.numpy().copy() for name, each in module.state_dict().items()}
    wanted = {each.name: concrete_shape(each.type.shape) for each in elaboration.parameters}
    assert wanted == {name: each.shape for name, each in given.items()}
    return {
        name: each if np.issubdtype(each.dtype, np.floating) else each.astype(np.int32)
        for name, each in given.items()
    }


# --- sampling ------------------------------------------------------------------------------------

COUNT, ROUNDS = 1, 2


def image_share(level: torch.Tensor) -> torch.Tensor:
    """The cosine schedule of Nichol and Dhariwal 2021."""
    return (torch.cos((level + 0.008) / 1.008 * torch.pi / 2) ** 2).clamp(min=1e-5)


class Sampler(UNet):
    """`Drawn` of ddpm.mgn: algorithm 2 of Ho et al. 2020, the image kept in -1 ... 1."""

    def __init__(self, noise: Draws) -> None:
        super().__init__(16, 8, 1)
        self.noise = noise

    def forward(self) -> torch.Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        first, later = self.noise
        x = first
        for at in range(ROUNDS):
            level = torch.tensor((ROUNDS - at) / ROUNDS, dtype=x.dtype)
            now, before = image_share(level), image_share(level - 1 / ROUNDS)
            beta = (1 - now / before).clamp(max=0.999)
            found = super().forward(x, level.expand(COUNT))
            clean = ((x - (1 - now).sqrt() * found) / now.sqrt()).clamp(-1, 1)
            x = (before.sqrt() * beta * clean + (1 - beta).sqrt() * (1 - before) * x) / (1 - now)
            if at + 1 < ROUNDS:
                x = x + (beta * (1 - before) / (1 - now)).sqrt() * later[at]
        return (x + 1) / 2


SAMPLED = models.Case(
    "ddpm-drawn",
    f"""\
    from ddpm import Drawn
    model net = Drawn(count={COUNT}, iterations={ROUNDS})
    train fit(target: [{COUNT}, 1, 8, 8]):
      minimize mse(net(), target)
    """,
    lambda: Sampler(
        draws(
            f"""\
            block Draws()() -> [{COUNT}, 1, 8, 8], [{ROUNDS}, {COUNT}, 1, 8, 8]:
              x = random_normal([{COUNT}, 1, 8, 8])
              scan i in 0..{ROUNDS}:
                later[i] = random_normal([{COUNT}, 1, 8, 8])
              return x, later
            model net = Draws()
            """,
            0,
        )
    ),
    {},
)


def test_the_diffusion_model_draws_what_its_formulas_say() -> None:
    """The pictures, and the gradients of a loss of them through all rounds."""
    module = models.reference(SAMPLED)
    values = stored(module, models.inference(SAMPLED))
    counter = {"counter": np.array([SEED, 0], np.uint32)}
    found = models.forward(SAMPLED, values, counter, Precision.DOUBLE)
    with torch.no_grad():
        expected = module.double()().numpy()
    models.assert_near({"output": found}, {"output": expected}, 1e-12)
    data = {"target": np.random.default_rng(0).normal(size=found.shape).astype(np.float32)}
    theirs = models.their_step(module, data)
    ours = models.step(SAMPLED, values, {**data, **counter}, Precision.DOUBLE)
    models.assert_near(ours.gradients, theirs.gradients, 1e-11)


# --- training ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Training:
    """A `train` block of the library and the same in PyTorch."""

    file: str
    batch: int
    module: Callable[[], nn.Module]
    losses: Callable[[nn.Module, Tensors, Draws], Losses]
    """Yields the objectives in turn: the weights move before the next is asked for."""
    draws: str = ""
    """A program whose model `net` draws what the block does."""
    train: str = ""
    """The `train` block, if it is not called as the file."""

    def __str__(self) -> str:
        return self.file

    def data(self, elaboration: Elaboration, step: int) -> dict[str, Array]:
        generator = np.random.default_rng(step)
        found: dict[str, Array] = {}
        for name, wanted in elaboration.inputs.items():
            shape = concrete_shape(wanted.shape)
            is_label = wanted.dtype is DType.I32
            numbers = generator.integers(0, 10 if is_label else 17, shape)
            found[name] = numbers.astype(np.int32 if is_label else np.float32)
        return found


def distilled(module: nn.Module, data: Tensors, _: Draws) -> Losses:
    """Equation 1 and section 2.1 of Hinton et al. 2015."""
    module.get_submodule("teacher").eval()
    with torch.no_grad():
        wanted = module.get_submodule("teacher")(data["image"])
    logits = module.get_submodule("student")(data["image"])
    soft = F.cross_entropy(logits / 4, (wanted / 4).softmax(1)) * 16
    yield "loss", 0.1 * F.cross_entropy(logits, data["label"]) + 0.9 * soft, "student."


def denoised(module: nn.Module, data: Tensors, drawn: Draws) -> Losses:
    """L_simple of Ho et al. 2020."""
    noise, level = drawn
    share = image_share(level)[:, None, None, None]
    noisy = share.sqrt() * (data["image"] / 8 - 1) + (1 - share).sqrt() * noise
    yield "loss", F.mse_loss(module(noisy, level), noise), ""


def bounded(module: nn.Module, data: Tensors, drawn: Draws) -> Losses:
    """The lower bound of Kingma and Welling 2014, appendix B."""
    pixels = data["image"] / 16
    assert isinstance(module, Autoencoder)
    center, log_variance = module.encoded(pixels)
    z = center + (log_variance / 2).exp() * drawn[0]
    cost = F.binary_cross_entropy_with_logits(module.decoded(z), pixels) * 64
    divergence = (center**2 + log_variance.exp() - log_variance - 1).sum(1).mean() / 2
    yield "loss", cost + divergence, ""


def contested(module: nn.Module, data: Tensors, drawn: Draws) -> Losses:
    """The critic moves first, and the generator meets it as it is then (Goodfellow et al. 2014)."""
    noise, *kept = drawn
    g, d = module.get_submodule("g"), module.get_submodule("d")
    assert isinstance(d, Critic)
    masks = [(each >= 0.3).double() / 0.7 for each in kept]
    fake = g(noise)
    real = F.logsigmoid(d.dropped(data["image"] / 16, masks[0], masks[1]))
    told = F.logsigmoid(-d.dropped(fake.detach(), masks[2], masks[3]))
    yield "critic_loss", -(real + told).mean(), "d."
    yield "generator_loss", -F.logsigmoid(d.dropped(fake, masks[4], masks[5])).mean(), "g."


def slope(scalar: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The gradient, to be differentiated again."""
    return torch.autograd.grad(scalar, x, create_graph=True)[0]


def penalised(module: nn.Module, data: Tensors, drawn: Draws) -> Losses:
    """Algorithm 1 of Gulrajani et al. 2017, where both move once."""
    noise, share = drawn
    g, d = module.get_submodule("g"), module.get_submodule("d")
    real, fake = data["image"] / 16, g(noise)
    part = share[:, None, None, None]
    between = (part * real + (1 - part) * fake.detach()).requires_grad_()
    size = (slope(d(between).sum(), between).pow(2).sum((1, 2, 3)) + 1e-12).sqrt()
    distance = d(real).mean() - d(fake.detach()).mean()
    yield "critic_loss", 10 * ((size - 1) ** 2).mean() - distance, "d."
    yield "generator_loss", -d(fake).mean(), "g."


def flattened(module: nn.Module, data: Tensors, _: Draws) -> Losses:
    """Algorithm 1 of Foret et al. 2021; the running statistics follow the first pass alone."""
    own = dict(module.named_parameters())
    near = F.cross_entropy(module(data["image"]), data["label"])
    by = torch.autograd.grad(near, list(own.values()))
    size = (torch.stack([each.pow(2).sum() for each in by]).sum() + 1e-12).sqrt()
    worse = {name: own[name] + 0.05 * each / size for name, each in zip(own, by, strict=True)}
    kept = {name: each.clone() for name, each in module.named_buffers()}
    found = functional_call(module, {**worse, **kept}, data["image"])
    yield "loss", F.cross_entropy(found, data["label"]), ""


def adapted(module: nn.Module, data: Tensors, drawn: Draws) -> Losses:
    """Algorithm 2 of Finn et al. 2017."""
    assert isinstance(module, Regressor)
    x, query = (10 * each - 5 for each in drawn)
    height, shift = (data[name][:, None, None] for name in ("height", "shift"))
    y, wanted = (height * torch.sin(each - shift) for each in (x, query))
    errors = [
        F.mse_loss(functional_call(module, module.adapted(x[at], y[at], 1), query[at]), wanted[at])
        for at in range(len(x))
    ]
    yield "loss", torch.stack(errors).mean(), ""


def likely(module: nn.Module, data: Tensors, drawn: Draws) -> Losses:
    """Section 3.2 of Patacchiola et al. 2020: the marginal likelihood of the tasks of a batch."""
    x, query = (10 * each - 5 for each in drawn)
    height, shift = (data[name][:, None] for name in ("height", "shift"))
    likelihood, _mean, _variance = module(x, height * torch.sin(x[..., 0] - shift), query)
    yield "loss", -likelihood.mean() / 10, ""


def solved(module: nn.Module, _: Tensors, drawn: Draws) -> Losses:
    """Section 3.1 of Raissi et al. 2019."""
    x, t = (2 * drawn[0] - 1).requires_grad_(), drawn[1].requires_grad_()
    u = module(x, t)
    ux, ut = slope(u.sum(), x), slope(u.sum(), t)
    residual = ((ut + u * ux - 0.031830988618 * slope(ux.sum(), x)) ** 2).mean()
    start = ((module(x, torch.zeros_like(x)) + torch.sin(3.1415926535898 * x)) ** 2).mean()
    yield "loss", residual + start + (module(x.sign(), t) ** 2).mean(), ""


TRAININGS = [
    Training(
        "distil",
        3,
        lambda: nn.ModuleDict({"student": Perceptron(16, 10), "teacher": DigitsNet()}),
        distilled,
    ),
    Training(
        "ddpm",
        2,
        lambda: UNet(16, 8, 1),
        denoised,
        """\
        block Draws()() -> [2, 1, 8, 8], [2]:
          return random_normal([2, 1, 8, 8]), random_uniform([2])
        model net = Draws()
        """,
    ),
    Training(
        "vae",
        3,
        lambda: Autoencoder(256),
        bounded,
        """\
        block Draws()() -> [3, 8]:
          return random_normal([3, 8])
        model net = Draws()
        """,
    ),
    Training(
        "gan",
        6,
        lambda: nn.ModuleDict({"g": Generator(128), "d": Critic(128)}),
        contested,
        f"""\
        block Masks()(z: [6, 16]) -> {", ".join(["[6, 128]"] * 6)}:
          return {", ".join(["random_uniform([6, 128])"] * 6)}
        block Draws()() -> [6, 16], {", ".join(["[6, 128]"] * 6)}:
          z = random_normal([6, 16])
          a, b, c, d, e, f = z |> d: Masks
          return z, a, b, c, d, e, f
        model net = Draws()
        """,
    ),
    Training(
        "wgan",
        6,
        lambda: nn.ModuleDict({"g": Generator(128), "d": WassersteinCritic(32)}),
        penalised,
        """\
        block Draws()() -> [6, 16], [6]:
          return random_normal([6, 16]), random_uniform([6])
        model net = Draws()
        """,
    ),
    Training("sam", 4, DigitsNet, flattened, train="flat"),
    Training(
        "maml",
        3,
        lambda: Regressor(40),
        adapted,
        """\
        block Draws()() -> [3, 10, 1], [3, 10, 1]:
          return random_uniform([3, 10, 1]), random_uniform([3, 10, 1])
        model net = Draws()
        """,
    ),
    Training(
        "gp",
        3,
        lambda: Process(40),
        likely,
        """\
        block Draws()() -> [3, 10, 1], [3, 10, 1]:
          return random_uniform([3, 10, 1]), random_uniform([3, 10, 1])
        model net = Draws()
        """,
    ),
    Training(
        "pinn",
        5,
        lambda: Solution(32, 4),
        solved,
        """\
        block Draws()() -> [5], [5]:
          return random_uniform([5]), random_uniform([5])
        model net = Draws()
        """,
    ),
]


@pytest.mark.parametrize("training", TRAININGS, ids=str)
def test_a_training_of_the_library_takes_the_steps_of_pytorch(training: Training) -> None:
    """Losses and gradients in double precision, and all weights after five steps in single."""
    elaboration = elaborate_train(
        load(training.file),
        training.train or training.file,
        sizes={"batch": training.batch},
        training=True,
    )
    module = models.randomized(training.module()).double().train()
    values = stored(module, elaboration)
    settings = TrainingSettings(Sgd(RATE, MOMENTUM), gradients=True)
    step = training_step(elaboration.graph, settings)
    single, double = Interpreter(step), Interpreter(step, Precision.DOUBLE)
    kept = {
        name: each.astype(np.float32) if each.dtype == np.float64 else each
        for name, each in values.items()
    }
    for name, leaf in single.leaves.items():
        if name.startswith("optimizer."):
            kept[name] = np.zeros(concrete_shape(leaf.type.shape), np.float32)
    optimizer = torch.optim.SGD(module.parameters(), RATE, MOMENTUM)
    for at in range(STEPS):
        data = training.data(elaboration, at)
        fed = {**data, "counter": np.array([SEED, at], np.uint32)}
        fed = {name: each for name, each in fed.items() if name in single.leaves}
        noise = draws(training.draws, at) if training.draws else ()
        losses, gradients = {}, {}
        given = models.tensors(data, torch.float64)
        for name, loss, path in training.losses(module, given, noise):
            optimizer.zero_grad()
            loss.backward()
            losses[name] = np.asarray(loss.item())
            for parameter, each in module.named_parameters():
                if parameter.startswith(path):
                    assert each.grad is not None
                    gradients[Gradient(parameter)] = each.grad.numpy().copy()
                else:
                    each.grad = None
            optimizer.step()
        if at == 0:
            exact = double.run({**fed, **kept, **values}).outputs
            models.assert_near({name: exact[name] for name in losses}, losses, 1e-12)
            found: dict[str, Array] = {
                name: each for name, each in exact.items() if isinstance(name, Gradient)
            }
            models.assert_near(found, gradients, 1e-11)
        kept |= single.run({**fed, **kept}).updates
    after = {name: each.numpy() for name, each in module.state_dict().items()}
    models.assert_near({name: kept[name] for name in after}, after, 1e-4)
    assert any(np.abs(after[name] - values[name]).max() > 1e-5 for name in after)
