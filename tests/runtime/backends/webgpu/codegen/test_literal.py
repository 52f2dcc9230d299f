"""Constants as WGSL text, and back."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import Broadcast, Constant
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.wgsl.literal import float_literal, literal
from meganeura_runtime.backends.webgpu.device.device import Device
from tests.runtime.running import run


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_reads_back_as_itself(value: float) -> None:
    text = float_literal(value)
    assert text.endswith("f")
    back = np.float32(float.fromhex(text[:-1]) if "0x" in text else float(text[:-1]))
    assert back == np.float32(value)
    assert math.copysign(1, back) == math.copysign(1, value)


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, DType.F32, "0.1f"),
        (-0.0, DType.F32, "-0.0f"),
        (np.finfo(np.float32).max, DType.F32, "0x1.fffffep+127f"),  # no decimal above it, for Tint
        (np.finfo(np.float32).min, DType.F32, "-0x1.fffffep+127f"),
        (1e39, DType.F32, "from_bits(0x7f800000u)"),
        (-math.inf, DType.F32, "from_bits(0xff800000u)"),
        (math.nan, DType.F32, "from_bits(0x7fc00000u)"),
        (0.1, DType.F16, "0.099975586f"),
        (-7, DType.I32, "-7i"),
        (-(1 << 31), DType.I32, "i32(-2147483648)"),
        (4_294_967_295, DType.U32, "4294967295u"),
        (True, DType.BOOL, "true"),
    ],
)
def test_numbers_as_text(value: float, dtype: DType, text: str) -> None:
    assert literal(value, dtype) == text


FLOATS = (0.1, -0.0, 1e-45, 3.4028235e38, -1.1754942e-38, 16777217.0, math.inf, -math.inf, math.nan)


@pytest.mark.adapter
def test_an_adapter_reads_the_same_bits(device: Device) -> None:
    build = Builder()
    values = {f"f{n}": build.add(Constant(x, DType.F32)) for n, x in enumerate(FLOATS)}
    whole = -(1 << 31)
    values["i"] = build.add(Constant(whole, DType.I32))
    values["u"] = build.add(Broadcast((3,), ()), build.add(Constant(4_000_000_000, DType.U32)))
    outputs = run(build.graph(values), {}, device).outputs
    for number, value in enumerate(FLOATS):
        expected = np.float32(value)
        assert outputs[f"f{number}"].tobytes() == expected.tobytes(), value
    assert outputs["i"] == whole
    assert outputs["u"].tolist() == [4_000_000_000] * 3
