"""Decoders, which make an array of a file: an image or a sound, as an input takes it."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from meganeura_runtime.io.preprocess.audio import read_sound
from meganeura_runtime.io.preprocess.images import Cover, ImageSteps, Stretch, read_image
from meganeura_runtime.io.preprocess.preparation import (
    ImagePreparation,
    Preparation,
    SoundPreparation,
)


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

    @property
    def preparation(self) -> Preparation:
        """The preparation that is stored in weights trained on them."""
        entry = ImagePreparation.of(self.colors, self.height, self.width, self.steps)
        return Preparation(image=entry)

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

    @property
    def preparation(self) -> Preparation:
        """The preparation that is stored in weights trained on them."""
        return Preparation(sound=SoundPreparation(mels=self.mels, frames=self.frames))

    def __str__(self) -> str:
        return f"log-mel {self.shape}"


Decoder = ImageDecoder | SoundDecoder


class _Message(BaseModel):
    """A decoder in the words of JSON, which tells the two ways to resize apart."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    decoder: Decoder
    stretches: bool


def decoder_text(decoder: Decoder) -> str:
    """A decoder as a text, for another process."""
    stretches = isinstance(decoder, ImageDecoder) and isinstance(decoder.steps.resize, Stretch)
    return _Message(decoder=decoder, stretches=stretches).model_dump_json()


def decoder_of(text: str) -> Decoder:
    """The decoder that a text of `decoder_text` says."""
    message = _Message.model_validate_json(text)
    match message.decoder:
        case ImageDecoder(steps=ImageSteps(resize=Cover() as found)) as decoder if (
            message.stretches
        ):
            resize = Stretch(found.height, found.width)
            return replace(decoder, steps=replace(decoder.steps, resize=resize))
        case decoder:
            return decoder
