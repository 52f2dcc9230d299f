"""Tensor types: an element type and a shape whose sizes may be symbolic."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from math import prod

from meganeura_dsl.symbolic.size import Size, evaluate, show


class DType(Enum):
    """Element types a graph computes with. Files may hold others; see `weights`."""

    F32 = "f32"
    F16 = "f16"
    I32 = "i32"
    U32 = "u32"
    BOOL = "bool"

    __hash__ = object.__hash__

    @property
    def is_float(self) -> bool:
        """True if values of this type can carry a gradient."""
        return self in (DType.F32, DType.F16)

    @property
    def is_integer(self) -> bool:
        """True if values of this type can be indices."""
        return self in (DType.I32, DType.U32)

    @property
    def bytes(self) -> int:
        """Bytes of one element in a buffer; a bool takes four, as WGSL has no smaller."""
        return 2 if self is DType.F16 else 4


Shape = tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and shape; `f32[n, 3, h, w]` in text."""

    dtype: DType
    shape: Shape

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def with_shape(self, shape: Shape) -> "TensorType":
        """The same element type in another shape."""
        return TensorType(self.dtype, shape)

    def with_dtype(self, dtype: DType) -> "TensorType":
        """The same shape of another element type."""
        return TensorType(dtype, self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.value}[{', '.join(show(size) for size in self.shape)}]"


@cache
def element_count(of: TensorType) -> int:
    """Returns the number of elements of a tensor without symbolic sizes."""
    return prod(evaluate(size, {}) for size in of.shape)


def size_in_bytes(of: TensorType) -> int:
    """The bytes of a tensor in memory."""
    return element_count(of) * of.dtype.bytes


EXAMPLES = 1
"""The number of examples that stands for any number of them."""

LENGTH = 32
"""The number used for any height, width or length."""


def example_sizes(types: Iterable[TensorType]) -> dict[str, int]:
    """A number for each size that types leave open: the first axis counts examples."""
    listed = list(types)
    examples = {str(each.shape[0]) for each in listed if each.shape}
    return {name: EXAMPLES if name in examples else LENGTH for name in free_sizes(listed)}


def free_sizes(types: Iterable[TensorType]) -> list[str]:
    """The sizes that types leave open, by name."""
    open_sizes = (size for each in types for size in each.shape if not isinstance(size, int))
    return sorted({name for size in open_sizes for name in size.variables()})
