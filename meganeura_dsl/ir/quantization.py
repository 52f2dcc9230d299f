"""Quantization of weights: whole numbers of 4 or 8 bits, and a scale for each group of a row.

The levels are those of the formats Q8_0 and Q4_0 of GGML, for groups of any length: with 8 bits
-127 ... 127, where the scale is the greatest magnitude over 127; with 4 bits -8 ... 7, where the
scale is the number of greatest magnitude over -8. A scale is rounded to 11 significant bits, so
that what was quantized once is quantized to itself.
"""

from dataclasses import dataclass, field
from math import prod

from meganeura_dsl.startup.lazy_numpy import Array, np

BITS = (4, 8)
"""Bits that a number may have."""
WORD = 32
"""Bits of a word."""
SIGNIFICANT = 11
"""Significant bits of a scale: 127 times one is exact in f32."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """The levels of a tensor: numbers of `bits` bits, a scale for each `group` numbers of a row.

    A row is all that follows the first axis, in row-major order. `group` is 0 for whole rows. Each
    number is in its word plus 2^(bits - 1), the first of a word in its lowest bits.
    """

    bits: int
    group: int = 0
    given: Array | None = field(default=None, compare=False, repr=False)
    """The scales of a tensor, f32[rows, groups], which numbers keep that are levels of them."""

    @property
    def each(self) -> int:
        """Numbers of a word."""
        return WORD // self.bits

    @property
    def zero(self) -> int:
        """The number that a word has for 0."""
        return 2 ** (self.bits - 1)

    def groups(self, shape: tuple[int, ...]) -> int:
        """Groups of a row; raises `ValueError` where they do not divide it."""
        length = prod(shape[1:])
        group = self.group or length
        if length % group:
            raise ValueError(f"a row of {length} has no whole groups of {group}")
        return length // group

    def words(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """The shape of the words of a tensor."""
        return shape[0], -(-prod(shape[1:]) * self.bits // WORD)

    def scales(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """The shape of the scales of a tensor."""
        return shape[0], self.groups(shape)

    def bytes(self, shape: tuple[int, ...]) -> int:
        """Bytes of a tensor: its words and its scales."""
        return 4 * (prod(self.words(shape)) + prod(self.scales(shape)))

    def quantize(self, array: Array) -> tuple[Array, Array]:
        """Returns words u32[rows, n] and scales f32[rows, groups] of f32 numbers, all finite."""
        shape = array.shape
        grouped = array.astype(np.float32, copy=False).reshape(*self.scales(shape), -1)
        if self.given is not None and self.given.shape == grouped.shape[:2]:
            levels = self._levels(grouped, self.given, -self.zero)
            if np.array_equal(levels * self.given[..., None], grouped):
                return self._packed(levels, shape), self.given
        scales = self._scale(grouped)
        lowest = 1 - self.zero if self.bits == 8 else -self.zero
        return self._packed(self._levels(grouped, scales, lowest), shape), scales

    def _levels(self, grouped: Array, scales: Array, lowest: int) -> Array:
        """Returns whole numbers [rows, groups, length] as f32, the nearest times their scales."""
        safe = np.where(scales == 0, np.float32(1), scales)[..., None]
        return np.asarray(np.clip(np.rint(grouped / safe), lowest, self.zero - 1))

    def represents(self, array: Array) -> bool:
        """True if all numbers are finite and levels, so that to quantize them changes nothing."""
        if not np.isfinite(array).all():
            return False
        return np.array_equal(self.dequantize(*self.quantize(array), array.shape), array)

    def _scale(self, grouped: Array) -> Array:
        """Returns a scale for each group [rows, groups, length]."""
        at = np.abs(grouped).argmax(axis=-1, keepdims=True)
        extreme = np.take_along_axis(grouped, at, axis=-1)[..., 0]
        single = np.abs(extreme) / np.float32(127) if self.bits == 8 else extreme / np.float32(-8)
        mantissa, exponent = np.frexp(single.astype(np.float64))
        steps = 2.0**SIGNIFICANT
        rounded = np.ldexp(np.rint(mantissa * steps) / steps, exponent)
        return np.asarray(rounded.astype(np.float32))

    def _packed(self, levels: Array, shape: tuple[int, ...]) -> Array:
        rows, count = self.words(shape)
        unsigned = np.zeros((rows, count * self.each), np.uint32)
        unsigned[:, : prod(shape[1:])] = levels.reshape(rows, -1) + self.zero
        shifted = unsigned.reshape(rows, count, self.each) << self._shifts
        return np.asarray(np.bitwise_or.reduce(shifted, axis=-1))

    def dequantize(self, words: Array, scales: Array, shape: tuple[int, ...]) -> Array:
        """Returns the numbers that words and scales stand for, in the type of the scales."""
        levels = (words[:, :, None] >> self._shifts) & np.uint32(2**self.bits - 1)
        centred = levels.reshape(len(words), -1)[:, : prod(shape[1:])].astype(scales.dtype)
        centred -= self.zero
        grouped = centred.reshape(*scales.shape, -1) * scales[..., None]
        return np.asarray(grouped.reshape(shape))

    @property
    def _shifts(self) -> Array:
        return self.bits * np.arange(self.each, dtype=np.uint32)
