"""Log-mel spectrograms against numbers that transformers 5.23 gives, and against the definition."""

import numpy as np
import pytest
from numpy.typing import NDArray

from meganeura_runtime.io.preprocess import mel
from meganeura_runtime.io.preprocess.mel import HOP, RATE, log_mel, triangles

# From `WhisperFeatureExtractor(feature_size=mels)(chirp(), sampling_rate=16000)`.
EXPECTED = {
    80: {
        (0, 0): 1.1680147647857666,
        (5, 1): 1.4094170331954956,
        (20, 75): -0.5494887828826904,
        (40, 100): -0.3134101629257202,
        (60, 149): 0.02250117063522339,
        (79, 150): 0.1658785343170166,
    },
    128: {
        (0, 0): 1.0922554731369019,
        (5, 1): 0.9901723861694336,
        (20, 75): -0.5004189014434814,
        (60, 149): -0.025340914726257324,
        (79, 150): 0.6865966320037842,
    },
}
MEANS = {80: -0.5386547014743089, 128: -0.4908343472261913}


def chirp() -> NDArray[np.float32]:
    """1.5 seconds of a rising tone, and silence up to 30."""
    time = np.arange(3 * RATE // 2) / RATE
    tones = 0.5 * np.sin(2 * np.pi * (200 + 900 * time) * time)
    tones += 0.05 * np.cos(2 * np.pi * 3000 * time)
    return np.pad(tones.astype(np.float32), (0, 30 * RATE - len(time)))


@pytest.mark.parametrize("mels", EXPECTED)
def test_the_numbers_are_those_whisper_was_trained_on(mels: int) -> None:
    features = log_mel(chirp(), mels)
    assert (features.shape, features.dtype) == ((mels, 3000), np.float32)
    for place, value in EXPECTED[mels].items():
        assert features[place] == pytest.approx(value, abs=2e-6)
    assert features.mean(dtype=np.float64) == pytest.approx(MEANS[mels], abs=1e-6)


@pytest.mark.parametrize("frames", [2, 3, 101, 200])
def test_a_hop_makes_a_frame(frames: int) -> None:
    assert log_mel(np.ones(frames * HOP), 80).shape == (80, frames)


@pytest.mark.parametrize("block", [1, 7, 100, 101])
def test_a_long_sound_is_what_its_blocks_are(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = chirp()[: 101 * HOP]
    whole = log_mel(sound, 80)
    monkeypatch.setattr(mel, "BLOCK", block)
    np.testing.assert_allclose(log_mel(sound, 80), whole, atol=1e-6)


def test_a_tone_is_loudest_where_its_mel_is() -> None:
    tone = np.sin(2 * np.pi * 1000 * np.arange(RATE) / RATE)
    loudest = log_mel(tone, 80).mean(axis=1).argmax()
    assert loudest == triangles(80)[25].argmax()  # the 25th frequency is 25 * 40 Hz


def test_the_range_is_that_of_eight_powers_of_ten() -> None:
    features = log_mel(chirp(), 80)
    assert features.max() - features.min() == pytest.approx(2, abs=1e-6)
    assert np.unique(log_mel(np.zeros(RATE), 80)) == pytest.approx([(-10 + 4) / 4])
