"""What makes an array of a file: an image or a sound, as an input takes it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meganeura_runtime.io.preprocess.audio import read_sound
from meganeura_runtime.io.preprocess.images import ImageSteps, read_image


@dataclass(frozen=True)
class ImageDecoder:
    """Images of one size: floats [colors, height, width]."""

    colors: int
    height: int
    width: int
    steps: ImageSteps

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of every image."""
        return self.colors, self.height, self.width

    def decode(self, path: Path) -> NDArray[np.float32]:
        """The image of a file; raises `ProblemError`."""
        return read_image(path, self.colors, self.steps).values

    def __str__(self) -> str:
        return f"{self.shape}, {self.steps}"


@dataclass(frozen=True)
class SoundDecoder:
    """Log-mel spectrograms of one length: floats [mels, frames]."""

    mels: int
    frames: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of every spectrogram."""
        return self.mels, self.frames

    def decode(self, path: Path) -> NDArray[np.float32]:
        """The spectrogram of a file; raises `ProblemError`."""
        return read_sound(path, self.mels, self.frames).values

    def __str__(self) -> str:
        return f"log-mel {self.shape}"


Decoder = ImageDecoder | SoundDecoder
