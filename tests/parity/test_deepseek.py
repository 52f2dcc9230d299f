"""Latent attention and balanced experts against transformers', whole and with the cache."""

import numpy as np
import pytest
import torch
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from tests.parity import models
from tests.parity.models import Case

pytestmark = pytest.mark.parity

LENGTH, PROMPT, CAPACITY = 7, 3, 9
NET = """\
from deepseek import DeepSeek, Moe
block Net(capacity=0)(ids: i32[n, s], position: i32[]{default}) -> [n, s, 11]
    where 0 <= position, capacity == 0 or position + s <= capacity:
  return ids |> .: DeepSeek(vocabulary=11, d=12, layers=2, dense=1, heads=2, ffn=10, head_dim=4,
                            rope_dim=8, value_dim=3, latent=5, q_latent=6, stretch=40,
                            moe=Moe(6, ffn=7, top=2, groups=3, kept=2, scale=2.5),
                            capacity=capacity)(position)
"""
WHOLE = (
    NET.format(default=" = 0")
    + """
model net = Net()
train fit(ids: i32[n, s], target: [n, s, 11]):
  minimize mse(ids |> net, target)
"""
)
CACHED = NET.format(default="") + f"model net = Net({CAPACITY})"
YARN = {
    "rope_type": "yarn", "rope_theta": 10000.0, "original_max_position_embeddings": 4096,
    "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0,
}  # fmt: skip
"""The rotary positions of DeepSeek-V3."""


class Decoder(DeepseekV3ForCausalLM):
    """transformers' model, whose output is the logits."""

    def __init__(self) -> None:
        config = DeepseekV3Config(
            vocab_size=11, hidden_size=12, num_hidden_layers=2, first_k_dense_replace=1,
            num_attention_heads=2, num_key_value_heads=2, intermediate_size=10,
            qk_nope_head_dim=4, qk_rope_head_dim=8, v_head_dim=3, kv_lora_rank=5, q_lora_rank=6,
            moe_intermediate_size=7, n_routed_experts=6, num_experts_per_tok=2, n_group=3,
            topk_group=2, routed_scaling_factor=2.5, rope_parameters=YARN,
        )  # fmt: skip
        config._attn_implementation = "eager"
        config._experts_implementation = "eager"
        super().__init__(config)
        gate = self.get_submodule("model.layers.1.mlp.gate")
        gate.to(torch.get_default_dtype())
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.mul_(10 if parameter.ndim > 1 else 1)

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, ids: torch.LongTensor
    ) -> torch.Tensor:
        logits = super().forward(ids, use_cache=False).logits
        assert logits is not None
        return logits


CASE = Case("deepseek", WHOLE, Decoder, {"n": 2, "s": LENGTH})


@pytest.fixture(autouse=True)
def double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """The norms, the router and the angles of transformers are of single precision."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    for name in ("float", "float32"):
        monkeypatch.setattr(torch, name, torch.float64)


def given(name: str) -> Array:
    return models.drawn(models.training(CASE).inputs, 1)[name]


def test_output_and_gradients() -> None:
    module = models.reference(CASE)
    values = models.weights(CASE, module)
    data = {"ids": given("ids"), "target": given("target")}
    expected = models.their_forward(module, {"ids": data["ids"]})
    found = models.forward(CASE, values, {"ids": data["ids"]}, Precision.DOUBLE)
    models.assert_near({"output": found}, {"output": expected}, 1e-12)
    theirs = models.their_step(module, data)
    ours = models.step(CASE, values, data, Precision.DOUBLE)
    models.assert_near(ours.gradients, theirs.gradients, 1e-11)


def test_experts_that_are_asked_more_than_others_become_less_wanted() -> None:
    values = models.weights(CASE, models.reference(CASE))
    name = "model.layers.1.mlp.gate.e_score_correction_bias"
    data = {"ids": given("ids"), "target": given("target")}
    after = models.step(CASE, values, data, Precision.DOUBLE).states[name]
    moved = after - values[name]
    assert set(np.round(moved / 0.001)) <= {-1, 0, 1}
    wanted = np.argsort(-values[name])
    assert moved[wanted[0]] < moved[wanted[-1]]


def test_with_the_cache_tokens_have_the_logits_of_the_whole() -> None:
    """A prompt, and then a token at a time, which see latent vectors instead of keys."""
    values = models.weights(CASE, models.reference(CASE))
    ids = given("ids")
    expected = models.forward(CASE, values, {"ids": ids}, Precision.DOUBLE)
    kept: dict[str, Array] = dict(values)
    for start, stop in [(0, PROMPT), *((at, at + 1) for at in range(PROMPT, LENGTH))]:
        case = Case("cached", CACHED, Decoder, {"n": 2, "s": stop - start})
        graph = Interpreter(models.inference(case).graph, Precision.DOUBLE)
        for name, leaf in graph.leaves.items():
            if name not in kept:
                kept[name] = np.zeros(concrete_shape(leaf.type.shape))
        fed = {"ids": ids[:, start:stop], "position": np.array(start, np.int32)}
        results = graph.run({**kept, **fed})
        kept |= results.updates
        models.assert_near(
            {"output": results.outputs["output"]}, {"output": expected[:, start:stop]}, 1e-12
        )
    caches = {
        name: each.size
        for name, each in kept.items()
        if ".self_attn." in name and name not in values
    }
    assert sum(caches.values()) == 2 * 2 * CAPACITY * (
        5 + 8
    )  # layers, rows, tokens: latent and rotated
