"""Initial values: what they depend on, and their distributions."""

from hashlib import sha256

import numpy as np
import pytest

from meganeura_dsl.ir.initializers import (
    Full,
    Initializer,
    KaimingUniform,
    Normal,
    Ones,
    Sinusoids,
    Uniform,
    Zeros,
    fits,
    holds,
    sample,
)
from meganeura_dsl.ir.types import DType
from tests.folded import each_of

ALL: tuple[Initializer, ...] = (
    Zeros(),
    Ones(),
    Full(-0.1),
    Uniform(0.5),
    Normal(0.02),
    KaimingUniform(),
    Sinusoids(),
)
RANDOM: tuple[Initializer, ...] = (Uniform(0.5), Normal(0.02), KaimingUniform())


@pytest.mark.parametrize("initializer", ALL, ids=str)
def test_values_are_single_floats_of_the_shape(initializer: Initializer) -> None:
    value = sample(initializer, 0, "layer.weight", (5, 6))
    assert value.dtype == np.float32
    assert value.shape == (5, 6)
    np.testing.assert_array_equal(value, sample(initializer, 0, "layer.weight", (5, 6)))


@pytest.mark.parametrize("initializer", RANDOM, ids=str)
def test_seed_and_name_make_the_difference(initializer: Initializer) -> None:
    base = sample(initializer, 0, "layer.weight", (41,))
    assert np.all(base != sample(initializer, 1, "layer.weight", (41,)))
    assert np.all(base != sample(initializer, 0, "layer.bias", (41,)))


def test_the_stream_never_changes() -> None:
    """Written down from the first release: a new one would start other trainings."""
    uniform = sample(Uniform(1), 7, "stem.conv.weight", (3,))
    normal = sample(Normal(1), 7, "stem.conv.weight", (3,))
    np.testing.assert_allclose(uniform, [0.59739006, 0.49918607, 0.66050661], rtol=1e-6)
    np.testing.assert_allclose(normal, [0.86507308, -0.12076435, -1.56764698], rtol=1e-6)


@pytest.mark.parametrize("size", [1, 5, 16_384, 40_001])
def test_fractions_are_the_words_of_philox(size: int) -> None:
    key = np.frombuffer(sha256(b"3\0layer.weight").digest()[:16], "<u8")
    words = np.random.Philox(key=key).random_raw(size)
    fractions = (words >> np.uint64(11)) * 2.0**-53
    expected = (0.5 * (2 * fractions - 1)).astype(np.float32)
    np.testing.assert_array_equal(sample(Uniform(0.5), 3, "layer.weight", (size,)), expected)


def test_constants() -> None:
    assert np.all(sample(Zeros(), 0, "x", (3,)) == 0)
    assert np.all(sample(Ones(), 0, "x", (3,)) == 1)
    assert np.all(sample(Full(-0.1), 0, "x", ()) == np.float32(-0.1))


def test_uniform_fills_its_interval_evenly() -> None:
    value = sample(Uniform(0.25), 0, "x", (40_000,))
    counts, _ = np.histogram(value, bins=10, range=(-0.25, 0.25))
    assert counts.sum() == 40_000
    assert np.all(np.abs(counts - 4_000) < 300)


def test_kaiming_uniform_is_bounded_by_the_fan_in() -> None:
    """The default of PyTorch's convolution: 1 / sqrt(3 * 5 * 5)."""
    value = sample(KaimingUniform(), 0, "x", (64, 3, 5, 5))
    bound = 1 / np.sqrt(75)
    assert 0.99 * bound < np.abs(value).max() <= bound


def test_normal_has_mean_deviation_and_tails() -> None:
    value = sample(Normal(2), 0, "x", (100_001,)) / 2
    assert abs(value.mean()) < 0.01
    assert abs(value.std() - 1) < 0.01
    assert abs(np.mean(np.abs(value) > 2) - 0.0455) < 0.003
    assert abs(np.corrcoef(value[:50_000], value[50_001:])[0, 1]) < 0.02


def test_sinusoids_are_whispers() -> None:
    """Rates fall from 1 to 1/10000 over the first half of the channels, sines first."""
    value = sample(Sinusoids(), 0, "positions", (1500, 384))
    np.testing.assert_array_equal(value[0], np.repeat([0.0, 1.0], 192).astype(np.float32))
    np.testing.assert_allclose(value[7, [0, 192]], [np.sin(7), np.cos(7)], rtol=1e-6)
    np.testing.assert_allclose(value[1499, 191], np.sin(0.1499), rtol=1e-6)


@pytest.mark.parametrize("shape", [(10,), (10, 5), (10, 2), (2, 3, 4)])
def test_sinusoids_need_a_table_of_pairs(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="`positions`"):
        sample(Sinusoids(), 0, "positions", shape)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((3, 4), True), ((3, 2), False), ((3, 5), False), ((4,), False), ((3, 4, 4), False)],
)
def test_sinusoids_fit_pairs_of_channels(shape: tuple[int, ...], *, expected: bool) -> None:
    assert fits(Sinusoids(), shape) is expected
    assert fits(Zeros(), shape)


HELD: list[tuple[DType, Initializer, bool]] = [
    *((dtype, each, True) for dtype in DType for each in (Zeros(), Ones())),
    *((dtype, Normal(1.0), dtype.is_float) for dtype in DType),
    *((dtype, Full(0.5), dtype.is_float) for dtype in DType),
    (DType.BOOL, Full(0.0), True),
    (DType.BOOL, Full(1.0), True),
    (DType.BOOL, Full(2.0), False),
    (DType.BOOL, Full(-1.0), False),
    (DType.I32, Full(2.0**24), True),
    (DType.I32, Full(-(2.0**24)), True),
    (DType.I32, Full(2.0**24 + 2), False),
    (DType.I32, Full(-(2.0**24) - 2), False),
    (DType.U32, Full(2.0**24), True),
    (DType.U32, Full(2.0**24 + 2), False),
    (DType.U32, Full(-1.0), False),
    (DType.F16, Full(-1e9), True),
]


@each_of(("dtype", "initializer", "expected"), HELD)
def test_whole_numbers_begin_as_numbers_of_their_type(
    dtype: DType, initializer: Initializer, *, expected: bool
) -> None:
    assert holds(dtype, initializer) is expected
