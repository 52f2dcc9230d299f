"""PyTorch's own samples of its functions, as its test suite draws them."""

import sys
import unittest
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Any
from zlib import crc32

import torch


@cache
def infos() -> Mapping[str, Any]:
    """PyTorch's table of functions, by name and behind a slash the variant."""
    if "expecttest" not in sys.modules:
        # PyTorch's module of tests takes its base class from a package that no sample needs.
        stand_in = ModuleType("expecttest")
        stand_in.__dict__.update(TestCase=unittest.TestCase, ACCEPT=False)
        sys.modules["expecttest"] = stand_in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db  # noqa: PLC0415
    return {
        f"{each.name}/{each.variant_test_name}" if each.variant_test_name else each.name: each
        for each in op_db
    }


def samples(name: str, dtype: torch.dtype) -> Iterator[Any]:
    """The samples of a function, the same in each run."""
    info = infos()[name]
    torch.manual_seed(crc32(name.encode()))
    yield from info.sample_inputs(
        "cpu", dtype, requires_grad=dtype.is_floating_point and info.supports_autograd
    )


def mistakes(name: str) -> Iterator[Any]:
    """Samples that PyTorch refuses, with its message."""
    info = infos()[name]
    torch.manual_seed(crc32(name.encode()))
    if info.error_inputs_func is not None:
        yield from info.error_inputs("cpu")
