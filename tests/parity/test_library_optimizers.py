"""The rules of `optimizers.mgn` against PyTorch's, and Sophia against its formula."""

from collections.abc import Callable, Iterable

import numpy as np
import pytest
import torch

from meganeura_dsl import pipeline
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import Precision
from meganeura_dsl.settings.declared_optimizers import declared_optimizers
from meganeura_dsl.transforms.training_step import TrainingSettings
from tests.declared import SHAPES, slopes, started, steps_of

pytestmark = pytest.mark.parity

STEPS = 10
Weights = Iterable[torch.nn.Parameter]
THEIRS: dict[str, Callable[[Weights], torch.optim.Optimizer]] = {
    "adamax": lambda weights: torch.optim.Adamax(weights, lr=0.01),
    "nadam": lambda weights: torch.optim.NAdam(weights, lr=0.01),
    "radam": lambda weights: torch.optim.RAdam(weights, lr=0.01),
    "adadelta": lambda weights: torch.optim.Adadelta(weights, lr=0.01),
}


def found(word: str, **arguments: float) -> dict[str, Array]:
    rules = declared_optimizers(pipeline.load("optimizers").module)
    settings = TrainingSettings(rules[word](lr=0.01, **arguments))
    return steps_of(settings, STEPS, Precision.DOUBLE)


@pytest.mark.parametrize("word", THEIRS)
def test_a_rule_is_pytorch_s(word: str) -> None:
    weights = {name: torch.nn.Parameter(torch.tensor(p)) for name, p in started().items()}
    optimizer = THEIRS[word](weights.values())
    for drawn in slopes(STEPS):
        for name, p in weights.items():
            p.grad = torch.tensor(drawn[name])
        optimizer.step()
    ours = found(word)
    for name, p in weights.items():
        np.testing.assert_allclose(ours[name], p.detach().numpy(), rtol=1e-7, atol=1e-9)


def test_sophia_is_its_formula() -> None:
    """Algorithm 3 of the paper, whose estimate of the curvature is the square of the gradient."""
    p = started()
    m, h = ({name: np.zeros(shape) for name, shape in SHAPES.items()} for _ in range(2))
    for drawn in slopes(STEPS):
        for name, g in drawn.items():
            m[name] = 0.9 * m[name] + 0.1 * g
            h[name] = 0.99 * h[name] + 0.01 * g**2
            ratio = np.clip(m[name] / np.maximum(0.5 * h[name], 1e-12), -1, 1)
            p[name] = p[name] * (1 - 0.01 * 0.1) - 0.01 * ratio
    ours = found("sophia", beta1=0.9, beta2=0.99, rho=0.5, weight_decay=0.1)
    for name, right in p.items():
        np.testing.assert_allclose(ours[name], right, rtol=1e-7, atol=1e-9)
