"""A mixture of experts against transformers' own, which has to compute in double precision too."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from transformers import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import (
    MixtralSparseMoeBlock,
    load_balancing_loss_func,
)

from meganeura_dsl.ir.interpreter import Precision
from tests.parity import models
from tests.parity.models import Case

pytestmark = pytest.mark.parity

TEXT = """\
from mixtral import SparseMoe

block Net()(x: [n, s, 6]) -> [n, s, 6]:
  y, _load, _chance = x |> moe: SparseMoe(experts={experts}, ffn=5, top={top}, tile=3)
  return y

block Balance(layers)(x: [n, s, 6]) -> []:
  load = zeros([{experts}])
  chance = zeros([{experts}])
  for i in 0..layers:
    _y, used, wanted = x |> moe[i]: SparseMoe(experts={experts}, ffn=5, top={top})
    load = load + used / layers
    chance = chance + wanted / layers
  return {experts} * sum(load * chance)

model net = {net}
train fit(x: [n, s, 6], target: [n, s, 6]):
  minimize mse({fitted}, target)
"""


class Layer(nn.Module):
    """transformers' layer, with weights that are numbers before anybody draws them."""

    def __init__(self, experts: int, top: int) -> None:
        super().__init__()
        config = MixtralConfig(
            hidden_size=6, intermediate_size=5, num_local_experts=experts, num_experts_per_tok=top
        )
        config._experts_implementation = "eager"
        self.moe = MixtralSparseMoeBlock(config)
        for each in self.parameters():
            nn.init.zeros_(each)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.moe(x)


def case(experts: int, top: int) -> Case:
    text = TEXT.format(experts=experts, top=top, net="Net()", fitted="x |> net")
    return Case("moe", text, lambda: Layer(experts, top), {"n": 2, "s": 9})


@pytest.fixture(autouse=True)
def double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """The router of transformers computes its probabilities in single precision."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


@pytest.mark.parametrize(("experts", "top"), [(4, 2), (9, 3), (3, 3)])
def test_a_layer(experts: int, top: int) -> None:
    made = case(experts, top)
    module = models.reference(made)
    values = models.weights(made, module)
    data = models.drawn(models.training(made).inputs, 1)
    expected = models.their_forward(module, {"x": data["x"]})
    found = models.forward(made, values, {"x": data["x"]}, Precision.DOUBLE)
    models.assert_near({"output": found}, {"output": expected}, 1e-12)
    theirs = models.their_step(module, data)
    ours = models.step(made, values, data, Precision.DOUBLE)
    models.assert_near(ours.gradients, theirs.gradients, 1e-11)
    trained = models.trained_weights(made, values, models.OPTIMIZERS["sgd"][0], Precision.SINGLE)
    after = models.their_trained_weights(
        made, models.loaded(made, values), models.OPTIMIZERS["sgd"][1]
    )
    models.assert_near(trained, after, 1e-5)


def test_the_loss_that_spreads_tokens_over_experts() -> None:
    experts, layers = 5, 3
    text = TEXT.format(
        experts=experts, top=2, net=f"Balance({layers})", fitted="0 * x + (x |> net)"
    )
    made = Case("balance", text, nn.Module, {"n": 2, "s": 9})
    generator = np.random.default_rng(0)
    values = {
        info.name: generator.normal(size=[int(str(size)) for size in info.type.shape])
        for info in models.inference(made).parameters
    }
    data = models.drawn(models.inference(made).inputs, 0)
    found = models.forward(made, values, data, Precision.DOUBLE)
    rows = torch.tensor(data["x"]).double().reshape(-1, 6)
    logits = tuple(rows @ torch.tensor(values[f"moe.{i}.gate.weight"]).T for i in range(layers))
    loss: Callable[..., torch.Tensor | int] = load_balancing_loss_func
    expected = loss(logits, experts, 2)
    assert float(found) == pytest.approx(float(expected), rel=1e-6)
