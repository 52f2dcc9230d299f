# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "safetensors"]
# ///
"""Makes spoken words for Whisper without a recording: `synthetic_speech.py DATA [SOUNDS]`.

A word is two vowels, each one of /a/, /i/ and /u/, so there are nine. A voice is the harmonics of a
gliding pitch, as strong as three resonances at the formants of the vowel let them be (Peterson and
Barney 1952 measured them). Speakers differ in pitch and in the length of the vocal tract, words in
tempo and loudness, and each has noise. `mel` is what Whisper hears of it: f32[words, 80, 64], which
is 0.64 seconds.

With a second argument, a folder, they are sentences of one to three words, to be written down:
`mel` is f32[sentences, 80, 192], and `text` i32[sentences, 10] has the bytes of the words, a 0
before and behind them, and -100 after that. The folder gets 20 that are held out as sounds, named
by their words.
"""

import sys
import wave
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

Array = NDArray[np.float64]

RATE = 16_000
"""Samples a second."""

HOP, WINDOW, BANDS, FRAMES = 160, 400, 80, 64
"""Whisper's features: a frame every 10 ms over 25 ms, in 80 bands; and the frames of a clip."""

WORDS_AT_MOST, NOTHING = 3, -100

VOWELS = {"a": (730, 1090, 2440), "i": (270, 2290, 3010), "u": (300, 870, 2240)}
WORDS = ["".join(pair) for pair in product(VOWELS, repeat=2)]
WIDTHS = (60, 90, 120)
"""Bandwidths of the formants."""

HIGHEST = 4500
"""The upper end of the voice, in Hz."""


# --- speech --------------------------------------------------------------------------------------


def resonance(frequency: Array, formants: Array) -> Array:
    """Returns the response of resonators in a row to a frequency."""
    answer = np.ones(np.broadcast_shapes(frequency.shape, formants[0].shape))
    for formant, width in zip(formants, WIDTHS, strict=True):
        ratio = frequency / formant
        answer /= np.hypot(1 - ratio**2, ratio * width / formant)
    return answer


def spoken(word: str, chance: np.random.Generator) -> Array:
    """A clip with the word somewhere in it."""
    pitch, tract = chance.uniform(90, 220), chance.uniform(0.87, 1.15)
    length = int(RATE * chance.uniform(0.3, 0.5))
    part = np.arange(length) / length
    glide = pitch * (
        1 + 0.15 * np.sin(2 * np.pi * (chance.uniform(0.3, 1) * part + chance.random()))
    )
    blend = 1 / (1 + np.exp(-(part - chance.uniform(0.4, 0.6)) / 0.05))
    first, second = (np.array(VOWELS[vowel])[:, None, None] for vowel in word)
    formants = (first + (second - first) * blend) / tract
    number = np.arange(1, int(HIGHEST / glide.max()))[:, None]
    strength = resonance(number * glide, formants) / number
    voice = np.sum(strength * np.sin(2 * np.pi * number * np.cumsum(glide) / RATE), axis=0)
    voice *= np.sin(np.pi * part) ** 0.5 * chance.uniform(0.3, 1.0) / np.abs(voice).max()
    clip = 0.01 * chance.normal(size=FRAMES * HOP)
    start = chance.integers(0, clip.size - length)
    clip[start : start + length] += voice
    return clip


# --- features ------------------------------------------------------------------------------------


def mel_scale(frequency: Array) -> Array:
    """Slaney's: linear up to 1000 Hz, logarithmic above."""
    above = 15 + 27 * np.log(np.maximum(frequency, 1000) / 1000) / np.log(6.4)
    return np.where(frequency < 1000, frequency * 3 / 200, above)


def mel_filters() -> Array:
    """Triangles of equal area, evenly spaced on the mel scale: [bands, frequencies]."""
    frequencies = np.arange(WINDOW // 2 + 1) * RATE / WINDOW
    table = np.linspace(0, RATE / 2, 1 << 16)
    edges = np.interp(np.linspace(0, mel_scale(np.array(RATE / 2)), BANDS + 2),
                      mel_scale(table), table)  # fmt: skip
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (frequencies - low) / (middle - low), (high - frequencies) / (high - middle)
    return np.maximum(0, np.minimum(rising, falling)) * 2 / (high - low)


def log_mel(clip: Array, filters: Array) -> Array:
    """As Whisper's: the log10 of the power in each band, within 8 of the loudest, then scaled."""
    padded = np.pad(clip, WINDOW // 2, mode="reflect")
    starts = range(0, clip.size, HOP)
    frames = np.stack([padded[start : start + WINDOW] for start in starts])
    window = np.sin(np.pi * np.arange(WINDOW) / WINDOW) ** 2
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    logs = np.log10(np.maximum(power @ filters.T, 1e-10))
    return ((np.maximum(logs, logs.max() - 8) + 4) / 4).T


# --- files ---------------------------------------------------------------------------------------


def sentence(chance: np.random.Generator) -> tuple[list[str], Array]:
    """One to three words, and how they sound, in a clip that is as long as three."""
    words = [WORDS[int(each)] for each in chance.integers(0, len(WORDS), chance.integers(1, 4))]
    silence = 0.01 * chance.normal(size=(WORDS_AT_MOST - len(words)) * FRAMES * HOP)
    return words, np.concatenate([*(spoken(word, chance) for word in words), silence])


def as_tokens(words: list[str]) -> NDArray[np.int32]:
    """The bytes of words between zeros, as many as those of the longest sentence."""
    longest = 3 * WORDS_AT_MOST - 1
    text = " ".join(words).encode()
    tokens = [0, *text, 0, *[NOTHING] * (longest - len(text))]
    return np.array(tokens, np.int32)


def write_sound(path: Path, clip: Array) -> None:
    """A WAV file of 16 bits."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((np.clip(clip, -1, 1) * 32_767).astype("<i2").tobytes())


def sentences(sounds: Path) -> dict[str, NDArray[np.generic]]:
    """Sentences to train on and to try; the first of the latter also as files."""
    chance, filters = np.random.default_rng(0), mel_filters()
    sounds.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, NDArray[np.generic]] = {}
    for split, count in (("train", 1200), ("test", 100)):
        said = [sentence(chance) for _ in range(count)]
        mels = [log_mel(clip, filters) for _, clip in said]
        tensors[f"{split}.mel"] = np.array(mels, np.float32)
        tensors[f"{split}.text"] = np.stack([as_tokens(words) for words, _ in said])
    for number, (words, clip) in enumerate(said[:20]):
        write_sound(sounds / f"{number:02}-{'-'.join(words)}.wav", clip)
    return tensors


def single_words() -> dict[str, NDArray[np.generic]]:
    """60 utterances of each word to train on, and 15 held out, by other speakers."""
    chance, filters = np.random.default_rng(0), mel_filters()
    tensors: dict[str, NDArray[np.generic]] = {}
    for split, times in (("train", 60), ("test", 15)):
        labels = np.tile(np.arange(len(WORDS)), times)
        heard = [log_mel(spoken(WORDS[int(label)], chance), filters) for label in labels]
        tensors[f"{split}.mel"] = np.array(heard, np.float32)
        tensors[f"{split}.label"] = labels.astype(np.int32)
    return tensors


def main() -> None:
    """Write words, or sentences."""
    tensors = sentences(Path(sys.argv[2])) if len(sys.argv) > 2 else single_words()
    Path(sys.argv[1]).write_bytes(save(tensors))
    for name, tensor in tensors.items():
        print(f"{name}: {tensor.dtype} {list(tensor.shape)}")


if __name__ == "__main__":
    main()
