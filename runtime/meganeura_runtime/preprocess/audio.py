"""Sounds as Whisper is fed them: one channel at 16 kHz, a fixed length, a log-mel spectrogram."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.diagnostics import ProblemError
from meganeura_dsl.files import opened
from meganeura_runtime.preprocess.extras import load
from meganeura_runtime.preprocess.mel import HOP, RATE, log_mel
from meganeura_runtime.tensors.problems import NoSuchFile, UnreadableFile

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif")

Samples = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ReadSound:
    """A sound as a spectrogram [mels, frames], and what it was."""

    values: NDArray[np.float32]
    seconds: float
    rate: int
    channels: int


def read_sound(path: Path, mels: int, frames: int) -> ReadSound:
    """Read a sound of at most so many frames of 10 ms; a shorter one is followed by silence.

    Raises `ProblemError`, also for a longer one: what should be left out is not for us to say.
    """
    sound, rate = _decode(path)
    mono = sound.mean(axis=1)
    seconds, longest = len(mono) / rate, frames * HOP / RATE
    if seconds > longest:
        reason = f"it lasts {seconds:.2f} s, and {longest:g} s are fed; cut it into pieces"
        raise ProblemError(UnreadableFile(path, reason))
    samples = _resample(mono, rate)[: frames * HOP]
    whole = np.pad(samples, (0, frames * HOP - len(samples)))
    return ReadSound(log_mel(whole, mels), seconds, rate, sound.shape[1])


def _decode(path: Path) -> tuple[Samples, int]:
    """Samples [time, channels] between -1 and 1, and how many make a second."""
    soundfile = load("soundfile", "audio", "read sounds")
    if not path.exists():
        raise ProblemError(NoSuchFile(path))
    read = cast("Callable[..., tuple[Samples, int]]", soundfile.read)
    try:
        with opened(path):  # which it must be able to be; the library opens it by its name
            samples, rate = read(str(path), dtype="float32", always_2d=True)
    except (RuntimeError, OSError) as error:
        raise ProblemError(UnreadableFile(path, str(error))) from None
    if not len(samples):
        raise ProblemError(UnreadableFile(path, "it has no samples"))
    if not np.isfinite(samples).all():
        raise ProblemError(UnreadableFile(path, "some of its samples are no finite numbers"))
    return samples, rate


def _resample(samples: Samples, rate: int) -> Samples:
    if rate == RATE:
        return samples
    change = load("soxr", "audio", "resample sounds").resample
    return cast("Callable[[Samples, int, int], Samples]", change)(samples, rate, RATE)
