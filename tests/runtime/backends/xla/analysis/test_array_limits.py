"""Arrays of more elements than 32 bits count are refused on GPUs, and those that are wrong."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from meganeura_dsl.ir.graph import Body, Builder, Graph
from meganeura_dsl.ir.ops import (
    Broadcast,
    Conv,
    Input,
    Mul,
    Parameter,
    ReduceMax,
    Scan,
    ScatterExtreme,
    Sin,
)
from meganeura_dsl.ir.ops.fused.attention import Attention
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.errors import LimitError
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.xla.analysis.array_limits import (
    MOST_ELEMENTS,
    MOST_SIGNED,
    require_countable,
)
from meganeura_runtime.backends.xla.open_device import XlaDevice
from meganeura_runtime.backends.xla.ops.attention import (
    Library,
    LibraryAttention,
    LibraryAttentionGradient,
)


def scaled(rows: int, width: int) -> Graph:
    builder = Builder()
    x = builder.add(Input("x", DType.F32, (rows, width)))
    scale = builder.add(Parameter("scale", DType.F32, (width,), "param"))
    wide = builder.add(Broadcast((rows, width), (1,)), scale)
    return builder.graph({"y": builder.add(Mul(), x, wide)})


def test_an_array_has_as_many_elements_as_32_bits_count() -> None:
    require_countable(scaled(1, MOST_ELEMENTS), 1)
    with pytest.raises(LimitError, match=re.escape("4,294,967,296 on each")):
        require_countable(scaled(4, 2**30), 1)


def test_devices_share_what_is_not_persistent() -> None:
    require_countable(scaled(4, 2**30), 2)
    with pytest.raises(LimitError):
        require_countable(scaled(8, 2**30), 2)
    with pytest.raises(LimitError):
        require_countable(scaled(1, 2**32), 4)


def attention(examples: int, *, trained: bool, rows: int = 1024, multiple: int = 1) -> Graph:
    """Of 12 heads of so many rows of 64, as cuDNN makes it."""
    builder = Builder()
    whole, library = Attention(0.125, causal=True), Library("cudnn", multiple)
    q, k, v, dy = (
        builder.add(Input(name, DType.F32, (examples, 12, rows, 64)))
        for name in ("q", "k", "v", "dy")
    )
    mean = builder.add(LibraryAttention(whole, library), q, k, v)
    if not trained:
        return builder.graph({"mean": mean})
    gradient = LibraryAttentionGradient(whole, library)
    return builder.graph({"dq": builder.add_all(gradient, q, k, v, mean, dy)[0]})


def test_the_gradient_of_attention_by_cudnn_has_what_signed_numbers_count() -> None:
    most = MOST_SIGNED // (12 * 1024 * 64)
    require_countable(attention(most, trained=True), 1)
    with pytest.raises(LimitError, match="2,147,483,647"):
        require_countable(attention(most + 1, trained=True), 1)
    require_countable(attention(most + 1, trained=True), 2)
    require_countable(attention(most + 1, trained=False), 1)


def test_rows_that_cudnn_gets_padded_count() -> None:
    examples = MOST_SIGNED // (12 * 1023 * 64)
    require_countable(attention(examples, trained=True, rows=1023), 1)
    with pytest.raises(LimitError, match=f"{examples * 12 * 1024 * 64:,} on each"):
        require_countable(attention(examples, trained=True, rows=1023, multiple=2), 1)


def convolved(stride: int, width: int) -> Graph:
    builder = Builder()
    x = builder.add(Input("x", DType.F32, (2, 1, 2**20, width)))
    w = builder.add(Input("w", DType.F32, (1, 1, 1, 1)))
    return builder.graph({"y": builder.add(Conv((1, stride), (0, 0), (1, 1), 1), x, w)})


def scattered(width: int) -> Graph:
    builder = Builder()
    ids = builder.add(Input("ids", DType.I32, (2**21,)))
    x = builder.add(Input("x", DType.F32, (2**21, width)))
    return builder.graph({"y": builder.add(ScatterExtreme("max", 0, 4), ids, x)})


@pytest.mark.parametrize(
    "make", [lambda width: convolved(2, width), scattered], ids=["strided", "scattered"]
)
def test_what_was_not_compared_beyond_has_what_signed_numbers_count(
    make: Callable[[int], Graph],
) -> None:
    require_countable(make(1023), 1)
    with pytest.raises(LimitError, match=re.escape("2,147,483,648 on each")):
        require_countable(make(1024), 1)
    require_countable(convolved(1, 1024), 1)


def repeated(rows: int, width: int) -> Graph:
    """A carry whose outer product is summed in each iteration; nothing else is as large."""
    inner = Builder()
    inner.add(Input("iteration", DType.I32, ()))
    carry = inner.add(Input("carry.0", DType.F32, (width,)))
    wide = inner.add(Sin(), inner.add(Broadcast((rows, width), (1,)), carry))
    body = Body(inner.graph({"carry.0": inner.add(ReduceMax((0,)), wide)}))
    builder = Builder()
    start = builder.add(Input("start", DType.F32, (width,)))
    scan = Scan(body, 3, 1, (), (), backward=False)
    return builder.graph({"last": builder.add_all(scan, start)[0]})


def test_values_of_an_iteration_count() -> None:
    require_countable(repeated(3, 2**30), 1)
    with pytest.raises(LimitError, match=re.escape("4,294,967,296 on each")):
        require_countable(repeated(4, 2**30), 1)
    require_countable(repeated(4, 2**30), 2)


def test_a_gpu_refuses_it_before_anything_is_compiled() -> None:
    device = choose_device("xla:cpu")
    assert isinstance(device, XlaDevice)

    class Gpu:
        platform = "gpu"

    with pytest.raises(LimitError, match="elements of an array on a GPU"):
        replace(device, device=Gpu()).open(scaled(4, 2**30))
