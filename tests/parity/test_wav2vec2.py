"""wav2vec 2.0 against transformers': predictions, targets, its loss, and all gradients."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import Wav2Vec2Config, Wav2Vec2ForPreTraining

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_runtime.io.weights import compare
from tests.parity import models
from tests.parity.models import Case

pytestmark = pytest.mark.parity

N, T, S, GROUPS, CODES, NEGATIVES = 2, 70, 10, 2, 8, 4
TEXT = f"""\
from wav2vec2 import FeatureEncoder, Wav2Vec2, contrast, wav2vec2_loss

block Net()(x: [n, {T}], hidden: bool[n, {S}], noise: [n, {S}, 2, {CODES}], temperature: [])
    -> predicted: [n, {S}, 6], target: [n, {S}, 6], code: i32[n, {S}, 2], perplexity: []:
  return x |> wav2vec2.feature_extractor: FeatureEncoder(8, [[5, 3], [4, 2]])
           |> .: Wav2Vec2(d=12, layers=2, heads=3, ffn=10, k=K, conv_groups=2, codes={CODES},
                          code_d=8, projected=6)(hidden, noise, temperature)

model net = Net()

train fit(
    x: [n, {T}],
    hidden: bool[n, {S}],
    noise: [n, {S}, 2, {CODES}],
    temperature: whole [],
    negative: i32[n, {S}, {NEGATIVES}]
)
    where 0 <= negative, negative < {S}:
  predicted, target, code, perplexity = x |> net(hidden, noise, temperature)
  logits = contrast()(predicted, target, code, negative)
  minimize wav2vec2_loss({GROUPS}, {CODES})(logits, perplexity, hidden)
"""


def reference(window: int) -> Wav2Vec2ForPreTraining:
    """A small one of transformers, with a positional convolution of some window."""
    config = Wav2Vec2Config(
        hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=10,
        conv_dim=[8, 8], conv_kernel=[5, 4], conv_stride=[3, 2], num_conv_pos_embeddings=window,
        num_conv_pos_embedding_groups=2, num_codevectors_per_group=CODES,
        num_codevector_groups=GROUPS, codevector_dim=8, proj_codevector_dim=6,
        hidden_dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, feat_proj_dropout=0.0,
        feat_quantizer_dropout=0.0, layerdrop=0.0, mask_feature_prob=0.0,
    )  # fmt: skip
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    module = Wav2Vec2ForPreTraining(config)
    models.randomized(module)
    return module.float()


def published(module: Wav2Vec2ForPreTraining, folder: Path) -> Path:
    """The weights in a file, where the norm of the convolution has the names of published ones."""
    module.save_pretrained(folder)
    path = folder / "model.safetensors"
    names = {"parametrizations.weight.original0": "weight_g"}
    names["parametrizations.weight.original1"] = "weight_v"
    tensors = load_file(path)
    for theirs, older in names.items():
        tensors = {re.sub(re.escape(theirs), older, key): each for key, each in tensors.items()}
    save_file(tensors, path)
    return path


def drawn() -> dict[str, Array]:
    """Inputs, where noise gives the first times of the second sound one code."""
    generator = np.random.default_rng(1)
    away = generator.integers(1, S, (N, S, NEGATIVES))
    noise = generator.gumbel(size=(N, S, GROUPS, CODES)).astype(np.float32)
    noise[1, :3, :, 5] += 40
    hidden = generator.random((N, S)) < 0.4
    hidden[1, 0] = True
    away[1, 0, :2] = 1, 2
    return {
        "x": generator.normal(size=(N, T)).astype(np.float32),
        "hidden": hidden,
        "noise": noise,
        "temperature": np.array(3, np.float32),
        "negative": ((np.arange(S)[:, None] + away) % S).astype(np.int32),
    }


@pytest.fixture
def given_noise(monkeypatch: pytest.MonkeyPatch) -> dict[str, Array]:
    """Gumbel noise of ours in PyTorch's function, and no number made single on the way.

    The value is exactly that of one code there too, so that equal codes are found to be equal.
    """
    fed = drawn()

    def gumbel_softmax(logits: torch.Tensor, tau: float, **_other: bool) -> torch.Tensor:
        noise = torch.tensor(fed["noise"]).double().reshape(logits.shape)
        soft = ((logits + noise) / tau).softmax(-1)
        hard = functional.one_hot(soft.argmax(-1), logits.shape[-1]).double()
        return hard + (soft - soft.detach())

    monkeypatch.setattr(functional, "gumbel_softmax", gumbel_softmax)
    monkeypatch.setattr(torch.Tensor, "float", lambda tensor: tensor)
    return fed


@pytest.mark.parametrize("window", [4, 5])
def test_loss_and_gradients(window: int, tmp_path: Path, given_noise: dict[str, Array]) -> None:
    fed = given_noise
    case = Case("wav2vec2", TEXT.replace("K", str(window), 1), lambda: reference(window), {"n": N})
    module = reference(window)
    values = compare([published(module, tmp_path)], models.inference(case).parameters).read()
    module = module.double().train()
    module.set_gumbel_temperature(int(fed["temperature"]))
    flat = fed["negative"] + S * np.arange(N)[:, None, None]
    expected = module(
        torch.tensor(fed["x"]).double(),
        mask_time_indices=torch.tensor(fed["hidden"]),
        sampled_negative_indices=torch.tensor(flat).long(),
    )
    count = int(fed["hidden"].sum())
    graph = Interpreter(models.inference(case).graph, Precision.DOUBLE)
    inputs = {name: fed[name] for name in ("x", "hidden", "noise", "temperature")}
    found = dict(graph.run({**values, **inputs}).outputs)
    code = found.pop("code")
    same = np.take_along_axis(code[:, None], fed["negative"][..., None], 2) == code[:, :, None]
    assert np.any(same.all(3) & fed["hidden"][..., None]), "no negative of the right code"
    models.assert_near(
        found,
        {
            "predicted": expected.projected_states.detach().numpy(),
            "target": expected.projected_quantized_states.detach().numpy(),
            "perplexity": expected.codevector_perplexity.detach().numpy(),
        },
        1e-12,
    )
    (expected.loss / count).backward()
    with torch.no_grad():
        for each in module.parameters():
            each.copy_(torch.zeros_like(each) if each.grad is None else each.grad)
    slopes = {name: each.numpy() for name, each in load_file(published(module, tmp_path)).items()}
    ours = models.step(case, values, fed, Precision.DOUBLE)
    assert ours.loss == pytest.approx(expected.loss.item() / count, rel=1e-12)
    models.assert_near(ours.gradients, {name: slopes[name] for name in ours.gradients}, 1e-11)
