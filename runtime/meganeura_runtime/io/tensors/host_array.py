"""Whatever Python calls an array, as one of NumPy: of PyTorch, of JAX, numbers in lists."""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from meganeura_runtime.io.tensors.file_array import Array

MASKED = (
    "a masked array holds values that do not count, which a tensor cannot say: "
    "fill them (`array.filled(0)`), and give the mask as an input of its own"
)


def host_array(value: object) -> Array:
    """The array, without a copy where it lies in memory as NumPy has it.

    A tensor of PyTorch may require a gradient, which is none of what it holds. bf16 becomes
    float32, which NumPy has. Raises `ValueError` for a masked array, and what NumPy or the library
    of a tensor raises.
    """
    if type(value) is np.ndarray:
        return cast("Array", value)
    parts = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
    if any(isinstance(each, np.ma.MaskedArray) for each in parts):
        raise ValueError(MASKED)
    array = np.asarray(_detached(cast("object", value)))
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _detached(tensor: object) -> object:
    """A tensor of PyTorch without its gradient, in a type that NumPy has."""
    detach = getattr(tensor, "detach", None)
    if not callable(detach):
        return tensor
    tensor = cast("Callable[[], object]", detach)()
    if str(getattr(tensor, "dtype", "")) != "torch.bfloat16":
        return tensor
    return cast("Callable[[], object]", getattr(tensor, "float"))()  # noqa: B009 - of any library
