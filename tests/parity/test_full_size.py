"""The published models, all their weights and layers, on small images and clips of odd sizes.

By day two run and are differentiated once, and at night each, which is trained then as well.
"""

import numpy as np
import pytest

from meganeura_dsl.ir.interpreter import Precision
from tests.effort import effort
from tests.parity import models
from tests.parity.models import Case
from tests.parity.references.images import RepVgg, ResNet
from tests.parity.references.sequences import Whisper

pytestmark = pytest.mark.parity

IMAGE = """\
    from {0} import {1}
    model net = {1}()
    train fit(x: [n, 3, h, w], target: [n, 1000]):
      minimize mse(x |> net, target)
    """
SPEECH = """\
    from whisper import whisper_tiny
    model net = whisper_tiny()
    train fit(mel: [n, 80, t], target: [n, (t + 1) // 2, 384]):
      minimize mse(mel |> net, target)
    """

FULL = [
    Case(
        "resnet18",
        IMAGE.format("resnet", "resnet18"),
        lambda: ResNet([2, 2, 2, 2]),
        {"n": 2, "h": 65, "w": 47},
    ),
    Case(
        "repvgg_a0",
        IMAGE.format("repvgg", "repvgg_a0"),
        lambda: RepVgg([2, 4, 14, 1], 0.75, 2.5),
        {"n": 2, "h": 65, "w": 47},
    ),
    Case(
        "whisper_tiny",
        SPEECH,
        lambda: Whisper(d=384, heads=6, layers=4, ffn=1536),
        {"n": 2, "t": 101},
    ),
]


@pytest.mark.parametrize("case", effort([FULL[0], FULL[-1]], FULL), ids=str)
def test_output_and_gradients(case: Case) -> None:
    module = models.reference(case)
    values = models.weights(case, module)
    data = models.drawn(models.training(case).inputs, 0)
    fed = {name: data[name] for name in models.inference(case).inputs}
    expected = models.their_forward(module, fed)
    single = models.forward(case, values, fed, Precision.SINGLE)
    models.assert_near({"output": single}, {"output": expected}, 1e-4)
    theirs = models.their_step(module, data)
    ours = models.step(case, values, data, Precision.DOUBLE)
    assert ours.loss == pytest.approx(theirs.loss, rel=1e-9)
    models.assert_near(ours.gradients, theirs.gradients, 1e-9)
    for name, state in theirs.states.items():
        np.testing.assert_allclose(ours.states[name], state, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("optimizer", models.OPTIMIZERS)
@pytest.mark.parametrize("case", FULL, ids=str)
def test_weights_after_five_steps(case: Case, optimizer: str) -> None:
    models.assert_same_weights_after_steps(case, optimizer)
