"""Memory layouts of the arrays that a session keeps."""

from jax.experimental.layout import Layout

from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.settings.compute_precision import ComputePrecision

KERNEL = 4
"""Rank of the kernel of a convolution of images: [out, in, h, w]."""


def columns_first(of: TensorType) -> Layout:
    """Returns the layout whose slowest axis is the last.

    The rows of logits seldom begin at multiples of 16 bytes, their columns mostly do: so a product
    of cuBLAS writes them.
    """
    return Layout((of.rank - 1, *range(of.rank - 1)))


def layout_of(of: TensorType, platform: str, precision: ComputePrecision) -> Layout:
    """Returns the row-major layout, but channels last for kernels of matrix units on a GPU.

    cuDNN's convolutions read them so; else each step would move kernels and their moments there
    and back. It follows from type and precision alone, so that all sessions of a model can share
    them.
    """
    has_units = platform == "gpu" and precision is not ComputePrecision.F32
    if has_units and of.rank == KERNEL and of.dtype.is_float:
        return Layout((0, 2, 3, 1))
    return Layout(tuple(range(of.rank)))
