"""Quantization rounds to levels once: what is on them stays, and is never far from what was."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.quantization import Quantization
from tests.effort import effort

LARGEST = float(np.float32(1e30))
NUMBERS = st.floats(-LARGEST, LARGEST, width=32).map(lambda x: x if abs(x) > 1e-30 else 0.0)
TENSORS = arrays(np.float32, array_shapes(min_dims=2, max_dims=4, max_side=9), elements=NUMBERS)


def rounded(how: Quantization, array: Array) -> Array:
    return how.dequantize(*how.quantize(array), array.shape)


@pytest.mark.parametrize("bits", [4, 8])
@settings(max_examples=effort(30, 1000))
@given(TENSORS, st.booleans())
def test_what_is_quantized_is_quantized_to_itself(
    bits: int,
    array: Array,
    by_twos: bool,  # noqa: FBT001
) -> None:
    length = array[0].size
    how = Quantization(bits, 2 if by_twos and length % 2 == 0 else 0)
    once = how.quantize(array)
    assert [each.shape for each in once] == [how.words(array.shape), how.scales(array.shape)]
    levels = how.dequantize(*once, array.shape)
    again = how.quantize(levels)
    assert all(map(np.array_equal, once, again))
    assert how.represents(levels)


@pytest.mark.parametrize("bits", [4, 8])
@settings(max_examples=effort(30, 1000))
@given(TENSORS)
def test_no_number_is_further_than_half_a_level_but_at_the_end(bits: int, array: Array) -> None:
    how = Quantization(bits)
    _, scales = how.quantize(array)
    off = np.abs(rounded(how, array) - array).reshape(len(array), -1)
    # With 4 bits the levels end at 7 on one side, and the greatest magnitude may be there, too.
    assert (off <= np.abs(scales) * (0.501 if bits == 8 else 1.001)).all()


def test_the_levels_are_those_of_ggml() -> None:
    """The reference quantizers of Q8_0 and Q4_0 (ggml-quants.c), written out."""
    random = np.random.default_rng(0)
    array = random.normal(size=(64, 32)).astype(np.float32)
    largest = np.abs(array).max(axis=1)
    scale8 = (largest / 127).astype(np.float16).astype(np.float32)
    found8 = rounded(Quantization(8, 32), array)
    np.testing.assert_allclose(found8, np.rint(array / scale8[:, None]) * scale8[:, None], 2e-6)
    at = np.abs(array).argmax(axis=1)
    scale4 = (array[np.arange(64), at] / -8).astype(np.float16).astype(np.float32)
    levels = np.clip(np.floor(array / scale4[:, None] + 8.5), 0, 15) - 8
    np.testing.assert_allclose(
        rounded(Quantization(4, 32), array), levels * scale4[:, None], rtol=2e-6
    )


def test_numbers_lie_in_words_from_the_lowest_bits_on() -> None:
    words, scales = Quantization(8).quantize(np.array([[127, -127, 0, 1, 2]], np.float32))
    assert words.tolist() == [[0x81_80_01_FF, 0x82]]
    assert scales.tolist() == [[1.0]]
    words, scales = Quantization(4).quantize(np.array([[-8, 7, 0]], np.float32))
    assert (words.tolist(), scales.tolist()) == ([[0x8F0]], [[1.0]])


def test_a_group_of_zeros_stays_zeros() -> None:
    array = np.array([[0, 0, 127, -127]], np.float32)
    assert rounded(Quantization(8, 2), array).tolist() == array.tolist()


def test_groups_divide_rows() -> None:
    with pytest.raises(ValueError, match="a row of 6 has no whole groups of 4"):
        Quantization(8, 4).quantize(np.zeros((2, 6), np.float32))


def test_another_number_is_no_level() -> None:
    levels = rounded(Quantization(8), np.array([[1.0, 0.3]], np.float32))
    assert not Quantization(8).represents(levels + np.array([[0, 1e-3]], np.float32))


@pytest.mark.parametrize("bits", [4, 8])
def test_levels_of_given_scales_stay_what_they_are(bits: int) -> None:
    """Also those that end before the last level, or at the lowest, with scales of 24 bits."""
    random = np.random.default_rng(0)
    half = 1 << (bits - 1)
    levels = random.integers(-half, half // 2, (6, 5, 8))
    scales = random.normal(size=(6, 1)).astype(np.float32)
    array = (levels * scales[:, :, None]).astype(np.float32)
    assert not Quantization(bits).represents(array)
    how = Quantization(bits, given=scales)
    assert how.represents(array)
    words, found = how.quantize(array)
    np.testing.assert_array_equal(found, scales)
    np.testing.assert_array_equal(how.dequantize(words, found, array.shape), array)
    other = array + random.normal(size=array.shape).astype(np.float32)
    assert all(map(np.array_equal, how.quantize(other), Quantization(bits).quantize(other)))
