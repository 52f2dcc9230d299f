"""`grad` against `torch.autograd.grad(create_graph=True)`: values, losses of them, and gradients.

The gradient of a loss that holds a gradient is what training needs, so each case is a loss: its
value and its gradients by all weights, in double precision on the graph as it is elaborated, and in
single precision on each device as a training step is planned.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from textwrap import dedent

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - so it is known

from meganeura_dsl.ir.graph import Array, Graph, Leaf
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_runtime.backends.registry import choose_device
from tests.effort import effort
from tests.parity import models
from tests.parity.models import Case

pytestmark = pytest.mark.parity

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Slope:
    """A `train` block, and its loss by PyTorch from the same weights and data."""

    name: str
    text: str
    loss: Callable[[Tensors, Tensors], torch.Tensor]
    sizes: tuple[tuple[str, int], ...] = (("batch", 3),)

    def __str__(self) -> str:
        return self.name

    @property
    def case(self) -> Case:
        return Case(self.name, dedent(self.text), torch.nn.Identity, dict(self.sizes))


def slope(scalar: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The gradient, to be differentiated again."""
    return torch.autograd.grad(scalar, x, create_graph=True)[0]


def linear(p: Tensors, name: str, x: torch.Tensor) -> torch.Tensor:
    return F.linear(x, p[f"{name}.weight"], p.get(f"{name}.bias"))


def network(p: Tensors, x: torch.Tensor) -> torch.Tensor:
    for layer in range(2):
        x = torch.tanh(linear(p, f"net.layers.{layer}", x))
    return linear(p, "net.last", x)[:, 0]


def burgers(p: Tensors, data: Tensors) -> torch.Tensor:
    """Raissi et al. 2019: the residual of u_t + u u_x = v u_xx."""
    at = data["p"].requires_grad_()
    u = network(p, at)
    du = slope(u.sum(), at)
    uxx = slope(du[:, 0].sum(), at)[:, 0]
    return ((du[:, 1] + u * du[:, 0] - 0.003 * uxx) ** 2).mean()


def attended(p: Tensors, data: Tensors) -> torch.Tensor:
    x = data["x"].requires_grad_()
    h = F.layer_norm(x, (8,), p["norm.weight"], p["norm.bias"])
    h = F.gelu(linear(p, "f", h))
    heads = h[:, None]
    mixed = torch.softmax(heads @ heads.mT / 8**0.5, -1) @ heads
    energy = F.softplus(linear(p, "g", h + mixed[:, 0])).mean()
    return (slope(energy, x) ** 2).sum() + energy


def critic(p: Tensors, x: torch.Tensor) -> torch.Tensor:
    h = F.conv2d(x, p["critic.a.weight"], p["critic.a.bias"], 2, 1)
    h = F.max_pool2d(F.leaky_relu(h, 0.2), 2)
    return F.conv2d(h, p["critic.b.weight"], p["critic.b.bias"]).mean((1, 2, 3))


def penalised(p: Tensors, data: Tensors) -> torch.Tensor:
    """Gulrajani et al. 2017, algorithm 1, with the shares given."""
    real, fake, share = data["real"], data["fake"], data["share"][:, None, None, None]
    between = (share * real + (1 - share) * fake).detach().requires_grad_()
    by = slope(critic(p, between).sum(), between)
    size = ((by**2).sum((1, 2, 3)) + 1e-12).sqrt()
    told = critic(p, fake).mean() - critic(p, real).mean()
    return told + 10 * ((size - 1) ** 2).mean()


def attacked(p: Tensors, data: Tensors) -> torch.Tensor:
    """Madry et al. 2018: steps uphill by the sign, here softened so that they have a slope."""

    def loss(x: torch.Tensor) -> torch.Tensor:
        h = F.relu(linear(p, "classify.fc1", x))
        return F.cross_entropy(linear(p, "classify.fc2", h), data["label"] % 3)

    x = data["x"]
    for _ in range(3):
        x = x.requires_grad_()
        by = slope(loss(x), x)
        x = x + 0.1 * by.sign() + 0.05 * torch.tanh(by)
    return loss(x)


def rolled(p: Tensors, data: Tensors) -> torch.Tensor:
    x = data["x"].requires_grad_()
    h = torch.zeros(len(x), 4, dtype=x.dtype)
    for at in range(5):
        h = torch.tanh(linear(p, "ih", x[:, at]) + linear(p, "hh", h))
    return (slope((h**2).sum(), x) ** 2).sum()


def sampled(p: Tensors, data: Tensors) -> torch.Tensor:
    """Langevin steps down an energy: the gradient stands in an iteration of a scan."""
    x = data["x"]
    for at in range(4):
        x = x.requires_grad_()
        energy = F.softplus(linear(p, "energy.b", F.silu(linear(p, "energy.a", x)))).sum()
        x = x - 0.2 * slope(energy, x) + 0.1 * data["noise"][:, at]
    return (x**2).mean()


def by_weights(p: Tensors, data: Tensors) -> torch.Tensor:
    """The gradient by weights: one the block declares, and one of a layer, by its path."""
    y = (torch.tanh(linear(p, "net.fc", data["x"])) * p["net.gain"] - 0.3).pow(2).mean()
    return (slope(y, p["net.gain"]) ** 2).sum() + (slope(y, p["net.fc.weight"]) ** 2).sum() + y


def chosen(p: Tensors, data: Tensors) -> torch.Tensor:
    """Ops that choose and order: a product, a sort, a running sum, a gather, a largest."""
    x = data["x"].requires_grad_()
    y = linear(p, "fc", x)
    parts = torch.sort(y, 1).values * torch.cumsum(y, 1) + y.cumprod(1)
    picked = parts[:, [2, 0, 0]] ** 2
    by = slope(picked.sum() + y.max(1).values.pow(3).sum() + y.std(1, correction=0).sum(), x)
    return (by**2).mean()


def slopes(scalar: torch.Tensor, p: Tensors) -> Tensors:
    """The gradient by each of some weights, to be differentiated again."""
    found = torch.autograd.grad(scalar, list(p.values()), create_graph=True)
    return dict(zip(p, found, strict=True))


def stepped(p: Tensors, by: Tensors, rate: float) -> Tensors:
    return {name: each - rate * by[name] for name, each in p.items()}


def normed(p: Tensors, x: torch.Tensor) -> torch.Tensor:
    h = F.layer_norm(linear(p, "net.fc1", x), (8,), p["net.norm.weight"], p["net.norm.bias"])
    return linear(p, "net.fc2", torch.tanh(h))


def sharpness(p: Tensors, data: Tensors) -> torch.Tensor:
    """Foret et al. 2021, equation 2, and how steep it is."""
    target = data["label"] % 3
    by = slopes(F.cross_entropy(normed(p, data["x"]), target), p)
    size = torch.stack([(each**2).sum() for each in by.values()]).sum().sqrt()
    worse = {name: p[name] + 0.5 * by[name].detach() / size.detach() for name in p}
    return F.cross_entropy(normed(worse, data["x"]), target) + 0.1 * size


def regressed(p: Tensors, x: torch.Tensor) -> torch.Tensor:
    return linear(p, "net.b", torch.tanh(linear(p, "net.a", x)))


def adapted(p: Tensors, data: Tensors) -> torch.Tensor:
    """Finn et al. 2017, algorithm 1: three steps for each task, differentiated through."""
    total = torch.zeros((), dtype=torch.float64)
    for task in range(len(data["x"])):
        w = p
        for _ in range(3):
            w = stepped(
                w, slopes(F.mse_loss(regressed(w, data["x"][task]), data["y"][task]), w), 0.3
            )
        total = total + F.mse_loss(regressed(w, data["q"][task]), data["wanted"][task])
    return total / len(data["x"])


def borrowed(p: Tensors, data: Tensors) -> torch.Tensor:
    """One layer with the weights of another, and a gradient that reaches some of the weights."""

    def tower(name: str, other: str) -> torch.Tensor:
        w = {f"{name}.{key}": 0.9 * p[f"{other}.{key}"].abs() for key in ("weight", "bias")}
        return torch.tanh(linear(w, name, data["x"]))

    y = tower("one", "one") - tower("two", "one") * linear(p, "two", data["x"])
    found = slope(y.pow(2).sum(), p["two.bias"]).pow(2).sum()
    own = {name: p[name] for name in ("one.weight", "one.bias")}
    part = slopes(linear(p, "one", data["x"]).pow(2).sum(), own).values()
    both = [p[f"one.{key}"] * p[f"two.{key}"] for key in ("weight", "bias")]
    return found + sum(each.pow(2).sum() for each in part) + sum(each.sum() for each in both)


def half_read(p: Tensors, data: Tensors) -> torch.Tensor:
    """The gradient is 0 by what the scalar does not read."""
    own = {name: p[name] for name in ("net.one.weight", "net.one.bias")}
    by = slopes(linear(p, "net.one", data["x"]).pow(3).sum(), own)
    moved = stepped(own, by, 0.1)
    return linear(moved, "net.one", data["x"]).sum() + linear(p, "net.two", data["x"]).pow(2).sum()


SLOPES = (
    Slope(
        "burgers",
        """\
        block Net(hidden, depth)(p: [n, 2]) -> [n]:
          for i in 0..depth:
            p = p |> layers[i]: linear(hidden) |> tanh
          return (p |> last: linear(1))[:, 0]

        train fit(p: [batch, 2]):
          u = p |> net: Net(16, 2)
          du = grad(sum(u), p)
          uxx = grad(sum(du[:, 0]), p)[:, 0]
          minimize mean((du[:, 1] + u * du[:, 0] - 0.003 * uxx) ** 2)
        """,
        burgers,
    ),
    Slope(
        "attended",
        """\
        train fit(x: [batch, 5, 8]):
          h = x |> norm: layer_norm |> f: linear(8) |> gelu
          heads = insert_axis(h, 1, 1)
          mixed = h + attention(heads, heads, heads)[:, 0]
          energy = mean(mixed |> g: linear(4) |> softplus)
          minimize sum(grad(energy, x) ** 2) + energy
        """,
        attended,
    ),
    Slope(
        "penalised",
        """\
        block Critic()(x: [n, 1, 8, 8]) -> [n]:
          h = leaky_relu(x |> a: conv2d(4, 3, 2, pad=1), 0.2) |> max_pool(2)
          return h |> b: conv2d(2, 2) |> mean(1, 2, 3)

        train fit(real: [batch, 1, 8, 8], fake: [batch, 1, 8, 8], share: [batch]):
          layer critic: Critic()
          part = expand(share, [batch] -> [batch, 1, 8, 8])
          between = part * real + (1 - part) * fake
          slope = grad(sum(between |> critic), between)
          penalty = mean((sqrt(sum(slope ** 2, 1, 2, 3) + 1e-12) - 1) ** 2)
          minimize mean(fake |> critic) - mean(real |> critic) + 10 * penalty
        """,
        penalised,
    ),
    Slope(
        "attacked",
        """\
        block Net()(x: [n, 6]) -> [n, 3] = x |> fc1: linear(16) |> relu |> fc2: linear(3)

        train fit(x: [batch, 6], label: i32[batch]):
          layer classify: Net()
          target = label % 3
          for _i in 0..3:
            up = grad(cross_entropy(x |> classify, target), x)
            x = x + 0.1 * sign(up) + 0.05 * tanh(up)
          minimize cross_entropy(x |> classify, target)
        """,
        attacked,
    ),
    Slope(
        "rolled",
        """\
        train fit(x: [batch, 5, 3]):
          h = zeros([batch, 4])
          scan t in 0..5:
            h = tanh((x[:, t] |> ih: linear(4)) + (h |> hh: linear(4)))
          minimize sum(grad(sum(h ** 2), x) ** 2)
        """,
        rolled,
    ),
    Slope(
        "sampled",
        """\
        block Energy()(x: [n, 6]) -> []:
          return sum(x |> a: linear(8) |> silu |> b: linear(1) |> softplus)

        train fit(x: [batch, 6], noise: [batch, 4, 6]):
          layer energy: Energy()
          scan t in 0..4:
            x = x - 0.2 * grad(x |> energy, x) + 0.1 * noise[:, t]
          minimize mean(x ** 2)
        """,
        sampled,
    ),
    Slope(
        "by weights",
        """\
        block Gained()(x: [n, 6]) -> [], []:
          param gain: [4] = ones
          y = mean(((x |> fc: linear(4) |> tanh) * gain - 0.3) ** 2)
          return y, sum(grad(y, gain) ** 2)

        train fit(x: [batch, 6]):
          y, by_gain = x |> net: Gained()
          minimize by_gain + sum(grad(y, net.fc.weight) ** 2) + y
        """,
        by_weights,
    ),
    Slope(
        "sharpness",
        """\
        block Net()(x: [n, 6]) -> [n, 3]:
          return x |> fc1: linear(8) |> norm: layer_norm |> tanh |> fc2: linear(3)

        train fit(x: [batch, 6], label: i32[batch]):
          layer net: Net()
          target = label % 3
          by = grad(cross_entropy(x |> net, target), weights(net))
          size = sqrt(sum(by ** 2))
          worse = weights(net) + 0.5 * stop_gradient(by) / stop_gradient(size)
          minimize cross_entropy(x |> net(weights=worse), target) + 0.1 * size
        """,
        sharpness,
    ),
    *(
        Slope(
            name,
            f"""\
            block Net()(x: [n, 2]) -> [n, 1] = x |> a: linear(5) |> tanh |> b: linear(1)

            train fit(x: [batch, 4, 2], y: [batch, 4, 1], q: [batch, 5, 2], wanted: [batch, 5, 1]):
              layer net: Net()
              scan task in 0..batch:
                _unchanged = x[task] |> net
                w = weights(net)
                {loop} _i in 0..3:
                  w = w - 0.3 * grad(mse(x[task] |> net(weights=w), y[task]), w)
                losses[task] = mse(q[task] |> net(weights=w), wanted[task])
              minimize mean(losses)
            """,
            adapted,
        )
        for name, loop in (("adapted", "for"), ("adapted in iterations", "scan"))
    ),
    Slope(
        "borrowed",
        """\
        train fit(x: [batch, 6]):
          a = x |> one: linear(4)
          b = x |> two: linear(4)
          w = 0.9 * abs(weights(one))
          y = tanh(x |> one(weights=w)) - tanh(x |> two(weights=w)) * b
          slope = sum(grad(sum(y ** 2), two.bias) ** 2)
          part = sum(grad(sum(a ** 2), weights(one)) ** 2)
          minimize slope + part + sum(weights(one) * weights(two))
        """,
        borrowed,
    ),
    Slope(
        "half read",
        """\
        block Heads()(x: [n, 6]) -> [n, 4], [n, 2]:
          return x |> one: linear(4), x |> two: linear(2)

        train fit(x: [batch, 6]):
          layer net: Heads()
          a, _b = x |> net
          w = weights(net) - 0.1 * grad(sum(a ** 3), weights(net))
          c, d = x |> net(weights=w)
          minimize sum(c) + sum(d ** 2)
        """,
        half_read,
    ),
    Slope(
        "chosen",
        """\
        train fit(x: [batch, 6]):
          y = x |> fc: linear(5)
          ordered, _at = sort(y, 1)
          parts = ordered * cumsum(y, 1) + cumprod(y, 1)
          picked = gather(parts, constant([2, 0, 0]), axis=1) ** 2
          scalar = sum(picked) + sum(max(y, 1) ** 3) + sum(sqrt(variance(y, 1)))
          minimize mean(grad(scalar, x) ** 2)
        """,
        chosen,
    ),
)


@pytest.fixture(params=SLOPES, ids=str)
def written(request: pytest.FixtureRequest) -> Slope:
    return request.param


def test_losses_of_gradients_and_their_gradients(written: Slope) -> None:
    """In double precision, as it is elaborated, and as the optimizer leaves it."""
    weights, data = drawn(written)
    expected = theirs(written, weights, data)
    graph = models.gradient_graph(models.training(written.case).graph)
    for each in (graph, planned(written)):
        found = Interpreter(each, Precision.DOUBLE).run({**weights, **data}).outputs
        models.assert_near(found, expected, 1e-10)


BY_DAY = {"adapted in iterations": ("xla",), "attended": ("wgpu",), "rolled": ("wgpu",)}
"""Losses that stand for the others on a device: one through a scan of gradients, one through an
attention, and one through states; all are compared in double precision."""
ON_DEVICES = [
    pytest.param(each, device, id=f"{each}-{device}")
    for each in SLOPES
    for device in effort(BY_DAY.get(each.name, ()), ("wgpu", "xla"))
]


@pytest.mark.adapter
@pytest.mark.parametrize(("written", "device"), ON_DEVICES)
def test_the_same_on_a_device(written: Slope, device: str) -> None:
    weights, data = drawn(written)
    graph = planned(written)
    with choose_device(device).open(graph) as session:
        session.load(weights)
        found = dict(session.step(data))
    models.assert_near(found, theirs(written, weights, data), 2e-4)


@cache
def planned(written: Slope) -> Graph:
    """The loss and its gradients as a training step has them: optimized before and after."""
    forward = optimize(models.training(written.case).graph, mode="forward").graph
    return optimize(models.gradient_graph(forward), mode="train").graph


def drawn(written: Slope) -> tuple[dict[str, Array], dict[str, Array]]:
    """Weights and data, the same for both sides."""
    elaboration = models.training(written.case)
    generator = np.random.default_rng(7)
    leaves = [value.op for value in elaboration.graph.values if isinstance(value.op, Leaf)]
    weights = {
        op.name: generator.normal(0, 0.5, concrete_shape(op.shape)).astype(np.float32)
        for op in leaves
        if op.is_persistent
    }
    return weights, models.drawn(elaboration.inputs, 1)


def theirs(
    written: Slope, weights: Mapping[str, Array], data: Mapping[str, Array]
) -> dict[str, Array]:
    """PyTorch's loss, and its gradients by the weights."""
    p = {
        name: each.requires_grad_() for name, each in models.tensors(weights, torch.float64).items()
    }
    loss = written.loss(p, models.tensors(data, torch.float64))
    found = torch.autograd.grad(loss, list(p.values()), allow_unused=True)
    gradients = {
        name: np.zeros(each.shape) if by is None else by.numpy()
        for (name, each), by in zip(p.items(), found, strict=True)
    }
    return {"loss": loss.detach().numpy(), **gradients}
