"""Five steps of every optimizer against PyTorch's, or the paper's, in double precision."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import meganeura
from meganeura_dsl.ir.graph import Array, Builder, Graph
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.ops import Add, Input, MatMul, Mul, Parameter, Sum, Tanh
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.optimizers.optimizers import (
    Adafactor,
    Adagrad,
    Adam,
    AdamW,
    Lamb,
    Lion,
    Muon,
    Optimizer,
    RmsProp,
    Sgd,
)
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step
from meganeura_runtime.train.events import EpochEnded, Event

pytestmark = pytest.mark.parity

STEPS = 5
SHAPES = {"hidden": (3, 5), "head": (5, 2), "scale": (), "unread": (2,)}
Parameters = Sequence[torch.Tensor] | Sequence[dict[str, Any]]
"""Of one group, or of several."""
TorchOptimizer = Callable[[Sequence[torch.Tensor]], torch.optim.Optimizer]


def network() -> Graph:
    """The sum of squares of scale * tanh(x hidden) head; `unread` is no part of it."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (4, 3)))
    hidden, head, scale, _ = (
        build.add(Parameter(name, DType.F32, shape, "param")) for name, shape in SHAPES.items()
    )
    out = build.add(MatMul(), build.add(Tanh(), build.add(MatMul(), x, hidden)), head)
    squares = build.add(Sum((0, 1)), build.add(Mul(), out, out))
    tilt = build.add(Sum((0, 1)), out)
    loss = build.add(Add(), build.add(Mul(), scale, squares), tilt)
    return build.graph({"loss": loss})


def start() -> dict[str, Array]:
    generator = np.random.default_rng(0)
    return {name: np.asarray(generator.normal(size=shape)) for name, shape in SHAPES.items()}


def batches() -> list[Array]:
    generator = np.random.default_rng(1)
    return [generator.normal(size=(4, 3)) for _ in range(STEPS)]


def ours(settings: TrainingSettings, output: str = "loss") -> tuple[dict[str, Array], list[float]]:
    """The parameters after all steps, and the loss or another output before each."""
    interpreter = Interpreter(training_step(network(), settings), Precision.DOUBLE)
    kept = {**start()}
    for name, value in interpreter.leaves.items():
        if name.startswith("optimizer."):
            dtype = np.int32 if value.type.dtype is DType.I32 else np.float64
            kept[name] = np.zeros(concrete_shape(value.type.shape), dtype)
    losses: list[float] = []
    for x in batches():
        results = interpreter.run({"x": x, **kept})
        kept |= results.updates
        losses.append(float(results.outputs[output]))
    return kept, losses


def theirs(
    make: TorchOptimizer, clip: Callable[[list[torch.Tensor]], object] = lambda _: None
) -> tuple[dict[str, Array], list[float]]:
    parameters = {name: torch.tensor(value, requires_grad=True) for name, value in start().items()}
    optimizer = make(list(parameters.values()))
    losses: list[float] = []
    for x in batches():
        optimizer.zero_grad()
        out = torch.tanh(torch.tensor(x) @ parameters["hidden"]) @ parameters["head"]
        loss = parameters["scale"] * (out * out).sum() + out.sum()
        loss.backward()
        clip(list(parameters.values()))
        optimizer.step()
        losses.append(loss.item())
    return {name: value.detach().numpy() for name, value in parameters.items()}, losses


class PaperLion(torch.optim.Optimizer):
    """Algorithm 2 of X. Chen et al., "Symbolic discovery of optimization algorithms" (2023)."""

    def __init__(self, p: Parameters, lr: float, betas: tuple[float, float], decay: float) -> None:
        super().__init__(p, {"lr": lr, "betas": betas, "decay": decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """As the algorithm, line by line."""
        del closure
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                c = beta1 * m + (1 - beta1) * p.grad
                p.sub_(group["lr"] * (torch.sign(c) + group["decay"] * p))
                self.state[p]["m"] = beta2 * m + (1 - beta2) * p.grad


class PaperLamb(torch.optim.Optimizer):
    """Algorithm 2 of Y. You et al., "Large batch optimization for deep learning" (2020)."""

    def __init__(
        self,
        p: Parameters,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        decay: float,
    ) -> None:
        super().__init__(p, {"lr": lr, "betas": betas, "eps": eps, "decay": decay})
        self.t = 0

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """As the algorithm, line by line, where phi(x) is x and a norm of 0 leaves the rate."""
        del closure
        self.t += 1
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                m, v = self.state[p].get("mv", (torch.zeros_like(p), torch.zeros_like(p)))
                m = beta1 * m + (1 - beta1) * p.grad
                v = beta2 * v + (1 - beta2) * p.grad**2
                self.state[p]["mv"] = m, v
                r = (m / (1 - beta1**self.t)) / ((v / (1 - beta2**self.t)).sqrt() + group["eps"])
                r = r + group["decay"] * p
                norms = p.norm(), r.norm()
                trust = norms[0] / norms[1] if all(norms) else 1.0
                p.sub_(group["lr"] * trust * r)


OPTIMIZERS: dict[str, tuple[Optimizer, TorchOptimizer]] = {
    "sgd": (Sgd(0.02), lambda p: torch.optim.SGD(p, 0.02)),
    "sgd-decay": (
        Sgd(0.02, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.02, weight_decay=0.1),
    ),
    "sgd-momentum": (
        Sgd(0.02, momentum=0.9, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.02, momentum=0.9, weight_decay=0.1),
    ),
    "sgd-nesterov": (
        Sgd(0.02, momentum=0.9, nesterov=True, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.02, momentum=0.9, nesterov=True, weight_decay=0.1),
    ),
    "adam": (Adam(0.1), lambda p: torch.optim.Adam(p, 0.1)),
    "adam-decay": (
        Adam(0.1, 0.8, 0.95, 1e-3, 0.1),
        lambda p: torch.optim.Adam(p, 0.1, (0.8, 0.95), 1e-3, 0.1),
    ),
    "adamw": (AdamW(0.1), lambda p: torch.optim.AdamW(p, 0.1)),
    "adamw-decay": (
        AdamW(0.1, 0.0, 0.95, 1e-3, 0.5),
        lambda p: torch.optim.AdamW(p, 0.1, (0.0, 0.95), 1e-3, 0.5),
    ),
    "adam-amsgrad": (
        Adam(0.1, 0.5, 0.5, amsgrad=True),
        lambda p: torch.optim.Adam(p, 0.1, (0.5, 0.5), amsgrad=True),
    ),
    "adamw-amsgrad": (
        AdamW(0.1, 0.5, 0.5, amsgrad=True),
        lambda p: torch.optim.AdamW(p, 0.1, (0.5, 0.5), amsgrad=True),
    ),
    "rmsprop": (RmsProp(), torch.optim.RMSprop),
    "rmsprop-centered": (
        RmsProp(0.1, 0.8, 1e-3, 0.9, centered=True, weight_decay=0.1),
        lambda p: torch.optim.RMSprop(p, 0.1, 0.8, 1e-3, 0.1, 0.9, centered=True),
    ),
    "adagrad": (Adagrad(), torch.optim.Adagrad),
    "adagrad-decay": (
        Adagrad(0.1, 0.5, 0.25, 1e-3, 0.1),
        lambda p: torch.optim.Adagrad(p, 0.1, 0.5, 0.1, 0.25, 1e-3),
    ),
    "adafactor": (
        Adafactor(eps1=torch.finfo(torch.float64).eps),
        torch.optim.Adafactor,
    ),
    "adafactor-decay": (
        Adafactor(0.4, -0.5, 0.05, 0.6, 2.0, 0.1),
        lambda p: torch.optim.Adafactor(p, 0.4, -0.5, (0.05, 0.6), 2.0, 0.1),
    ),
    "lion": (Lion(0.1), partial(PaperLion, lr=0.1, betas=(0.9, 0.99), decay=0.0)),
    "lion-decay": (
        Lion(0.1, 0.5, 0.8, 0.1),
        partial(PaperLion, lr=0.1, betas=(0.5, 0.8), decay=0.1),
    ),
    "lamb": (Lamb(0.1), partial(PaperLamb, lr=0.1, betas=(0.9, 0.999), eps=1e-6, decay=0.0)),
    "lamb-decay": (
        Lamb(0.1, 0.5, 0.8, 1e-3, 0.1),
        partial(PaperLamb, lr=0.1, betas=(0.5, 0.8), eps=1e-3, decay=0.1),
    ),
}


class Several(torch.optim.Optimizer):
    """Optimizers that step together, as a loop of PyTorch calls them one after the other."""

    def __init__(self, *all_of_them: torch.optim.Optimizer) -> None:
        self.all = all_of_them

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: FBT001, FBT002 - torch's own
        """Forget the gradients of all."""
        for each in self.all:
            each.zero_grad(set_to_none)

    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A step of each."""
        del closure
        for each in self.all:
            each.step()


def _assert_close(
    mine: tuple[dict[str, Array], list[float]], other: tuple[dict[str, Array], list[float]]
) -> None:
    np.testing.assert_allclose(mine[1], other[1], rtol=1e-9)
    for name in SHAPES:
        np.testing.assert_allclose(mine[0][name], other[0][name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str) -> None:
    optimizer, make = OPTIMIZERS[name]
    _assert_close(ours(TrainingSettings(optimizer)), theirs(make))


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("adjust", ["original", "match_rms_adamw"])
def test_muon_in_double_precision(
    monkeypatch: pytest.MonkeyPatch,
    *,
    adjust: Literal["original", "match_rms_adamw"],
    nesterov: bool,
) -> None:
    """PyTorch rounds the iteration to bfloat16, which is left out here; the rest moves by SGD."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    muon = Muon(0.1, 0.8, nesterov, ns_steps=4, adjust_lr_fn=adjust)
    settings = TrainingSettings(Sgd(0.02), groups=(("h*", muon),))

    def make(parameters: Sequence[torch.Tensor]) -> torch.optim.Optimizer:
        hidden, head, scale, _ = parameters
        theirs = torch.optim.Muon(
            [hidden, head], 0.1, 0.1, 0.8, nesterov, ns_steps=4, adjust_lr_fn=adjust
        )
        return Several(theirs, torch.optim.SGD([scale], 0.02))

    _assert_close(ours(settings), theirs(make))


@pytest.mark.parametrize("limit", [0.5, 1e6], ids=["clipped", "not-reached"])
def test_clipping_by_the_norm_of_all_gradients(limit: float) -> None:
    settings = TrainingSettings(Sgd(0.02, momentum=0.9), clip_norm=limit)
    clip = partial(torch.nn.utils.clip_grad_norm_, max_norm=limit)
    _assert_close(ours(settings), theirs(lambda p: torch.optim.SGD(p, 0.02, 0.9), clip))


@pytest.mark.parametrize("norm", [None, 0.5])
def test_clipping_by_value_comes_before_the_norm(norm: float | None) -> None:
    settings = TrainingSettings(Sgd(0.02, momentum=0.9), clip_norm=norm, clip_value=0.3)

    def clip(parameters: list[torch.Tensor]) -> None:
        torch.nn.utils.clip_grad_value_(parameters, 0.3)
        if norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, norm)

    _assert_close(ours(settings), theirs(lambda p: torch.optim.SGD(p, 0.02, 0.9), clip))


def test_the_gradient_norm_is_that_before_clipping() -> None:
    settings = TrainingSettings(Sgd(0.02), clip_norm=0.5, clip_value=0.3, gradient_norm=True)
    found: list[float] = []

    def measure(parameters: list[torch.Tensor]) -> None:
        gradients = [p.grad for p in parameters if p.grad is not None]
        found.append(torch.nn.utils.get_total_norm(gradients).item())
        torch.nn.utils.clip_grad_value_(parameters, 0.3)
        torch.nn.utils.clip_grad_norm_(parameters, 0.5)

    mine = ours(settings, "gradient_norm")
    theirs(lambda p: torch.optim.SGD(p, 0.02), measure)
    np.testing.assert_allclose(mine[1], found, rtol=1e-9)


def test_optimizers_of_parameter_groups() -> None:
    groups = (("*", AdamW(0.05)), ("head", AdamW(0.3, 0.5)))
    settings = TrainingSettings(AdamW(0.1), groups=groups)

    def grouped(parameters: Sequence[torch.Tensor]) -> torch.optim.Optimizer:
        hidden, head, scale, _ = parameters
        rest = {"params": [hidden, scale], "lr": 0.05}
        return torch.optim.AdamW([rest, {"params": [head], "lr": 0.3, "betas": (0.5, 0.999)}])

    _assert_close(ours(settings), theirs(grouped))


DECAYING: dict[str, tuple[Optimizer, Callable[[list[dict[str, Any]]], torch.optim.Optimizer]]] = {
    "sgd": (
        Sgd(0.02, 0.9, weight_decay=0.4, decay="matrices"),
        lambda groups: torch.optim.SGD(groups, 0.02, 0.9),
    ),
    "adam": (
        Adam(0.1, weight_decay=0.4, decay="matrices"),
        lambda groups: torch.optim.Adam(groups, 0.1),
    ),
    "adamw": (
        AdamW(0.1, weight_decay=0.4, decay="matrices"),
        lambda groups: torch.optim.AdamW(groups, 0.1),
    ),
    "rmsprop": (
        RmsProp(0.1, weight_decay=0.4, decay="matrices"),
        lambda groups: torch.optim.RMSprop(groups, 0.1),
    ),
    "adagrad": (
        Adagrad(0.1, weight_decay=0.4, decay="matrices"),
        lambda groups: torch.optim.Adagrad(groups, 0.1),
    ),
    "adafactor": (
        Adafactor(0.1, eps1=torch.finfo(torch.float64).eps, weight_decay=0.4, decay="matrices"),
        lambda groups: torch.optim.Adafactor(groups, 0.1),
    ),
    "lion": (
        Lion(0.1, weight_decay=0.4, decay="matrices"),
        lambda groups: PaperLion(groups, 0.1, (0.9, 0.99), 0.0),
    ),
    "lamb": (
        Lamb(0.1, weight_decay=0.4, decay="matrices"),
        lambda groups: PaperLamb(groups, 0.1, (0.9, 0.999), 1e-6, 0.0),
    ),
}


@pytest.mark.parametrize("name", DECAYING)
def test_decay_of_matrices_is_a_group_without_decay_for_the_rest(name: str) -> None:
    optimizer, make = DECAYING[name]
    decay = "decay" if name in ("lion", "lamb") else "weight_decay"

    def grouped(parameters: Sequence[torch.Tensor]) -> torch.optim.Optimizer:
        wide = [p for p in parameters if p.ndim >= 2]
        rest = [p for p in parameters if p.ndim < 2]
        return make([{"params": wide, decay: 0.4}, {"params": rest, decay: 0.0}])

    _assert_close(ours(TrainingSettings(optimizer)), theirs(grouped))


# --- a last batch that is smaller ----------------------------------------------------------------

MLP = """\
train fit(x: [batch, 6], y: i32[batch]):
  minimize cross_entropy(x |> fc1: linear(8) |> relu |> fc2: linear(3), y)
  run:
    data      = "points.safetensors"
    batch     = 4
    epochs    = 3
    shuffle   = false
    drop_last = false
    optimizer = adam(lr=0.05)
"""


def test_a_smaller_last_batch_is_trained_on_as_a_data_loader_deals_it(tmp_path: Path) -> None:
    """Eleven examples by fours: each gradient is the mean over its own four, four or three."""
    generator = np.random.default_rng(4)
    x = generator.normal(size=(11, 6)).astype(np.float32)
    y = generator.integers(0, 3, 11).astype(np.int32)
    save_file({"x": x, "y": y}, tmp_path / "points.safetensors")
    (tmp_path / "fit.mgn").write_text(MLP)
    events: list[EpochEnded] = []

    def watch(event: Event) -> None:
        if isinstance(event, EpochEnded):
            events.append(event)

    program = meganeura.load(str(tmp_path / "fit.mgn"))
    begun = program.train(device="cpu", out=tmp_path / "begun", settings={"epochs": 0})
    run = program.train(device="cpu", out=tmp_path / "run", watch=watch)

    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    names = {"fc1.weight": "0.weight", "fc1.bias": "0.bias", "fc2.weight": "2.weight"}
    names["fc2.bias"] = "2.bias"
    first = load_file(begun.weights)
    model.load_state_dict({names[name]: torch.tensor(each) for name, each in first.items()})
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    examples = torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y, dtype=torch.int64))
    loader = torch.utils.data.DataLoader(examples, batch_size=4, drop_last=False)
    means: list[float] = []
    for _ in range(3):
        total = 0.0
        for images, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)
        means.append(total / len(examples))

    state = model.state_dict()
    for name, values in load_file(run.weights).items():
        np.testing.assert_allclose(values, state[names[name]].numpy(), rtol=1e-4, atol=1e-5)
    assert [event.steps for event in events] == [3, 3, 3]
    assert run.epochs == pytest.approx(means, rel=1e-5)
