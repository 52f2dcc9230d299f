"""The floats that a step computes in, where a device offers a choice."""

from enum import StrEnum


class ComputePrecision(StrEnum):
    """Precision of contractions; parameters, updates and sums are float32 in each."""

    F32 = "f32"
    """Products of float32, as the reference makes them."""
    TF32 = "tf32"
    """Products of float32 rounded to 10 bits of mantissa, summed in float32."""
    F16 = "f16"
    """Products of float16, summed in float32, on `dawn`; steps of training scale their loss."""
    BF16 = "bf16"
    """Products of bfloat16, summed in float32; values between contractions stored in bfloat16."""
