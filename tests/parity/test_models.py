"""The standard models against plain PyTorch modules with the same weights.

In double precision to 1e-9: the output in both modes, every gradient, the running statistics, and
all weights after five steps. In single precision, as they run, to the tolerances of the README.
Weights cross over in files, in both directions, strictly.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from meganeura_dsl.evaluate import Precision
from meganeura_dsl.training import Adam, Optimizer, Sgd
from tests.parity import models
from tests.parity.models import Case
from tests.parity.references.images import DigitsNet, RepVgg, ResNet, UNet, ViT
from tests.parity.references.sequences import Gpt2, Llama, Whisper

pytestmark = pytest.mark.parity

SMALL = [
    Case(
        "digits_cnn",
        """\
        from digits_cnn import DigitsNet
        model net = DigitsNet(width=4, classes=10)
        train fit(image: [n, 1, h, w], target: [n, 10]):
          minimize mse(image |> net, target)
        """,
        lambda: DigitsNet(4),
        {"n": 3, "h": 9, "w": 6},
    ),
    Case(
        "resnet",
        """\
        from resnet import ResNet
        model net = ResNet([2, 2, 1, 1], width=4, classes=5)
        train fit(x: [n, 3, h, w], target: [n, 5]):
          minimize mse(x |> net, target)
        """,
        lambda: ResNet([2, 2, 1, 1], 4, 5),
        {"n": 2, "h": 41, "w": 35},
    ),
    Case(
        "bottleneck",
        """\
        from resnet import ResNet
        model net = ResNet([1, 2, 1, 1], expansion=4, width=3, classes=5, conv_bias=true)
        train fit(x: [n, 3, h, w], target: [n, 5]):
          minimize mse(x |> net, target)
        """,
        lambda: ResNet([1, 2, 1, 1], 3, 5, bottleneck=True, conv_bias=True),
        {"n": 2, "h": 36, "w": 49},
    ),
    Case(
        "repvgg",
        """\
        from repvgg import RepVGG
        model net = RepVGG([1, 2, 2, 1], a=0.125, b=0.0625, groups=4, classes=5)
        train fit(x: [n, 3, h, w], target: [n, 5]):
          minimize mse(x |> net, target)
        """,
        lambda: RepVgg([1, 2, 2, 1], 0.125, 0.0625, 4, 5),
        {"n": 2, "h": 41, "w": 35},
    ),
    Case(
        "vit",
        """\
        from vit import ViT
        model net = ViT(d=12, layers=2, heads=3, image=12, patch=4, classes=5)
        train fit(x: [n, 3, 12, 12], target: [n, 5]):
          minimize mse(x |> net, target)
        """,
        lambda: ViT(12, 2, 3, 12, 4, 5),
        {"n": 2},
    ),
    Case(
        "unet",
        """\
        from unet import UNet
        model net = UNet(base=8, groups=4)
        train fit(x: [n, 4, h, w], level: [n], target: [n, 4, h, w]):
          minimize mse(x |> net(level), target)
        """,
        lambda: UNet(8, 4),
        {"n": 2, "h": 8, "w": 12},
    ),
    *(
        Case(
            f"whisper-{frames}",
            """\
            from whisper import WhisperEncoder
            model net = model.encoder: WhisperEncoder(
                d=12, heads=3, layers=2, ffn=20, mels=7, positions=9)
            train fit(mel: [n, 7, t], target: [n, (t + 1) // 2, 12]):
              minimize mse(mel |> net, target)
            """,
            lambda: Whisper(d=12, heads=3, layers=2, ffn=20, mels=7, positions=9),
            {"n": 2, "t": frames},
        )
        for frames in (18, 17, 5)
    ),
    Case(
        "lm",
        """\
        from lm import Decoder
        model net = Decoder(vocabulary=11, d=12, layers=2, heads=6, kv_heads=2, ffn=20, head_dim=4,
                            theta=100.0)
        train fit(ids: i32[n, s], target: [n, s, 11]):
          minimize mse(ids |> net, target)
        """,
        lambda: Llama(11, 12, 2, (6, 2, 4), 20, 100.0),
        {"n": 2, "s": 7},
    ),
    Case(
        "gpt2",
        """\
        from gpt2 import Gpt2
        model net = Gpt2(vocabulary=11, positions=9, d=12, layers=2, heads=3)
        train fit(ids: i32[n, s], target: [n, s, 11]):
          minimize mse(ids |> net, target)
        """,
        lambda: Gpt2(11, 9, 12, 2, 3),
        {"n": 2, "s": 7},
    ),
]

every_small_model = pytest.mark.parametrize("case", SMALL, ids=str)
every_family = pytest.mark.parametrize(
    "case", [case for case in SMALL if case.name not in ("whisper-18", "whisper-5")], ids=str
)


@every_small_model
def test_output(case: Case) -> None:
    module = models.reference(case)
    values = models.weights(case, module)
    data = models.drawn(models.inference(case).inputs, 0)
    expected = models.their_forward(module, data)
    exact = models.forward(case, values, data, Precision.DOUBLE)
    models.assert_near({"output": exact}, {"output": expected}, 1e-9)
    single = models.forward(case, values, data, Precision.SINGLE)
    models.assert_near({"output": single}, {"output": expected}, 1e-4)


@every_small_model
def test_gradients_and_states(case: Case) -> None:
    module = models.reference(case)
    values = models.weights(case, module)
    data = models.drawn(models.training(case).inputs, 1)
    theirs = models.their_step(module, data)
    for precision, tolerance in ((Precision.DOUBLE, 1e-9), (Precision.SINGLE, 1e-3)):
        ours = models.step(case, values, data, precision)
        assert ours.loss == pytest.approx(theirs.loss, rel=tolerance)
        models.assert_near(ours.gradients, theirs.gradients, tolerance)
        assert ours.states.keys() == theirs.states.keys()
        for name, state in theirs.states.items():
            np.testing.assert_allclose(ours.states[name], state, rtol=tolerance, atol=tolerance)


def test_the_output_in_training_is_of_the_batch() -> None:
    for case in (each for each in SMALL if each.name in ("resnet", "repvgg")):
        module = models.reference(case)
        values = models.weights(case, module)
        data = models.drawn(models.inference(case).inputs, 2)
        expected = models.their_forward(module, data, training=True)
        found = models.forward(case, values, data, Precision.DOUBLE, training=True)
        models.assert_near({"output": found}, {"output": expected}, 1e-9)
        kept = models.forward(case, values, data, Precision.DOUBLE)
        assert np.abs(found - kept).max() > 0.01


# A bias before a norm has no gradient but rounding, which Adam would divide by itself, so eps is
# larger here.
OPTIMIZERS: dict[str, tuple[Optimizer, Callable[..., torch.optim.Optimizer]]] = {
    "sgd": (Sgd(0.01, momentum=0.9), lambda each: torch.optim.SGD(each, 0.01, 0.9)),
    "adam": (Adam(1e-3, eps=1e-6), lambda each: torch.optim.Adam(each, 1e-3, eps=1e-6)),
}


@every_family
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_weights_after_five_steps(case: Case, optimizer: str) -> None:
    moves, theirs = OPTIMIZERS[optimizer]
    module = models.reference(case)
    values = models.weights(case, module)
    expected = models.their_trained_weights(case, module, theirs)
    found = models.trained_weights(case, values, moves, Precision.DOUBLE)
    models.assert_near(found, expected, 1e-9)
    moved = [name for name in models.trainable(models.inference(case).parameters)
             if np.abs(expected[name] - values[name]).max() > 1e-5]  # fmt: skip
    assert moved


@every_family
def test_trained_weights_give_pytorch_the_same_output(case: Case) -> None:
    values = models.weights(case, models.reference(case))
    trained = models.trained_weights(case, values, Sgd(0.01, momentum=0.9), Precision.SINGLE)
    data = models.drawn(models.inference(case).inputs, 3)
    found = models.forward(case, trained, data, Precision.DOUBLE)
    expected = models.their_forward(models.loaded(case, trained), data)
    models.assert_near({"output": found}, {"output": expected}, 1e-9)
