"""Greedy decoding with caches against transformers' and against PyTorch without any."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import nn

import meganeura
from meganeura_runtime.infer.generator import GREEDY
from meganeura_runtime.infer.transcription import Speech, SpeechTask, Transcriber
from meganeura_runtime.io.preprocess.input_transforms import Sounds
from meganeura_runtime.io.preprocess.speech_tokens import speech_tokens
from meganeura_runtime.io.preprocess.tokens import ByteTokenizer, TextStream
from tests.effort import effort
from tests.parity.references.sequences import Gpt2, Llama, Mixtral

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
SOME_DEVICES = [*DEVICES, "xla:cpu"][: effort(1, 3)]


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("gpt2_tiny", "cpu"),
        ("lm_tiny", "cpu"),
        *(
            pytest.param(name, "wgpu", marks=pytest.mark.adapter)
            for name in effort(("lm_tiny",), ("gpt2_tiny", "lm_tiny"))
        ),
    ],
)
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


@pytest.mark.parametrize("device", SOME_DEVICES)
def test_a_mixture_of_experts_writes_what_pytorch_does(device: str) -> None:
    module = lively(Mixtral(256, 64, 2, (4, 2, 16), 64, 1e6, 4))
    model = meganeura.load("mixtral_tiny").model("mixtral_tiny")
    model.values = {key: value.numpy() for key, value in module.state_dict().items()}
    with model.generator(64, device=device) as generator:
        found = [int(token[0]) for token in generator.tokens(PROMPT, 40)]
    assert found == greedy(module, 40)
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


@pytest.mark.parametrize("device", SOME_DEVICES)
def test_t5_answers_as_transformers_does(device: str) -> None:
    configuration = transformers.T5Config(
        vocab_size=64, d_model=32, d_kv=16, d_ff=48, num_layers=2, num_heads=2,
        relative_attention_num_buckets=32,
    )  # fmt: skip
    configuration.decoder_start_token_id = 0
    module: Any = lively(transformers.T5ForConditionalGeneration(configuration))
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.mul_(8 if ".layer." in name and "norm" not in name else 1)
    config = {"vocabulary": 64, "d": 32, "layers": 2, "heads": 2, "width": 16, "ffn": 48}
    model = meganeura.load("t5_small").model(config=config)
    tied = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
    values = {name: each.numpy() for name, each in module.state_dict().items() if name not in tied}
    assert {name: each.shape for name, each in values.items()} == {
        each.name: each.type.shape for each in model.parameters
    }
    model.values = values
    prompt = torch.tensor([PROMPT]) % 64
    wanted = module.generate(prompt, max_new_tokens=40, do_sample=False, eos_token_id=None)
    with model.generator(64, sizes={"t": len(PROMPT)}, device=device) as generator:
        generator.read({"prompt": prompt.numpy().astype(np.int32)})
        found = [int(token[0]) for token in generator.tokens([0], 40)]
    assert found == wanted[0, 1:].tolist()
    assert len({*found}) >= 3


# --- Whisper -------------------------------------------------------------------------------------

SPECIAL = {
    "decoder_start_token_id": 81, "eos_token_id": 80, "pad_token_id": 80, "bos_token_id": 80,
    "lang_to_id": {"<|en|>": 82, "<|de|>": 83}, "task_to_id": {"translate": 84, "transcribe": 85},
    "no_timestamps_token_id": 86, "max_initial_timestamp_index": 5, "is_multilingual": True,
    "suppress_tokens": [3, 4, 81, 82, 83, 84, 85], "begin_suppress_tokens": [5, 80],
    "max_length": 30,
}  # fmt: skip
"""A checkpoint's tokens, fewer of them: times are the 21 from 87 on."""
WINDOW = 40
NARROW = {
    "d": 16, "heads": 2, "layers": 2, "ffn": 24, "mels": 8, "positions": WINDOW // 2,
    "vocabulary": 108, "length": 30,
}  # fmt: skip


@cache
def whisper() -> nn.Module:
    """A narrow Whisper of transformers."""
    config = transformers.WhisperConfig(
        vocab_size=108, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, num_mel_bins=8,
        max_source_positions=WINDOW // 2, max_target_positions=30, pad_token_id=80,
        bos_token_id=80, eos_token_id=80, decoder_start_token_id=81,
    )  # fmt: skip
    torch.manual_seed(0)
    module: Any = lively(transformers.WhisperForConditionalGeneration(config))
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.mul_(3 if ".layers." in name and "norm" not in name else 1)
    module.generation_config = transformers.GenerationConfig(**SPECIAL)
    return module


def same_weights(module: nn.Module) -> meganeura.Model:
    """Our model with the weights of transformers' one, which has no others."""
    model = meganeura.load("whisper_tiny_full").model(config=NARROW)
    values = {name: each.numpy() for name, each in module.state_dict().items()}
    del values["proj_out.weight"]
    assert {name: each.shape for name, each in values.items()} == {
        each.name: each.type.shape for each in model.parameters
    }
    model.values = values
    return model


class Numbers(ByteTokenizer):
    """Tokens as their numbers."""

    def stream(self) -> TextStream:
        return NumberStream()


class NumberStream(TextStream):
    def add(self, token: int) -> str:
        return f"{token} "


@pytest.mark.parametrize("device", SOME_DEVICES)
@pytest.mark.parametrize("frames", [WINDOW, 130])
def test_whisper_writes_what_transformers_does(device: str, frames: int, tmp_path: Path) -> None:
    module: Any = whisper()
    timestamps = frames > WINDOW
    (tmp_path / "generation_config.json").write_text(json.dumps(SPECIAL))
    sound = np.random.default_rng(3).normal(size=(8, frames)).astype(np.float32)
    model = same_weights(module)
    task = SpeechTask.of(model._token_step, [tmp_path])
    assert (task.window, task.room) == (Sounds(8, WINDOW), 30)
    with model._generator(task.step, device) as generator:
        known = speech_tokens([tmp_path], Numbers(), 108)
        transcriber = Transcriber(generator, task, Numbers(), known)
        for language in ("de", None):
            speech = Speech(language, "translate", timestamps)
            found = "".join(transcriber.of_spectrogram(sound, speech, 20, GREEDY))
            wanted: Any = module.generate(
                torch.tensor(sound)[None], language=language, task="translate", do_sample=False,
                max_new_tokens=20,
                return_timestamps=timestamps, return_segments=timestamps,
                attention_mask=torch.ones(1, frames, dtype=torch.long),
            )  # fmt: skip
            lines = segments(wanted["segments"][0]) if timestamps else numbers(wanted[0])
            assert found.split() == lines
            assert len({*lines}) >= 5


def numbers(tokens: torch.Tensor) -> list[str]:
    """Tokens that are text."""
    return [str(token) for token in tokens.tolist() if token < 80]


def segments(found: Sequence[Mapping[str, torch.Tensor]]) -> list[str]:
    """Returns the lines of `Transcriber` for parts with times."""
    words: list[str] = []
    for segment in found:
        begin, end = (float(segment[name]) for name in ("start", "end"))
        words += [f"[00:{begin:06.3f}", "-->", f"00:{end:06.3f}]"]
        words += numbers(segment["tokens"])
    return words
