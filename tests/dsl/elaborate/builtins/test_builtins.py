"""Every function and operator of the language gives what NumPy gives."""

import re
from math import erf

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.builtins.builtins import BUILTINS
from meganeura_dsl.elaborate.declarations.models import Inputs, elaborate_block
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import RandomBits
from meganeura_dsl.ir.reserved_names import COUNTER
from meganeura_dsl.ir.types import DType, TensorType
from tests.folded import each_of
from tests.samples import dtype_of

RANDOM = np.random.default_rng(0)
FEEDS: dict[str, Array] = {
    "x": RANDOM.uniform(0.2, 2, (2, 3, 4)).astype(np.float32),
    "y": RANDOM.uniform(-2, 2, (2, 3, 4)).astype(np.float32),
    "row": RANDOM.uniform(-2, 2, 4).astype(np.float32),
    "ids": np.array([2, 0, 2, 1], np.int32),
    "whole": np.array([[5, -3, 0], [2, 9, -7]], np.int32),
    "image": RANDOM.uniform(-2, 2, (2, 4, 5, 6)).astype(np.float32),
    "kernel": RANDOM.uniform(-2, 2, (6, 2, 3, 2)).astype(np.float32),
    "back": RANDOM.uniform(-2, 2, (4, 3, 3, 2)).astype(np.float32),
}
X, Y, ROW, IDS, WHOLE, IMAGE, KERNEL, BACK = FEEDS.values()
ELSEWHERE = {
    "kaiming_uniform",
    "normal",
    "random_normal",
    "random_uniform",
    "sinusoids",
    "sort",
    "top_k",
    "uniform",
    "weights",
    "example_of",  # tests/runtime/io/data/test_ragged_split.py
    "offsets",
}
"""Functions of random numbers, initial values and layers, tested with those, and of two results."""


def convolved(x: Array, weight: Array, stride: int, pad: int, dilation: int, groups: int) -> Array:
    """A convolution, element by element."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    n, c, *lengths = x.shape
    out, per, *taps = weight.shape
    sizes = [
        (length - dilation * (k - 1) - 1) // stride + 1
        for length, k in zip(lengths, taps, strict=True)
    ]
    y = np.zeros((n, out, *sizes))
    for place in np.ndindex(n, out, *sizes):
        image, channel, row, column = place
        first = channel // (out // groups) * (c // groups)
        for i, a, b in np.ndindex(per, *taps):
            at = row * stride + a * dilation, column * stride + b * dilation
            y[place] += x[(image, first + i, *at)] * weight[channel, i, a, b]
    return y


def transposed(
    x: Array, weight: Array, stride: int, pad: int, dilation: int, groups: int, extra: int
) -> Array:
    """Each element of x adds its multiple of the kernel, which is then cut by `pad`."""
    n, c, *lengths = x.shape
    _, per, *taps = weight.shape
    sizes = [
        (length - 1) * stride + dilation * (k - 1) + 1 + extra
        for length, k in zip(lengths, taps, strict=True)
    ]
    y = np.zeros((n, per * groups, *sizes))
    for image, channel, row, column in np.ndindex(*x.shape):
        first = channel // (c // groups) * per
        for o, a, b in np.ndindex(per, *taps):
            at = row * stride + a * dilation, column * stride + b * dilation
            y[(image, first + o, *at)] += x[image, channel, row, column] * weight[channel, o, a, b]
    ends = [slice(pad, size - pad) for size in sizes]
    return y[:, :, ends[0], ends[1]]


def recurred(a: Array, b: Array) -> Array:
    """h[t] = a[t] h[t - 1] + b[t]."""
    found = [np.zeros_like(b[0])]
    for factor, term in zip(a, b, strict=True):
        found.append(factor * found[-1] + term)
    return np.array(found[1:])


def extremes(of: np.ufunc, ids: Array, updates: Array, size: int) -> Array:
    """The extreme of the updates of each row, 0 where there are none."""
    rows = [updates[ids == row] for row in range(size)]
    return np.array([of.reduce(row) if row.size else 0 for row in rows])


def largest(x: Array, window: int, stride: int, pad: int) -> Array:
    around = ((0, 0), (0, 0), (pad, pad), (pad, pad))
    padded = np.pad(x, around, constant_values=-np.inf)
    tiles = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (2, 3))
    return tiles[:, :, ::stride, ::stride].max((4, 5))


def added(ids: Array, updates: Array, size: int) -> Array:
    total = np.zeros((size, *updates.shape[1:]))
    np.add.at(total, ids, updates)
    return total


CASES: dict[str, Array | float] = {
    # functions of one tensor, or of a number
    "sqrt(x)": np.sqrt(X),
    "exp(y)": np.exp(Y),
    "expm1(y)": np.expm1(Y),
    "log(x)": np.log(X),
    "log1p(x)": np.log1p(X),
    "logistic(y)": 1 / (1 + np.exp(-Y)),
    "abs(y)": np.abs(Y),
    "floor(y)": np.floor(Y),
    "sin(y)": np.sin(Y),
    "cos(y)": np.cos(Y),
    "tanh(y)": np.tanh(Y),
    "erf(y)": np.vectorize(erf)(Y),
    "stop_gradient(y)": Y,
    'show(y, "after norm")': Y,
    "y * sqrt(3)": Y * 3**0.5,
    "y * (exp(1.5) + log(3) + abs(-2) + sin(2) + cos(2) + tanh(2) + erf(1))": Y
    * (np.exp(1.5) + np.log(3) + 2 + np.sin(2) + np.cos(2) + np.tanh(2) + erf(1)),
    "y * (expm1(0.1) + log1p(0.2) + logistic(0.0))": Y * (np.expm1(0.1) + np.log1p(0.2) + 0.5),
    # of two
    "maximum(x, y)": np.maximum(X, Y),
    "minimum(y, 0.5)": np.minimum(Y, 0.5),
    "maximum(0.5, row)": np.maximum(0.5, ROW),
    "minimum(x, row)": np.minimum(X, ROW),
    "x + y": X + Y,
    "row - y": ROW - Y,
    "y - 3": Y - 3,
    "3 - y": 3 - Y,
    "x * row": X * ROW,
    "y / x": Y / X,
    "2 / x": 2 / X,
    "-y": -Y,
    "y ** 2": Y**2,
    "y ** 3": Y**3,
    "x ** 0.5": np.sqrt(X),
    "x ** 1.5": X**1.5,
    "x ** -2.5": X**-2.5,
    "(1 + 0.1 * y) ** 65": (1 + 0.1 * Y) ** 65,
    "(0.1 * y) ** 65 * 10": 10 * (0.1 * Y) ** 65,
    "x ** y": X**Y,
    "x ** row": X**ROW,
    "y ** round(3 * y)": Y ** np.round(3 * Y),
    "(0 * y) ** round(x)": 0.0 ** np.round(X),
    "1.5 ** y": 1.5**Y,
    "x ** -1": 1 / X,
    "x ** -2": 1 / X**2,
    "rearrange(y, [a, b, c] -> [a * b, c]) @ rearrange(x, [a, b, c] -> [c, a * b])": Y.reshape(6, 4)
    @ X.reshape(6, 4).T,
    "y @ rearrange(x, [a, b, c] -> [a, c, b])": Y @ X.transpose(0, 2, 1),
    # comparisons, choices, conversions
    "f32(y < x)": Y < X,
    "f32(y <= y)": np.ones(Y.shape),
    "f32(whole == 2)": WHOLE == 2,
    "f32(whole != 2)": WHOLE != 2,
    "f32(y > 0.5)": Y > 0.5,
    "f32(0 >= y)": Y <= 0,
    "f32(not (y > 0 and x < 1))": ~((Y > 0) & (X < 1)),
    "f32(y > 0 or x < 1)": (Y > 0) | (X < 1),
    "where(y > 0, x, y)": np.where(Y > 0, X, Y),
    "where(y > 0, 1, y)": np.where(Y > 0, 1, Y),
    "where(y > 0, x, 0)": np.where(Y > 0, X, 0),
    "where(y > 0, 2, 3)": np.where(Y > 0, 2, 3),
    "where(row > 0, x, y)": np.where(ROW > 0, X, Y),
    "where(y > 0, row, x)": np.where(Y > 0, ROW, X),
    "f32(i32(y * 3))": np.trunc(Y * 3),
    "f32(u32(x * 3))": np.trunc(X * 3),
    "f32(f16(y))": Y.astype(np.float16),
    "f16(y) + x": Y.astype(np.float16).astype(np.float32) + X,
    "f32(x > f16(y))": Y.astype(np.float16).astype(np.float32) < X,
    "where(y > 0, x, f16(y))": np.where(Y > 0, X, Y.astype(np.float16)),
    "concat(f16(x), y, axis=0)": np.concatenate([X.astype(np.float16).astype(np.float32), Y]),
    "f16(whole) @ x[0]": WHOLE @ X[0],
    "f32(bool(whole))": WHOLE != 0,
    # reductions
    "sum(y)": Y.sum(),
    "sum(y, -1)": Y.sum(-1),
    "sum(y, 0, 2)": Y.sum((0, 2)),
    "sum(y, 2, 0)": Y.sum((0, 2)),
    "sum(y, [a, b, c] -> [b])": Y.sum((0, 2)),
    "mean(y)": Y.mean(),
    "mean(y, 1)": Y.mean(1),
    "mean(y > 0, 1)": (Y > 0).mean(1),
    "max(y)": Y.max(),
    "max(y, 0, 1)": Y.max((0, 1)),
    "min(y, -1)": Y.min(-1),
    "min(y)": Y.min(),
    "variance(y)": Y.var(),
    "variance(y, 0, 2)": Y.var((0, 2)),
    "f32(argmax(y))": Y.argmax(-1),
    "f32(argmax(y, 0))": Y.argmax(0),
    "f32(argmax(zeros([3, 2]), 0))": np.zeros(2),
    "f32(argmin(y))": Y.argmin(-1),
    "f32(argmin(y, axis=0))": Y.argmin(0),
    "f32(argmin(i32(y), 0))": Y.astype(np.int32).argmin(0),
    "f32(argmin(zeros([3, 2]), 0))": np.zeros(2),
    "y * sum([1, 2, 3]) + max(1, 4) - min(2, 7)": Y * 6 + 2,
    # movement
    "rearrange(y, [a, b, c] -> [c, a, b])": Y.transpose(2, 0, 1),
    "rearrange(y, [a, b, c * 2] -> [a, 2, b * c])": Y.reshape(2, 3, 2, 2)
    .transpose(0, 3, 1, 2)
    .reshape(2, 2, 6),
    "expand(row, [c] -> [3, c, 2])": np.broadcast_to(ROW[None, :, None], (3, 4, 2)),
    "insert_axis(y, 1, 5)": np.repeat(Y[:, None], 5, 1),
    "insert_axis(y, -1, 2)": np.repeat(Y[..., None], 2, -1),
    "insert_axis(y, 3, 2)": np.repeat(Y[..., None], 2, -1),
    "repeat(y, 1, 2)": np.repeat(Y, 2, 1),
    "repeat(row, 0, 3)": np.repeat(ROW, 3),
    "concat(x, y, y, axis=1)": np.concatenate([X, Y, Y], 1),
    "concat(row, axis=0)": ROW,
    "pad(y, 1, 2, 3)": np.pad(Y, ((0, 0), (2, 3), (0, 0))),
    "pad(y, -1, 1)": np.pad(Y, ((0, 0), (0, 0), (1, 0))),
    "pad(y, axis=0, after=1)": np.pad(Y, ((0, 1), (0, 0), (0, 0))),
    "reverse(y, 1)": Y[:, ::-1],
    "reverse(y, -1)": Y[..., ::-1],
    "y[0]": Y[0],
    "y[1, 2]": Y[1, 2],
    "y[-1, :, 1:3]": Y[-1, :, 1:3],
    "y[:, 1:]": Y[:, 1:],
    "y[:, :2, -1]": Y[:, :2, -1],
    # indexing and creation
    "gather(y, ids, 1)": Y[:, IDS],
    "gather(rearrange(y, [a, b, c] -> [b, a, c]), ids)": Y.transpose(1, 0, 2)[IDS],
    "scatter_add(ids, row, 5)": added(IDS, ROW, 5),
    "scatter_add(ids, rearrange(y, [a, b, c] -> [c, a, b]), 4, 0)": added(
        IDS, Y.transpose(2, 0, 1), 4
    ),
    "scatter_add(ids, y, 4, axis=2)": added(IDS, Y.transpose(2, 0, 1), 4).transpose(1, 2, 0),
    "f32(iota(5))": np.arange(5),
    "zeros([2, 3])": np.zeros((2, 3)),
    "ones([2])": np.ones(2),
    "full([2, 2], 1.5)": np.full((2, 2), 1.5),
    "f32(any(y > 1, 1))": np.any(Y > 1, 1).astype(np.float64),
    "f32(all(y > -1, 0, 2))": np.all(Y > -1, (0, 2)).astype(np.float64),
    "sign(y)": np.sign(Y),
    "round(3 * y)": np.round(3 * Y),
    # what accumulates and sorts
    "cumsum(y, 1)": Y.cumsum(1),
    "cumprod(y, -1)": Y.cumprod(-1),
    "cummax(y, 0)": np.maximum.accumulate(Y, 0),
    "cummin(y, 2)": np.minimum.accumulate(Y, 2),
    "linear_recurrence(row, row, 0)": recurred(ROW, ROW),
    "f32(argsort(y))": Y.argsort(-1, kind="stable"),
    "f32(argsort(y, 1, descending=true))": (-Y).argsort(1, kind="stable"),
    "roll(y, 1, 2)": np.roll(Y, 2, 1),
    "roll(y, 1, -1)": np.roll(Y, -1, 1),
    "roll(y, 2, 11)": np.roll(Y, 11, 2),
    "roll(y, 1, ids[3])": np.roll(Y, 1, 1),
    "one_hot(ids, 3)": np.eye(3)[IDS],
    "scatter_max(ids, row, 5, 0)": extremes(np.maximum, IDS, ROW, 5),
    "scatter_min(ids, row, 5, 0)": extremes(np.minimum, IDS, ROW, 5),
    # windows
    "conv(image, kernel, groups=2)": convolved(IMAGE, KERNEL, 1, 0, 1, 2),
    "conv(image, kernel, 2, 1, 1, 2)": convolved(IMAGE, KERNEL, 2, 1, 1, 2),
    "conv(image, kernel, stride=1, pad=2, dilation=2, groups=2)": convolved(
        IMAGE, KERNEL, 1, 2, 2, 2
    ),
    "conv_transpose(image, back)": transposed(IMAGE, BACK, 1, 0, 1, 1, 0),
    "conv_transpose(image, back, 2, 1, 1, 2, 1)": transposed(IMAGE, BACK, 2, 1, 1, 2, 1),
    "conv_transpose(image, back, stride=3, dilation=2, groups=4, output_pad=2)": transposed(
        IMAGE, BACK, 3, 0, 2, 4, 2
    ),
    "window_max(image, 2)": largest(IMAGE[:, :, :4], 2, 2, 0),
    "window_max(image, 3, 1, 1)": largest(IMAGE, 3, 1, 1),
    "window_max(image, k=3, stride=2, pad=1)": largest(IMAGE, 3, 2, 1),
    "row * constant([1.0, 2, -3, 4])": ROW * [1, 2, -3, 4],
    "row + sum(constant([[0.5, 0.5], [0.5, 2.0], [7.0, 0.0]]), 1)[1]": ROW + 2.5,
    "f32(constant([[1, 2, 3, 4]])[0] // 2 + ids)": np.array([2, 1, 3, 3]),
    "where(constant([true, false, false, true]), row, 0)": ROW * [1, 0, 0, 1],
    "constant([[[1.0]], [[2.0]]])": np.array([[[1]], [[2]]]),
    # facts about tensors, numbers
    "row * rank(y)": ROW * 3,
    "row * (size(y, 1) + 10 * size(y, -1))": ROW * 43,
    "row * sum(shape(y))": ROW * 9,
    "row * product(shape(y))": ROW * 24,
    "row * len([5, 6, 7])": ROW * 3,
    "row * len(shape(y))": ROW * 3,
    "row * int(-2.7)": ROW * -2,
    "row * int(2.7)": ROW * 2,
    "row * (1 if is_integer(ids) else 2)": ROW,
    "row * (1 if is_integer(x) else 2)": ROW * 2,
    "row * (7 // 2 + 7 % 4 + (-7) // 2 + (-7) % 4)": ROW * (3 + 3 - 4 + 1),
    "row * (2 ** 3 + 2 ** -1)": ROW * 8.5,
    "grad(sum(row ** 3), row)": 3 * ROW**2,
    "row * ([4, 5] + [6])[2] * [4, 5][-1]": ROW * 30,
}


def value_of(expression: str) -> Array:
    """Returns the result for `FEEDS` of a block that returns an expression."""
    used = [name for name in FEEDS if re.search(rf"\b{name}\b", expression)]
    types = [TensorType(dtype_of(FEEDS[name]), FEEDS[name].shape) for name in used]
    inputs = ", ".join(
        f"{name}: {'' if each.dtype is DType.F32 else each.dtype.value}{list(each.shape)}"
        for name, each in zip(used, types, strict=True)
    )
    text = f"block P()({inputs}):\n  return {expression}\n"
    module = Linker(lambda _: None, Sink()).link(Source("p.mgn", text))
    graph = elaborate_block(
        module, module.blocks["P"], config={}, inputs=Inputs(tuple(types)), training=False
    ).graph
    feeds = {name: array for name, array in FEEDS.items() if name in used}
    return evaluate(graph, feeds).outputs["output"]


@each_of("expression", CASES)
def test_it_is_numpy_s(expression: str) -> None:
    found = value_of(expression)
    expected = np.asarray(CASES[expression], np.float64)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, 2e-6, 2e-6)


def test_every_function_is_compared() -> None:
    called = {name for case in CASES for name in re.findall(r"(\w+)\(", case)}
    assert called & BUILTINS.keys() == BUILTINS.keys() - ELSEWHERE


OPTIONS: dict[str, dict[str, str]] = {
    "conv(image, kernel": {"stride": "3", "pad": "4", "dilation": "2", "groups": "2"},
    "conv_transpose(image, back": {
        "stride": "3", "pad": "1", "dilation": "2", "groups": "2", "output_pad": "1",
    },
    "window_max(image": {"k": "3", "stride": "2", "pad": "1"},
    "pad(y": {"axis": "1", "before": "2", "after": "3"},
    "roll(y": {"axis": "2", "by": "3"},
    "repeat(y": {"axis": "1", "times": "2"},
    "insert_axis(y": {"axis": "1", "size": "5"},
    "gather(y, ids": {"axis": "1", "batch": "0"},
    "scatter_add(ids, y": {"size": "6", "axis": "2", "batch": "0"},
    "scatter_max(ids, y": {"size": "6", "empty": "0.5", "axis": "2", "batch": "0"},
    "scatter_min(ids, y": {"size": "6", "empty": "0.5", "axis": "2", "batch": "0"},
    "argsort(y": {"axis": "1", "descending": "true"},
    "full(": {"shape": "[2, 3]", "value": "1.5"},
}  # fmt: skip
"""Calls, and the options that may follow by name or, in this order, without."""


@pytest.mark.parametrize("call", OPTIONS)
def test_an_option_is_the_same_by_name_and_by_place(call: str) -> None:
    options = OPTIONS[call]
    named = [f"{name}={value}" for name, value in options.items()]
    expected = value_of(f"{call}, {', '.join(named)})".replace("(,", "("))
    for count in range(1, len(options) + 1):
        given = ", ".join((call, *[*options.values()][:count], *named[count:]))
        np.testing.assert_array_equal(value_of(f"{given})".replace("(,", "(")), expected)


def test_every_option_is_given_by_place() -> None:
    given = {call.partition("(")[0]: tuple(options) for call, options in OPTIONS.items()}
    several = {name: each.named for name, each in BUILTINS.items() if len(each.named) > 1}
    assert {name: several[name] for name in several.keys() - ELSEWHERE} == given


def drawn(text: str, **given: Array) -> list[Array]:
    """Returns the result of a block without inputs with seed 5, in step 7."""
    module = Linker(lambda _: None, Sink()).link(Source("net.mgn", text))
    graph = elaborate_block(
        module, module.blocks["Net"], config={}, inputs=Inputs(()), training=False
    ).graph
    feeds = {COUNTER: np.array([5, 7], np.uint32)}
    return [*evaluate(graph, {**feeds, **given}).outputs.values()]


def test_no_two_draws_are_the_same() -> None:
    """Nor those of one formula, which else has one value where it is given the same."""
    text = """
def noise(n) = random_uniform([n]) - 1 / 2
def half(n) = n // 2

block Net()() -> [9], [9], [9], [9], [9, 3]:
  scan t in 0..3:
    y[:, t] = noise(9) + half(9) - 4
  return noise(9), noise(9), random_uniform([9]), random_uniform([9]), y
"""
    *once, iterations = drawn(text)
    several = np.stack([*once, *iterations.T])
    assert len(np.unique(several)) == 9 * 7


@pytest.mark.parametrize("word", [0, 1, 2**32 - 129, 2**32 - 128, 2**32 - 1])
def test_random_numbers_are_in_their_range_for_every_word(
    monkeypatch: pytest.MonkeyPatch, word: int
) -> None:
    """Uniform ones are below 1, though words that large are 2**32 in single precision."""
    monkeypatch.setattr(RandomBits, "evaluate", lambda op, _: np.full(op.shape, word, np.uint32))
    text = "block Net()() -> [2], [2]:\n  return random_uniform([2]), random_normal([2])\n"
    uniform, normal = drawn(text)
    wanted = min(np.float32(word) / np.float32(2**32), np.float32(1 - 2**-24))
    np.testing.assert_array_equal(uniform, wanted)
    assert 0 <= uniform[0] < 1
    radius = np.sqrt(-2 * np.log1p(-np.float64(wanted)))
    np.testing.assert_allclose(normal, radius * np.cos(2 * np.pi * wanted), 1e-5, 1e-4)


@pytest.mark.parametrize(
    ("size", "found"),
    [
        ("floor(7 * share)", 5),
        ("round(7 * share)", 5),
        ("int(7 * share)", 5),
        ("7 * share // 1", 5),
        ("7 * share // 0.5", 10),
        ("floor(share - 3) + 4", 1),
        ("floor(7)", 7),
    ],
)
def test_a_number_that_is_rounded_is_a_size(size: str, found: int) -> None:
    text = f"block Net(share: real = 0.75)() -> [{size}]:\n  return random_uniform([{size}])\n"
    (value,) = drawn(text)
    assert value.shape == (found,)


@pytest.mark.parametrize("given", ["1e300 * 1e300", '"x"', "true"])
def test_what_cannot_be_rounded_is_refused(given: str) -> None:
    result = pipeline.check(
        Source("net.mgn", f"model net = linear(floor({given}))\n"), lambda _: None
    )
    assert [report.code for report in result.reports] == ["E0203"]
