"""Log-mel spectrograms, as Whisper was trained on them (Radford et al. 2022, section 2.2).

A window of 25 ms moves by 10 ms over samples at 16 kHz. The power of its spectrum is summed under
triangles that stand evenly on the mel scale of Slaney's Auditory Toolbox (1998):

    mel(f) = 3 f / 200                            below 1000 Hz
             15 + 27 ln(f / 1000) / ln(6.4)       above

each triangle of area 1. The logarithm to base 10 is cut off 8 below its largest value, and mapped
by (x + 4) / 4. The numbers agree with those of transformers' `WhisperFeatureExtractor` to 1e-6.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

RATE = 16_000
WINDOW = 400
HOP = 160
HIGHEST = 8_000.0

LINEAR_MELS_PER_HZ = 3 / 200
LOG_FROM_HZ, LOG_FROM_MEL = 1_000.0, 15.0
LOG_STEP = np.log(6.4) / 27

FLOOR = 1e-10
RANGE = 8.0


BLOCK = 6_000
"""Frames whose spectra are in memory at a time."""


def log_mel(samples: NDArray[np.floating], mels: int) -> NDArray[np.float32]:
    """The spectrogram [mels, len(samples) // 160] of samples at 16 kHz."""
    padded = np.pad(samples, WINDOW // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP][:-1]
    blocks = [
        _logarithm(frames[start : start + BLOCK].astype(np.float64), mels)
        for start in range(0, len(frames), BLOCK)
    ]
    logarithm = np.concatenate(blocks, axis=1)
    kept = np.maximum(logarithm, logarithm.max() - RANGE)
    return ((kept + 4) / 4).astype(np.float32)


def _logarithm(frames: NDArray[np.float64], mels: int) -> NDArray[np.float64]:
    """The logarithm of the power in each mel: [mels, frames]."""
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    power = np.abs(np.fft.rfft(frames * hann)) ** 2
    return np.log10(np.maximum(power @ triangles(mels), FLOOR)).T


@cache
def triangles(mels: int) -> NDArray[np.float64]:
    """The weight of each frequency in each mel: [201, mels]."""
    edges = _frequency(np.linspace(0, _mel(HIGHEST), mels + 2))
    frequencies = np.linspace(0, RATE / 2, WINDOW // 2 + 1)
    slopes = (frequencies[:, None] - edges[None, :-1]) / np.diff(edges)
    heights = np.minimum(slopes[:, :-1], 1 - slopes[:, 1:])
    return np.maximum(heights, 0) * 2 / (edges[2:] - edges[:-2])


def _mel(frequency: float) -> float:
    """Returns the pitch in mel of a frequency of 1000 Hz or more."""
    return LOG_FROM_MEL + float(np.log(frequency / LOG_FROM_HZ) / LOG_STEP)


def _frequency(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    logarithmic = LOG_FROM_HZ * np.exp(LOG_STEP * (mel - LOG_FROM_MEL))
    return np.where(mel < LOG_FROM_MEL, mel / LINEAR_MELS_PER_HZ, logarithmic)
