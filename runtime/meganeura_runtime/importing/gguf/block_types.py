"""The types of GGML's tensors: blocks of numbers, each with its scales.

ggml-quants.h describes the blocks. Levels of 8 and 4 bits stay packed with the scales of the file;
those of 6 bits have 8 here, and those of Q4_K, which lie above a minimum, have no packed form.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.ir.graph import Array

Unpacked = tuple[Array, Array | None]
"""Levels or numbers [blocks, numbers] as f32, and the scale of each group of a block, if any."""


@dataclass(frozen=True)
class BlockType:
    """A type of tensors."""

    name: str
    numbers: int
    """Numbers of a block."""
    bytes: int
    unpack: Callable[[Array], Unpacked]
    """The levels or numbers of blocks u8[blocks, bytes]."""
    bits: int = 0
    """Bits in which the levels stay packed; 0 if they do not."""


def _numbers(stored: str) -> Callable[[Array], Unpacked]:
    return lambda blocks: (blocks.view(stored).astype(np.float32), None)


def _bf16(blocks: Array) -> Unpacked:
    return (blocks.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32), None


def _half(content: Array) -> Array:
    """The halves [blocks, 1] that two bytes of each block are."""
    return np.ascontiguousarray(content).view("<f2").astype(np.float32)


def _q8_0(blocks: Array) -> Unpacked:
    """A scale, then 32 levels of 8 bits."""
    levels = np.ascontiguousarray(blocks[:, 2:]).view(np.int8)
    return levels.astype(np.float32), _half(blocks[:, :2])


def _q4_0(blocks: Array) -> Unpacked:
    """A scale, then 32 levels of 4 bits: the low bits of 16 bytes, then the high bits."""
    packed = blocks[:, 2:]
    levels = np.concatenate([packed & 15, packed >> 4], axis=1)
    return levels.astype(np.float32) - 8, _half(blocks[:, :2])


def _q6_k(blocks: Array) -> Unpacked:
    """The low 4 bits of 256 levels, the high 2, 16 scales of 8 bits, and the scale of these.

    Each half of the levels is four runs of 32: their low bits are the two halves of 64 bytes, their
    high bits are of the same 32 bytes.
    """
    count = len(blocks)
    low = blocks[:, :128].reshape(count, 2, 1, 64)
    low = np.concatenate([low & 15, low >> 4], axis=2).reshape(count, 2, 4, 32)
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    high = (blocks[:, 128:192].reshape(count, 2, 1, 32) >> shifts) & 3
    levels = (low | (high << 4)).astype(np.float32).reshape(count, 256) - 32
    steps = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.float32)
    with np.errstate(invalid="ignore"):
        return levels, _half(blocks[:, 208:]) * steps


def _q4_k(blocks: Array) -> Unpacked:
    """Two scales, 8 steps and 8 minima of 6 bits, and 256 levels of 4 bits.

    A number is scale * step * level - other scale * minimum. The first four steps and minima are
    the low 6 bits of bytes 0 to 3 and 4 to 7; of the others the low 4 bits are the halves of bytes
    8 to 11, and the high 2 bits those of bytes 0 to 3 and 4 to 7.
    """
    count, packed = len(blocks), blocks[:, 4:16]
    first, second, rest = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    steps = np.concatenate([first & 63, (rest & 15) | ((first >> 6) << 4)], axis=1)
    minima = np.concatenate([second & 63, (rest >> 4) | ((second >> 6) << 4)], axis=1)
    nibbles = blocks[:, 16:].reshape(count, 4, 1, 32)
    levels = np.concatenate([nibbles & 15, nibbles >> 4], axis=2).reshape(count, 8, 32)
    with np.errstate(invalid="ignore", over="ignore"):
        scale = _half(blocks[:, :2]) * steps.astype(np.float32)
        least = _half(blocks[:, 2:4]) * minima.astype(np.float32)
        numbers = scale[:, :, None] * levels.astype(np.float32) - least[:, :, None]
    return numbers.reshape(count, 256), None


BLOCK_TYPES: Mapping[int, BlockType] = {
    0: BlockType("F32", 1, 4, _numbers("<f4")),
    1: BlockType("F16", 1, 2, _numbers("<f2")),
    2: BlockType("Q4_0", 32, 18, _q4_0, 4),
    8: BlockType("Q8_0", 32, 34, _q8_0, 8),
    12: BlockType("Q4_K", 256, 144, _q4_k),
    14: BlockType("Q6_K", 256, 210, _q6_k, 8),
    30: BlockType("BF16", 1, 2, _bf16),
}
"""The types that are read, by their numbers in a file."""
NAMES: Mapping[int, str] = {
    3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 13: "Q5_K", 15: "Q8_K",
    16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S",
    22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M",
    34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
"""The names of the others."""
