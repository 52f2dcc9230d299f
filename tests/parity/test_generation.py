"""Greedy decoding with caches against transformers' and against PyTorch without any."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import nn

import meganeura
from tests.parity.references.sequences import Gpt2, Llama

PROMPT = [5, 17, 200, 3, 99, 41, 7, 8, 9, 10, 11]


def gpt2() -> nn.Module:
    return Gpt2(256, 256, 64, 2, 4)


def llama() -> nn.Module:
    return Llama(256, 64, 2, (4, 2, 16), 128, 10000.0)


def lively(module: nn.Module) -> nn.Module:
    """Weights so large that tokens vary."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            is_norm = "norm" in name or ".ln_" in name
            around = 1.0 if is_norm and name.endswith("weight") else 0.0
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(around + 0.25 * noise)
    return module.eval()


def greedy(module: nn.Module, steps: int) -> list[int]:
    """The likeliest token each time, the whole sequence computed anew."""
    ids = torch.tensor([PROMPT])
    with torch.no_grad():
        for _ in range(steps):
            ids = torch.cat([ids, module(ids)[:, -1].argmax(-1, keepdim=True)], 1)
    return [int(each) for each in ids[0, len(PROMPT) :]]


DEVICES = ["cpu", pytest.param("wgpu", marks=pytest.mark.adapter)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["gpt2_tiny", "lm_tiny"])
def test_two_hundred_tokens_are_pytorchs(name: str, device: str) -> None:
    module = lively(gpt2() if name == "gpt2_tiny" else llama())
    config = {"positions": 256} if name == "gpt2_tiny" else {}
    model = meganeura.load(name).model(name, config=config)
    model.values = {key: value.numpy() for key, value in module.state_dict().items()}
    assert set(model.values) == {each.name for each in model.parameters}
    with model.generator(256, device=device) as generator:
        found = [int(token[0]) for token in generator.tokens(PROMPT, 200)]
    assert found == greedy(module, 200)
    assert len(np.unique(found)) >= 3


def test_two_hundred_tokens_are_transformers() -> None:
    config = transformers.LlamaConfig(
        vocab_size=256, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=128, rms_norm_eps=1e-5, tie_word_embeddings=True,
    )  # fmt: skip
    llama: Any = transformers.LlamaForCausalLM(config)
    module = lively(llama)
    model = meganeura.load("lm_tiny").model("lm_tiny")
    model.values = {
        name: value.numpy() for name, value in module.state_dict().items() if "lm_head" not in name
    }
    wanted = llama.generate(
        torch.tensor([PROMPT]),
        max_new_tokens=200,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    with model.generator(256, device="cpu") as generator:
        found = [int(token[0]) for token in generator.tokens(PROMPT, 200)]
    assert found == wanted[0, len(PROMPT) :].tolist()
