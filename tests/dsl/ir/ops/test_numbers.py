"""Reference semantics that NumPy does not give: checked against other definitions."""

from math import erf, inf, nan
from typing import cast

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.ops import (
    Cast,
    Constant,
    Erf,
    Gather,
    Maximum,
    MaxPool,
    MaxPoolGradient,
    MaxPoolSelect,
    Minimum,
    RandomBits,
    ScatterAdd,
)
from meganeura_dsl.ir.ops.fused import CrossEntropy, Fused, LogSoftmax, SoftCrossEntropy, Softmax
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.ops.primitive.random_bits import threefry
from meganeura_dsl.ir.ops.primitive.windows import ELEMENTS_AT_ONCE, Windows
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import dim
from tests.samples import SAMPLES, Sample

CONVOLUTIONS = [sample for sample in SAMPLES if isinstance(sample.op, Convolution)]

# The limits of the approximations, both sides of them, and the ends of the number line.
NUMBERS = np.concatenate(
    [
        np.linspace(-7, 7, 2001),
        [0.0, -0.0, inf, -inf, 0.46875, np.nextafter(0.46875, 1), 4, np.nextafter(4, 5)],
        np.logspace(-300, 300, 61),
    ]
)


def test_the_error_function_in_double_precision() -> None:
    expected = np.array([erf(x) for x in NUMBERS])
    np.testing.assert_allclose(Erf().evaluate(NUMBERS), expected, rtol=5e-16, atol=0)


def test_the_error_function_in_single_precision() -> None:
    numbers = NUMBERS[np.abs(NUMBERS) < 1e30].astype(np.float32)
    expected = np.array([erf(float(x)) for x in numbers])
    result = Erf().evaluate(numbers)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=3e-7, atol=1e-44)


def test_the_error_function_of_many_numbers() -> None:
    many = np.tile(NUMBERS, 40)
    np.testing.assert_array_equal(Erf().evaluate(many), np.tile(Erf().evaluate(NUMBERS), 40))
    assert np.isnan(Erf().evaluate(np.array(nan)))


@pytest.mark.parametrize(
    ("key", "block", "words"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
    ids=["zeros", "ones", "pi"],
)
def test_threefry_gives_the_words_of_random123(
    key: tuple[int, int], block: tuple[int, int], words: tuple[int, int]
) -> None:
    """The known answers for Threefry-2x32 with 20 iterations that its authors publish."""
    first, second = (np.array([word], np.uint32) for word in block)
    found = threefry(np.array(key, np.uint32), first, second)
    assert (int(found[0][0]), int(found[1][0])) == words


FLOATS = np.array([1.9, -1.9, 0.5, -0.0, 3e9, -3e9, 5e9, inf, -inf, nan])


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (DType.I32, [1, -1, 0, 0, 2**31 - 1, -(2**31), 2**31 - 1, 2**31 - 1, -(2**31), 0]),
        (DType.U32, [1, 0, 0, 0, 3 * 10**9, 0, 2**32 - 1, 2**32 - 1, 0, 0]),
        (DType.BOOL, [1, 1, 1, 0, 1, 1, 1, 1, 1, 1]),
    ],
    ids=str,
)
def test_floats_truncate_and_saturate(dtype: DType, expected: list[int]) -> None:
    np.testing.assert_array_equal(Cast(dtype).evaluate(FLOATS), expected)


def test_integers_wrap_when_they_change_their_sign() -> None:
    numbers = np.array([-1, 5], np.int32)
    np.testing.assert_array_equal(Cast(DType.U32).evaluate(numbers), [2**32 - 1, 5])
    large = np.array([2**32 - 1, 5], np.uint32)
    np.testing.assert_array_equal(Cast(DType.I32).evaluate(large), [-1, 5])


def test_the_larger_of_anything_and_nan_is_nan() -> None:
    a, b = np.array([nan, 1.0]), np.array([1.0, nan])
    assert np.all(np.isnan(Maximum().evaluate(a, b)))
    assert np.all(np.isnan(Minimum().evaluate(a, b)))


def test_padding_never_wins() -> None:
    x = np.full((1, 1, 3), -1e30, np.float32)
    found, indices = MaxPool((2,), (1,), (1,)).evaluate(x)
    np.testing.assert_array_equal(found, np.full((1, 1, 4), -1e30, np.float32))
    np.testing.assert_array_equal(indices, [[[1, 0, 0, 0]]])


@pytest.mark.parametrize("sample", [each for each in SAMPLES if isinstance(each.op, MaxPool)])
def test_max_pooling_says_which_element_of_a_window_is_the_first_largest(sample: Sample) -> None:
    pool = cast("MaxPool", sample.op)
    (x,) = sample.operands
    found, indices = pool.evaluate(x)
    stride, padding = concrete_shape(pool.stride), concrete_shape(pool.padding)
    for at in np.ndindex(found.shape):
        window: list[float] = []
        for tap in np.ndindex(concrete_shape(pool.window)):
            axes = zip(at[2:], stride, tap, padding, strict=True)
            place = tuple(i * s + t - p for i, s, t, p in axes)
            inside = all(0 <= i < size for i, size in zip(place, x.shape[2:], strict=True))
            window.append(float(x[(*at[:2], *place)]) if inside else -inf)
        assert (found[at], indices[at]) == (max(window), window.index(max(window)))


@pytest.mark.parametrize(
    ("constant", "expected"),
    [
        (Constant(2, DType.F32), np.array(2.0)),
        (Constant(2.7, DType.I32), np.array(2)),
        (Constant(2, DType.BOOL), np.array(True)),  # noqa: FBT003 - it is the value
        (Constant(dim("n") - dim("n") + 3, DType.I32), np.array(3)),
    ],
    ids=str,
)
def test_a_constant_is_a_number_of_its_type(constant: Constant, expected: Array) -> None:
    value = constant.evaluate()
    assert value.dtype == expected.dtype
    assert value == expected


def test_random_bits_are_these_on_every_machine() -> None:
    """Each word depends on the stream, the counter and its own place alone."""
    counter = np.array([7, 11], np.uint32)
    words = [68674790, 1914421761, 2718676464, 4012030136, 560723347, 892389788]
    found = RandomBits(3, (2, 3)).evaluate(counter)
    np.testing.assert_array_equal(found, np.reshape(words, (2, 3)))
    np.testing.assert_array_equal(RandomBits(3, (4,)).evaluate(counter), words[:4])
    assert not np.any(RandomBits(4, (6,)).evaluate(counter) == words)
    assert not np.any(RandomBits(3, (6,)).evaluate(counter[::-1]) == words)


@pytest.mark.parametrize("wrong", [-1, 3])
def test_an_id_that_names_no_row_is_an_error(wrong: int) -> None:
    ids = np.array([0, wrong], np.int32)
    with pytest.raises(IndexError, match=f"id {wrong} is outside the 3 rows"):
        ScatterAdd(0, 3).evaluate(ids, np.ones((2, 2), np.float32))
    with pytest.raises(IndexError, match=f"id {wrong} is outside the 3 rows"):
        Gather(0).evaluate(np.ones((3, 2), np.float32), ids)


@pytest.mark.parametrize("op", [Softmax(0), LogSoftmax(0), SoftCrossEntropy(), CrossEntropy()])
def test_enormous_logits_overflow_nothing(op: Fused) -> None:
    logits = np.array([1e4, 1e4 - 1, -1e4], np.float32)
    operands = [logits, *([np.array(1, np.int32)] if isinstance(op, CrossEntropy) else [])]
    operands += [np.ones(3, np.float32)] if isinstance(op, SoftCrossEntropy) else []
    assert np.all(np.isfinite(op.evaluate(*operands)))


def test_batches_of_windows_stay_small_and_are_all_samples_once() -> None:
    windows = Windows((3, 3), (1, 1), (1, 1), (1, 1))
    for shape in ((5, 8, 300, 200), (7, 1, 4, 4), (3, 64, 400, 400)):
        batches = list(windows.batches(shape))
        assert [i for each in batches for i in range(each.start, each.stop)] == [*range(shape[0])]
        elements = shape[1] * 9 * shape[2] * shape[3]
        longest = max(each.stop - each.start for each in batches)
        assert longest == 1 or longest * elements <= ELEMENTS_AT_ONCE
        assert longest == shape[0] or (longest + 1) * elements > ELEMENTS_AT_ONCE


@pytest.mark.parametrize("sample", CONVOLUTIONS, ids=lambda sample: sample.name)
def test_a_convolution_in_parts_is_the_whole(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sample.op.evaluate(*sample.operands)
    monkeypatch.setattr("meganeura_dsl.ir.ops.primitive.windows.ELEMENTS_AT_ONCE", 1)
    parts = sample.op.evaluate(*sample.operands)
    np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-5)


def test_a_window_may_have_more_places_than_a_byte_counts() -> None:
    pool = (17, 17), (1, 1), (0, 0)
    x = np.arange(17 * 18, dtype=np.float32).reshape(1, 1, 17, 18)
    (_, indices), dy = MaxPool(*pool).evaluate(x), np.array([[[[2, 5]]]], np.float32)
    np.testing.assert_array_equal(indices, [[[[288, 288]]]])
    expected = np.zeros_like(x)
    expected[0, 0, 16, 16:] = 2, 5
    gradient = MaxPoolGradient(*pool, (17, 18))
    np.testing.assert_array_equal(gradient.evaluate(indices, dy), expected)
    np.testing.assert_array_equal(MaxPoolSelect(*pool).evaluate(indices, x), x[..., 16:, 16:])
