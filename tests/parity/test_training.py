"""Five steps of every optimizer against PyTorch's, in double precision."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import meganeura
from meganeura_dsl.ir.graph import Array, Builder, Graph
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.ops import Add, Input, MatMul, Mul, Parameter, Sum, Tanh
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.optimizers.optimizers import Adam, AdamW, Optimizer, Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step
from meganeura_runtime.train.events import EpochEnded, Event

pytestmark = pytest.mark.parity

STEPS = 5
SHAPES = {"hidden": (3, 5), "head": (5, 2), "scale": (), "unread": (2,)}
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


def ours(settings: TrainingSettings) -> tuple[dict[str, Array], list[float]]:
    """The parameters after all steps, and the loss before each."""
    interpreter = Interpreter(training_step(network(), settings), Precision.DOUBLE)
    kept = {**start()}
    for name, value in interpreter.leaves.items():
        if name.startswith("optimizer."):
            dtype = np.int32 if value.type.dtype is DType.I32 else np.float64
            kept[name] = np.zeros(SHAPES.get(name.rsplit(".", 1)[0][10:], ()), dtype)
    losses: list[float] = []
    for x in batches():
        results = interpreter.run({"x": x, **kept})
        kept |= results.updates
        losses.append(float(results.outputs["loss"]))
    return kept, losses


def theirs(make: TorchOptimizer, clip: float | None = None) -> tuple[dict[str, Array], list[float]]:
    parameters = {name: torch.tensor(value, requires_grad=True) for name, value in start().items()}
    optimizer = make(list(parameters.values()))
    losses: list[float] = []
    for x in batches():
        optimizer.zero_grad()
        out = torch.tanh(torch.tensor(x) @ parameters["hidden"]) @ parameters["head"]
        loss = parameters["scale"] * (out * out).sum() + out.sum()
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(list(parameters.values()), clip)
        optimizer.step()
        losses.append(loss.item())
    return {name: value.detach().numpy() for name, value in parameters.items()}, losses


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
}


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


@pytest.mark.parametrize("limit", [0.5, 1e6], ids=["clipped", "not-reached"])
def test_clipping_by_the_norm_of_all_gradients(limit: float) -> None:
    settings = TrainingSettings(Sgd(0.02, momentum=0.9), clip_norm=limit)
    _assert_close(ours(settings), theirs(lambda p: torch.optim.SGD(p, 0.02, 0.9), limit))


def test_rates_of_parameter_groups() -> None:
    settings = TrainingSettings(AdamW(0.1), multipliers={"*": 0.5, "head": 3.0})

    def grouped(parameters: Sequence[torch.Tensor]) -> torch.optim.Optimizer:
        hidden, head, scale, _ = parameters
        groups = [{"params": [hidden, scale], "lr": 0.05}, {"params": [head], "lr": 0.1 * 3}]
        return torch.optim.AdamW(groups)

    _assert_close(ours(settings), theirs(grouped))


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
