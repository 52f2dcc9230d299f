"""GGUF files of tiny models of the Llama family, with tensors of every type that is read."""

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.quantization import Quantization

ALIGNMENT = 32
F32, F16, Q4_0, Q8_0, Q4_K, Q6_K, BF16 = 0, 1, 2, 8, 12, 14, 30
ENTRIES: Mapping[str, object] = {
    "general.architecture": "llama", "general.alignment": ALIGNMENT,
    "llama.context_length": 64, "llama.embedding_length": 64, "llama.block_count": 2,
    "llama.feed_forward_length": 128, "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2, "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.dimension_count": 16, "llama.rope.freq_base": 10000.0,
    "tokenizer.ggml.tokens": ["a", "b"], "tokenizer.ggml.scores": [0.5, 1.5],
    "tokenizer.ggml.add_bos_token": True,
}  # fmt: skip
"""The entries of `lm_tiny`, and some that are passed over."""
SHAPES: Mapping[str, tuple[int, ...]] = {
    "attn_norm": (64,), "ffn_norm": (64,), "attn_q": (64, 64), "attn_k": (32, 64),
    "attn_v": (32, 64), "attn_output": (64, 64), "ffn_gate": (128, 64), "ffn_up": (128, 64),
    "ffn_down": (64, 128),
}  # fmt: skip
"""The parts of its layers."""


def gguf(
    entries: Mapping[str, object], tensors: Mapping[str, tuple[Array, int]], version: int = 3
) -> bytes:
    """A file with these entries and tensors, each given with its type."""
    header = struct.pack("<4sIQQ", b"GGUF", version, len(tensors), len(entries))
    for name, value in entries.items():
        header += _text(name) + _value(value)
    data = b""
    for name, (array, kind) in tensors.items():
        sizes = struct.pack(f"<{array.ndim}Q", *reversed(array.shape))
        header += _text(name) + struct.pack("<I", array.ndim) + sizes
        header += struct.pack("<IQ", kind, len(data))
        content = packed(array, kind)
        data += content + bytes(-len(content) % ALIGNMENT)
    return header + bytes(-len(header) % ALIGNMENT) + data


def _text(text: str) -> bytes:
    content = text.encode()
    return struct.pack("<Q", len(content)) + content


def _value(value: object) -> bytes:
    match value:
        case bool():
            return struct.pack("<IB", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", 8) + _text(value)
        case list():
            items = [_value(each) for each in value]
            kind = items[0][:4] if items else struct.pack("<I", 4)
            content = b"".join(each[4:] for each in items)
            return struct.pack("<I", 9) + kind + struct.pack("<Q", len(items)) + content
        case _:
            raise TypeError(value)


def packed(array: Array, kind: int) -> bytes:
    """The numbers of an array in a type of GGML; bytes u8 are blocks already."""
    if array.dtype == np.uint8:
        return array.tobytes()
    match kind:
        case 0:
            return array.astype("<f4").tobytes()
        case 1:
            return array.astype("<f2").tobytes()
        case 30:
            return (array.astype("<f4").view(np.uint32) >> 16).astype("<u2").tobytes()
        case 2 | 8:
            return _rounded(array, 4 if kind == Q4_0 else 8)
        case _:
            raise ValueError(kind)


def _rounded(array: Array, bits: int) -> bytes:
    """Blocks of 32 levels, with their scales in f16."""
    blocks = array.reshape(-1, 32)
    _, scales = Quantization(bits, 32).quantize(blocks)
    halves = scales.astype("<f2")
    steps = np.where(halves == 0, 1, halves).astype(np.float32)
    levels = np.rint(blocks / steps)
    if bits == 8:
        content = np.clip(levels, -127, 127).astype(np.int8).view(np.uint8)
    else:
        unsigned = (np.clip(levels, -8, 7) + 8).astype(np.uint8)
        content = unsigned[:, :16] | (unsigned[:, 16:] << 4)
    return np.concatenate([halves.view(np.uint8), content], axis=1).tobytes()


def drawn_tensors(kinds: Sequence[int], layers: int = 2) -> dict[str, tuple[Array, int]]:
    """Random tensors of `lm_tiny`; matrices are of the types in turn."""
    random = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (256, 64), "output_norm": (64,)}
    for layer in range(layers):
        shapes |= {f"blk.{layer}.{part}": shape for part, shape in SHAPES.items()}
    found: dict[str, tuple[Array, int]] = {}
    for index, (name, shape) in enumerate(shapes.items()):
        array = random.normal(size=shape).astype(np.float32) / 8
        kind = kinds[index % len(kinds)] if len(shape) > 1 else F32
        found[f"{name}.weight"] = (array, kind)
    return found


def gguf_models() -> tuple[bytes, ...]:
    """Small files: of one layer and a narrow model, of each type, with biases and without."""
    narrow = {
        **ENTRIES, "llama.embedding_length": 32, "llama.block_count": 1,
        "llama.feed_forward_length": 32, "llama.attention.head_count": 2,
        "llama.attention.head_count_kv": 1, "llama.rope.dimension_count": 16,
    }  # fmt: skip
    shapes = {
        "token_embd": (8, 32), "output_norm": (32,), "blk.0.attn_norm": (32,),
        "blk.0.ffn_norm": (32,), "blk.0.attn_q": (32, 32), "blk.0.attn_k": (16, 32),
        "blk.0.attn_v": (16, 32), "blk.0.attn_output": (32, 32), "blk.0.ffn_gate": (32, 32),
        "blk.0.ffn_up": (32, 32), "blk.0.ffn_down": (32, 32),
    }  # fmt: skip
    random = np.random.default_rng(1)
    found: list[bytes] = []
    for kind in (F32, F16, BF16, Q4_0, Q8_0):
        tensors = {
            f"{name}.weight": (
                random.normal(size=shape).astype(np.float32),
                kind if len(shape) > 1 else F32,
            )
            for name, shape in shapes.items()
        }
        if kind == F16:
            for part, rows in (("q", 32), ("k", 16), ("v", 16)):
                tensors[f"blk.0.attn_{part}.bias"] = (np.ones(rows, np.float32), F32)
            tensors["output.weight"] = tensors["token_embd.weight"]
        found.append(gguf(narrow, tensors))
    qwen = {name.replace("llama", "qwen2"): value for name, value in narrow.items()}
    found.append(gguf({**qwen, "general.architecture": "qwen2"}, tensors, version=2))
    return tuple(found)
