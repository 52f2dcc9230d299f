"""Mistakes of rewriting a graph: algebra, constant folding, and patterns that are fused."""

import numpy as np
from numpy.typing import ArrayLike

from meganeura_dsl.ir.graph import Array
from tests.silent_bugs.case import INF, NAN, Case, drawn, floats, normed, softmax, wholes

REAL = "its compiler takes numbers for real numbers"
SPECIAL = floats(NAN, INF, -INF, 2, -0.5, 0, 3e38)
HEADS = {name: drawn(name, 2, 3, 5, 4) for name in "qkv"}


def _attention(q: Array, k: Array, v: Array, scale: float, bias: ArrayLike) -> Array:
    return softmax(q @ np.swapaxes(k, -1, -2) * scale + np.asarray(bias)) @ v


def _wrapped(x: object) -> Array:
    """Whole numbers modulo 2 ** 32."""
    return np.asarray(x, np.int64).astype(np.int32)


BIAS = np.where(drawn("hidden", 2, 3, 5, 5) > 0.7, -1e9, drawn("bias", 2, 3, 5, 5))
BIAS = BIAS.astype(np.float32)
NORMS = {
    **{f"{name}.weight": 1 + 0.1 * drawn(name, 6) for name in ("one", "two")},
    **{f"{name}.bias": drawn(f"{name}.bias", 6) for name in ("one", "two")},
    **{f"{name}.running_mean": drawn(f"{name}.mean", 6) for name in ("one", "two")},
    **{f"{name}.running_var": 0.5 + drawn(f"{name}.var", 6) ** 2 for name in ("one", "two")},
}


def _fixed(x: Array, name: str, fed: dict[str, Array]) -> Array:
    mean, var, weight, bias = (
        fed[f"{name}.{part}"][:, None] for part in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / np.sqrt(var + 1e-5) * weight + bias


def _two_norms(**fed: Array) -> tuple[Array, ...]:
    mixed = np.einsum("oi,nis->nos", fed["conv.weight"][:, :, 0], fed["x"])
    mixed = mixed + fed["conv.bias"][:, None]
    return _fixed(mixed, "one", fed), _fixed(mixed, "two", fed), mixed


def _norm_and_part(**fed: Array) -> tuple[Array, ...]:
    return (_fixed(fed["x"], "one", fed).reshape(3, -1)[:, :10] @ fed["w"],)


def _norm_after_norm(**fed: Array) -> tuple[Array, ...]:
    x = _fixed(fed["x"], "one", fed)
    x = np.where(x > 0, x, np.expm1(x))
    groups = normed(x.reshape(3, 2, -1), (2,)).reshape(x.shape)
    return (np.log(np.abs(groups * fed["two.weight"][:, None] + fed["two.bias"][:, None]) + 1),)


CASES = (
    Case(
        "zero_times",
        "pytorch 186281",
        "x * 0 is folded to 0, and a NaN or an infinity disappears",
        "(x: [n]) -> [n], [n]:\n  return x * 0, 0.0 * x + 1",
        {"x": SPECIAL},
        lambda x: (x * 0, 0 * x + 1),
        not_promised={"wgpu": REAL},
    ),
    Case(
        "difference_of_itself",
        "tilelang 2638",
        "x - x is folded to 0, which it is not of an infinity",
        "(x: [n]) -> [n] = x - x",
        {"x": SPECIAL},
        lambda x: (x - x,),
        not_promised={"wgpu": REAL},
    ),
    Case(
        "ratio_of_itself",
        "tilelang 2638",
        "x / x is folded to 1, which it is not of 0",
        "(x: [n]) -> [n] = x / x",
        {"x": SPECIAL},
        lambda x: (x / x,),
    ),
    Case(
        "sum_of_softmax",
        "pytorch 189787",
        "the sum of a softmax is folded to 1, and a NaN in its row disappears",
        "(x: [n, d]) -> [n], [n]:\n  y = sum(softmax(x), -1)\n  return y, floor(y + 0.5)",
        {"x": floats([0, 1, 2], [100, -100, 0], [1, NAN, 2], [0, 0, 0])},
        lambda x: (softmax(x).sum(-1), np.floor(softmax(x).sum(-1) + 0.5)),
    ),
    Case(
        "running_sum_of_equals",
        "pytorch 189518",
        "a running sum of equal numbers becomes a progression of another element type",
        "(x: [n, d]) -> [n, d], i32[n, d]:\n"
        "  y = cumsum(full([n, d], 2.5), 0)\n"
        "  z = cumsum(i32(full([n, d], 3.0)), 1)\n"
        "  return y + 0 * x, z",
        {"x": drawn("x", 4, 6)},
        lambda x: (
            np.cumsum(np.full(x.shape, 2.5), 0),
            np.cumsum(np.full(x.shape, 3), 1),
        ),
    ),
    Case(
        "factor_of_whole_numbers",
        "pytorch 109105",
        "a common factor is taken out of a sum of whole numbers, and overflows otherwise",
        "(x: i32[n], y: i32[n]) -> i32[n], i32[n]:\n  return 6 * x + 6 * y, 6 * (x + y)",
        {
            "x": wholes(5, -7, 2_000_000_000, -2_000_000_000),
            "y": wholes(4, 9, 2_000_000_000, -1_999_999_999),
        },
        lambda x, y: (
            _wrapped(6 * x.astype(np.int64) + 6 * y.astype(np.int64)),
            _wrapped(6 * (x.astype(np.int64) + y.astype(np.int64))),
        ),
    ),
    Case(
        "progression",
        "pytorch 175966",
        "a progression is computed with fewer bits than its element type has",
        "(x: [n]) -> [n], i32[n]:\n  return f32(iota(n)) * 1e9 + 0 * x, iota(n) * 100_000_000",
        {"x": drawn("x", 11)},
        lambda x: (np.arange(len(x)) * 1e9, np.arange(len(x)) * 100_000_000),
    ),
    Case(
        "attention_of_another_scale",
        "pytorch 174049",
        "attention that is spelled out with a scale gets the usual one",
        "(q: [n, h, s, d], k: [n, h, t, d], v: [n, h, t, d]) -> [n, h, s, d], [n, h, s, d]:\n"
        "  scores = q @ rearrange(k, [n, h, t, d] -> [n, h, d, t])\n"
        "  return softmax(scores / 0.25) @ v, softmax(scores) @ v",
        HEADS,
        lambda q, k, v: (_attention(q, k, v, 4, 0), _attention(q, k, v, 1, 0)),
        single=1e-4,
    ),
    Case(
        "attention_under_a_mask",
        "torch-spyre 4526",
        "attention that is spelled out with a mask becomes attention without one",
        "(q: [n, h, s, d], k: [n, h, t, d], v: [n, h, t, d], b: [n, h, s, t]) -> [n, h, s, d]:\n"
        "  scores = q @ rearrange(k, [n, h, t, d] -> [n, h, d, t])\n"
        "  return softmax(scores * 0.5 + b) @ v",
        {**HEADS, "b": BIAS},
        lambda q, k, v, b: (_attention(q, k, v, 0.5, b),),
    ),
    Case(
        "mask_as_a_number",
        "pytorch 195412",
        "a mask that is added as 0 and 1 is taken for one that hides",
        "(q: [n, h, s, d], k: [n, h, t, d], v: [n, h, t, d]) -> [n, h, s, d]:\n"
        "  scores = q @ rearrange(k, [n, h, t, d] -> [n, h, d, t]) / 3\n"
        "  seen = expand(insert_axis(iota(s), 1, t) >= insert_axis(iota(t), 0, s),\n"
        "                [s, t] -> [n, h, s, t])\n"
        "  return softmax(scores + f32(seen)) @ v",
        HEADS,
        lambda q, k, v: (_attention(q, k, v, 1 / 3, np.tri(5)),),
    ),
    Case(
        "one_convolution_for_two_norms",
        "pytorch 124808",
        "a norm is folded into a convolution that another norm reads too, or twice",
        "(x: [n, 4, s]) -> [n, 6, s], [n, 6, s], [n, 6, s]:\n"
        "  y = x |> conv: conv1d(6, 1)\n"
        "  return y |> one: batch_norm, y |> two: batch_norm, y",
        {
            "x": drawn("x", 3, 4, 7),
            "conv.weight": drawn("conv", 6, 4, 1),
            "conv.bias": drawn("conv.bias", 6),
            **NORMS,
        },
        _two_norms,
    ),
    Case(
        "norm_after_norm",
        "pytorch 181696",
        "a norm by fixed statistics is folded wrongly where another norm follows",
        "(x: [n, 6, s]) -> [n, 6, s]:\n"
        "  x = x |> one: batch_norm |> elu |> two: group_norm(2)\n"
        "  return log(abs(x) + 1)",
        {
            "x": drawn("x", 3, 6, 5),
            **{name: each for name, each in NORMS.items() if "running" not in name},
            **{name: each for name, each in NORMS.items() if "one.running" in name},
        },
        _norm_after_norm,
    ),
    Case(
        "part_of_a_norm",
        "pytorch 195582",
        "of a norm that is cut behind, memory is read that nobody wrote",
        "(x: [n, 6, s], w: [10, 4]) -> [n, 4]\n"
        "    where s >= 2:\n"
        "  y = rearrange(x |> one: batch_norm, [n, c, s] -> [n, c * s])\n"
        "  return y[:, :10] @ w",
        {
            "x": drawn("x", 3, 6, 5),
            "w": drawn("w", 10, 4),
            **{name: each for name, each in NORMS.items() if name.startswith("one")},
        },
        _norm_and_part,
    ),
    Case(
        "padded_sum",
        "pytorch 189895",
        "padding is fused into a sum in two steps, and what it puts before is lost",
        "(x: [n, d]) -> [n + 1], [n + 2]:\n"
        "  lengths = sum(x, 1)\n"
        "  return pad(cumsum(lengths, 0), 0, before=1), pad(lengths, 0, before=1, after=1)",
        {"x": np.ones((1, 16_384), np.float32)},
        lambda x: (
            np.pad(np.cumsum(x.sum(1)), (1, 0)),
            np.pad(x.sum(1), (1, 1)),
        ),
    ),
)
