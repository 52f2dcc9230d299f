"""Mistakes of single functions: indices, orders, reductions, rounding and element types."""

import numpy as np

from meganeura_dsl.ir.graph import Array
from tests.silent_bugs.case import INF, NAN, Case, drawn, floats, normed, wholes


def _added(x: Array, ids: Array) -> tuple[Array, ...]:
    doubled = x.copy()
    np.add.at(doubled, ids, x[ids])
    return (doubled,)


def _halved(ids: Array, source: Array) -> tuple[Array, ...]:
    summed = np.zeros((3, source.shape[1]))
    np.add.at(summed, ids, source * 2)
    return summed / 2, summed / 2


OFFSET = 10_000 + np.arange(24, dtype=np.float32).reshape(3, 8) / 8

CASES = (
    Case(
        "rows_named_twice",
        "pytorch 174074, 138908",
        "a row that is named twice is added to what was already added",
        "(x: [n, d], ids: i32[k]) -> [n, d] = x + scatter_add(ids, gather(x, ids), n)",
        {"x": drawn("x", 5, 3), "ids": wholes(0, 0, 3, 4, 3, 0)},
        _added,
    ),
    Case(
        "sum_that_is_returned_twice",
        "pytorch 108963",
        "of two equal results of a scatter the second is 0",
        "(ids: i32[k], source: [k, d]) -> [3, d], [3, d]:\n"
        "  y = scatter_add(ids, source * 2, 3) / 2\n"
        "  return y, y",
        {"ids": wholes(0, 2, 2, 0), "source": drawn("source", 4, 2)},
        _halved,
    ),
    Case(
        "part_of_a_sorted_row",
        "pytorch 182343",
        "a search in a part of a row begins where the whole row does",
        "(bounds: [n], x: [k]) -> i32[k]\n"
        "    where n >= 2:\n"
        "  below = insert_axis(bounds[1:], 0, k) <= insert_axis(x, 1, n - 1)\n"
        "  return sum(i32(below), 1)",
        {"bounds": floats(0, 3, 7, 12), "x": floats(*range(12))},
        lambda bounds, x: (np.searchsorted(bounds[1:], x, side="right"),),
        turns=False,
    ),
    Case(
        "largest_of_three_axes",
        "pytorch 113168",
        "the place of the largest over several axes counts one axis only",
        "(x: [a, b, c]) -> i32[], i32[]:\n"
        "  flat = rearrange(x, [a, b, c] -> [a * b * c])\n"
        "  return argmax(flat, 0), argmin(flat, 0)",
        {"x": drawn("x", 9, 2, 7)},
        lambda x: (np.argmax(x), np.argmin(x)),
    ),
    Case(
        "place_of_nan",
        "pytorch 118358",
        "the place of the largest passes over a NaN",
        "(x: [n, d]) -> i32[n], [n], [n]:\n  return argmax(x, 1), max(x, 1), min(x, 1)",
        {"x": floats([1, NAN, 3, 2], [1, 2, 3, 0], [INF, 1, NAN, NAN], [-INF, -INF, -INF, -INF])},
        lambda x: (np.argmax(x, 1), np.max(x, 1), np.min(x, 1)),
    ),
    Case(
        "place_among_one",
        "pytorch 94165",
        "the place of the only element is of another element type, and sums with it go wrong",
        "(x: [n, d]) -> i32[n], [n]:\n  return argmax(x, 1) + 1, f32(argmax(x, 1)) * 0.5 + x[:, 0]",
        {"x": drawn("x", 4, 1)},
        lambda x: (np.argmax(x, 1) + 1, x[:, 0]),
    ),
    Case(
        "running_sum_of_infinities",
        "pytorch 132107",
        "a running sum of infinities is NaN in places",
        "(x: [n]) -> [n], [n]:\n  return cumsum(x, 0), cummax(x, 0)",
        {"x": np.full(300, INF, np.float32)},
        lambda x: (np.cumsum(x), np.maximum.accumulate(x)),
    ),
    Case(
        "order_of_equals",
        "pytorch 174459",
        "equal elements change places in an order",
        "(x: [n, d]) -> i32[n, d], i32[n, d]:\n"
        "  return argsort(x, 1), argsort(x, 1, descending=true)",
        {"x": np.round(drawn("x", 8, 13))},
        lambda x: (np.argsort(x, 1, kind="stable"), np.argsort(-x, 1, kind="stable")),
    ),
    Case(
        "zeros_of_two_signs",
        "pytorch 185765",
        "the two zeros are ordered where the largest is found, and not where its place is",
        "(x: [n, d]) -> i32[n], i32[n], bool[n]:\n"
        "  return argmax(x, 1), argmin(x, 1), max(x, 1) == min(x, 1)",
        {"x": floats([-0.0, 0.0, -0.0], [0.0, -0.0, 0.0])},
        lambda x: (np.argmax(x, 1), np.argmin(x, 1), np.max(x, 1) == np.min(x, 1)),
    ),
    Case(
        "deviation_beside_a_large_mean",
        "pytorch 55044",
        "a variance is a difference of two large numbers",
        "(x: [n, 8]) -> [n], [n, 8]:\n  return variance(x, 1), x |> l: layer_norm",
        {"x": OFFSET, "l.weight": np.ones(8, np.float32), "l.bias": np.zeros(8, np.float32)},
        lambda **fed: (np.var(fed["x"], 1), normed(fed["x"], (1,))),
        single=1e-3,
    ),
    Case(
        "logarithm_of_a_large_number",
        "pytorch 113151",
        "the inverse of sinh is infinite for large negative numbers",
        "(x: [n]) -> [n] = sign(x) * log(abs(x) + sqrt(x * x + 1))",
        {"x": floats(487_875.875, -956_238.8125, 630_736, -161_079.578, 0, -0.5, 1e18)},
        lambda x: (np.arcsinh(x),),
    ),
    Case(
        "sum_with_zero",
        "pytorch 189799",
        "-0 + 0 is folded to -0, whose reciprocal is the other infinity",
        "(x: [n]) -> [n], [n]:\n  return 1 / (x + 0), 1 / (0.0 + x)",
        {"x": floats(-0.0, 0.0, 2, -4)},
        lambda x: (1 / (x + 0), 1 / (x + 0)),
        not_promised=dict.fromkeys(("optimized", "xla", "wgpu"), "a zero may lose its sign"),
    ),
    Case(
        "quotient_that_is_whole",
        "pytorch 177740, 197895",
        "a quotient that is a whole number is rounded down to the one below",
        "(x: [n], y: [n]) -> [n] = floor(x / y)",
        {
            "x": floats(148, 1073, 2112, -148, 9, 1e6, INF, -INF, 14.999999),
            "y": floats(37, 37, 33, 37, -3, 1000, 1, 1, 3),
        },
        lambda x, y: (np.floor(x / y),),
    ),
    Case(
        "remainders_of_negative_numbers",
        "pytorch 184408",
        "division rounds to 0 where it ought to round down",
        "(x: i32[n]) -> i32[n], i32[n]:\n  return x // 3, x % 3",
        {"x": wholes(-7, -6, -1, 0, 1, 5, 6, -2_147_483_648, 2_147_483_647)},
        lambda x: (x // 3, x % 3),
    ),
    Case(
        "whole_part",
        "pytorch 171190",
        "a conversion to an element type and back is dropped",
        "(x: [n]) -> [n], [n]:\n  return f32(i32(x)), f32(bool(x))",
        {"x": floats(1.75, -1.75, 0.25, -0.25, 0, 3, 1e9)},
        lambda x: (np.trunc(x), (x != 0).astype(float)),
    ),
    Case(
        "rounding_to_half",
        "pytorch 191433",
        "a value that is rounded to fewer bits on the way is not",
        "(x: [n]) -> [n] = f32(f16(x * 1.001)) * 2",
        {"x": drawn("x", 50)},
        lambda x: (x * np.float32(1.001) * 2,),
        close=2.0**-10,
        single=2.0**-10,
    ),
)
