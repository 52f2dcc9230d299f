"""Sounds as Whisper is fed them: one channel at 16 kHz, a fixed length, a log-mel spectrogram."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.support.regular_files import opened
from meganeura_runtime.io.files.file_problems import NoSuchFile, UnreadableFile
from meganeura_runtime.io.preprocess.mel import HOP, RATE, log_mel
from meganeura_runtime.support.optional_imports import load

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif")

HIGHEST_RATE = 1 << 20
"""Samples of a second of the finest sound that is read; a FLAC has no more."""
PIECE = 1 << 18
"""Samples of all channels that are decoded in one call."""

LONGEST = 2 * 3600
"""Seconds of the longest sound that is read in windows: 2 GB in memory."""

Samples = NDArray[np.float32]


class SoundFile(Protocol):
    """The part of `soundfile.SoundFile` that is used here."""

    samplerate: int
    channels: int
    frames: int

    def read(self, frames: int, dtype: str, *, always_2d: bool) -> Samples:
        """The next samples [time, channels] between -1 and 1, none at the end."""
        ...


@dataclass(frozen=True, eq=False)
class ReadSound:
    """A sound as a spectrogram [mels, frames] or as samples, and what it was."""

    values: NDArray[np.float32]
    seconds: float
    rate: int
    channels: int


def read_sound(path: Path, mels: int, frames: int) -> ReadSound:
    """Read a sound of at most so many frames of 10 ms; a shorter one is followed by silence.

    Raises `ProblemError`, also for a longer one: what should be left out is not for us to say.
    """
    found = _read(path, frames)
    return replace(found, values=log_mel(_filled(found.values, frames), mels))


def read_speech(path: Path, mels: int, frames: int) -> Samples:
    """The spectrogram [mels, time] of a sound that is read in windows of so many frames.

    A sound shorter than a window is followed by silence; one of several may end within a window.
    Raises `ProblemError`, also for one of more than `LONGEST` seconds.
    """
    samples = _read(path, LONGEST * RATE // HOP).values
    return log_mel(_filled(samples, max(frames, -(-len(samples) // HOP))), mels)


def _filled(samples: Samples, frames: int) -> Samples:
    """The samples of so many frames, with silence at the end."""
    return np.pad(samples, (0, frames * HOP - len(samples)))


def _read(path: Path, frames: int) -> ReadSound:
    """The samples of at most so many frames, of one channel at `RATE`."""
    with _opened(path) as sound:
        rate, channels = sound.samplerate, sound.channels
        longest = frames * HOP / RATE
        if rate > HIGHEST_RATE:
            raise ProblemError(UnreadableFile(path, f"{rate} samples are a second of it"))
        most = frames * HOP * rate // RATE
        if sound.frames > most:
            raise _too_long(path, f"{sound.frames / rate:.2f}", longest)
        mono = _mixed(path, sound, most)
    if mono is None:
        raise _too_long(path, f"more than {longest:g}", longest)
    if not len(mono):
        raise ProblemError(UnreadableFile(path, "it has no samples"))
    return ReadSound(_resample(mono, rate), len(mono) / rate, rate, channels)


def _too_long(path: Path, seconds: str, longest: float) -> ProblemError:
    reason = f"it lasts {seconds} s, and {longest:g} s are fed; cut it into pieces"
    return ProblemError(UnreadableFile(path, reason))


@contextmanager
def _opened(path: Path) -> Generator[SoundFile]:
    """A sound to be decoded; whatever the decoder says of it becomes `ProblemError`."""
    soundfile = load("soundfile", "audio", "read sounds")
    if not path.exists():
        raise ProblemError(NoSuchFile(path))
    decode = cast("Callable[[str], AbstractContextManager[SoundFile]]", soundfile.SoundFile)
    try:
        with opened(path), decode(str(path)) as sound:  # the decoder opens it by its name
            yield sound
    except (RuntimeError, OSError) as error:
        raise ProblemError(UnreadableFile(path, str(error))) from None


def _mixed(path: Path, sound: SoundFile, most: int) -> Samples | None:
    """The mean of the channels at each time, or None if there are more than `most` times.

    It is decoded piece by piece, and no further than that: what a file says of its length need not
    be so.
    """
    pieces = [np.zeros(0, np.float32)]
    count, step = 0, max(1, PIECE // sound.channels)
    while len(piece := sound.read(step, dtype="float32", always_2d=True)):
        if not np.isfinite(piece).all():
            raise ProblemError(UnreadableFile(path, "some of its samples are no finite numbers"))
        count += len(piece)
        if count > most:
            return None
        pieces.append(piece.mean(axis=1))
    return np.concatenate(pieces)


def _resample(samples: Samples, rate: int) -> Samples:
    if rate == RATE:
        return samples
    change = load("soxr", "audio", "resample sounds").resample
    return cast("Callable[[Samples, int, int], Samples]", change)(samples, rate, RATE)
