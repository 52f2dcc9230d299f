"""Arrays of more elements than 32 bits count are refused on GPUs, where none was measured."""

import re
from dataclasses import replace

import pytest

from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.ops import Broadcast, Input, MatMul, Mul, Parameter, Sort
from meganeura_dsl.ir.ops.fused.softmax import CrossEntropy
from meganeura_dsl.ir.types import DType
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.errors import LimitError
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.xla.array_limits import MOST_ELEMENTS, require_countable
from meganeura_runtime.backends.xla.device import XlaDevice

BF16, F32 = ComputePrecision.BF16, ComputePrecision.F32


def scaled(rows: int, width: int) -> Graph:
    builder = Builder()
    x = builder.add(Input("x", DType.F32, (rows, width)))
    scale = builder.add(Parameter("scale", DType.F32, (width,), "param"))
    wide = builder.add(Broadcast((rows, width), (1,)), scale)
    return builder.graph({"y": builder.add(Mul(), x, wide)})


def test_an_array_has_as_many_elements_as_32_bits_count() -> None:
    require_countable(scaled(1, MOST_ELEMENTS), F32, 1)
    with pytest.raises(LimitError, match=re.escape("2,147,483,648 on each")):
        require_countable(scaled(2, 2**30), F32, 1)


def test_devices_share_what_is_not_persistent() -> None:
    require_countable(scaled(2, 2**30), F32, 2)
    with pytest.raises(LimitError):
        require_countable(scaled(4, 2**30), F32, 2)
    with pytest.raises(LimitError):
        require_countable(scaled(1, 2**31), F32, 4)


def losses(rows: int, classes: int, axis: int = 1) -> Graph:
    """Those of logits, which are then put in order along an axis if it is not their last."""
    builder = Builder()
    x = builder.add(Input("x", DType.F32, (rows, 4)))
    labels = builder.add(Input("labels", DType.I32, (rows,)))
    weight = builder.add(Parameter("weight", DType.F32, (4, classes), "param"))
    logits = builder.add(MatMul(), x, weight)
    found = {"loss": builder.add(CrossEntropy(), logits, labels)}
    if axis != 1:
        found["order"] = builder.add_all(Sort(axis), logits)[1]
    return builder.graph(found)


def test_products_and_their_losses_were_measured_in_bf16() -> None:
    require_countable(losses(65_536, 50_257), BF16, 1)
    with pytest.raises(LimitError, match="4,294,967,295"):
        require_countable(losses(2**17, 50_257), BF16, 1)
    for graph, precision in (
        (losses(65_536, 50_257), F32),
        (losses(65_536, 50_257, axis=0), BF16),
    ):
        with pytest.raises(LimitError, match="2,147,483,647"):
            require_countable(graph, precision, 1)


def test_a_gpu_refuses_it_before_anything_is_compiled() -> None:
    device = choose_device("xla:cpu")
    assert isinstance(device, XlaDevice)

    class Gpu:
        platform = "gpu"

    with pytest.raises(LimitError, match="elements of an array on a GPU"):
        replace(device, device=Gpu()).open(scaled(2, 2**30))
