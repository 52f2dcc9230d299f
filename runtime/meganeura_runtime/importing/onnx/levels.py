"""Constants that are whole numbers of a few bits times scales, as a file has them."""

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.quantization import BITS, Quantization


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels of a constant: their bits, 0 if no form has them, and their scales.

    Of each axis there is one scale, one for each index, or one for each block of indices.
    """

    bits: int
    scales: Array

    @property
    def turned(self) -> "Levels":
        """Those of the transpose of a matrix."""
        return replace(self, scales=self.scales.T)

    def packed(self, shape: tuple[int, ...]) -> Quantization | None:
        """The form in which a tensor of this shape stays packed; None if none is smaller."""
        rows, *rest = self.scales.shape
        if not self.bits or len(shape) < 2 or rows not in (1, shape[0]):
            return None
        groups = rest[0] if len(shape) == 2 else 1
        if shape[1] % groups or (len(shape) > 2 and set(rest) != {1}):
            return None
        scales = np.broadcast_to(self.scales.reshape(rows, groups), (shape[0], groups))
        group = shape[1] // groups if groups > 1 else 0
        found = Quantization(self.bits, group, np.ascontiguousarray(scales, np.float32))
        return found if found.bytes(shape) < scales.itemsize * prod(shape) else None


def levels_of(numbers: Array, scales: Array) -> Levels:
    """The levels of whole numbers, of as few bits as hold them; of 0 bits if none do."""
    low, high = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    fitting = (each for each in BITS if -(1 << (each - 1)) <= low and high < 1 << (each - 1))
    return Levels(next(fitting, 0), scales.astype(np.float32))
