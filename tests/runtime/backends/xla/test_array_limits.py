"""Arrays of more elements than 32 bits count are refused on GPUs, where a step was wrong."""

import re
from dataclasses import replace

import pytest

from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.ops import Broadcast, Input, Mul, Parameter
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.errors import LimitError
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.xla.array_limits import MOST_ELEMENTS, require_countable
from meganeura_runtime.backends.xla.device import XlaDevice


def scaled(rows: int, width: int) -> Graph:
    builder = Builder()
    x = builder.add(Input("x", DType.F32, (rows, width)))
    scale = builder.add(Parameter("scale", DType.F32, (width,), "param"))
    wide = builder.add(Broadcast((rows, width), (1,)), scale)
    return builder.graph({"y": builder.add(Mul(), x, wide)})


def test_an_array_has_as_many_elements_as_32_bits_count() -> None:
    require_countable(scaled(1, MOST_ELEMENTS), 1)
    with pytest.raises(LimitError, match=re.escape("2,147,483,648 on each")):
        require_countable(scaled(2, 2**30), 1)


def test_devices_share_what_is_not_persistent() -> None:
    require_countable(scaled(2, 2**30), 2)
    with pytest.raises(LimitError):
        require_countable(scaled(4, 2**30), 2)
    with pytest.raises(LimitError):
        require_countable(scaled(1, 2**31), 4)


def test_a_gpu_refuses_it_before_anything_is_compiled() -> None:
    device = choose_device("xla:cpu")
    assert isinstance(device, XlaDevice)

    class Gpu:
        platform = "gpu"

    with pytest.raises(LimitError, match="elements of an array on a GPU"):
        replace(device, device=Gpu()).open(scaled(2, 2**30))
