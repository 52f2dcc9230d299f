"""Problems of images and sounds."""

from dataclasses import dataclass
from pathlib import Path

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report


@dataclass(frozen=True)
class MissingExtra(Problem, code="E0564", topic="installation"):
    """A file needs a library that is not installed.

    Images are decoded by Pillow, sounds by soundfile and soxr. Few programs need them, so they
    come with the extras `images` and `audio`.
    """

    module: str
    extra: str
    purpose: str

    def report(self) -> Report:
        return self.message(
            f"`{self.module}` is not installed, and is needed to {self.purpose}",
            cure=Help("install it with", f"pip install 'meganeura[{self.extra}]'"),
        )


@dataclass(frozen=True)
class UnfitInput(Problem, code="E0563", topic="inputs"):
    """An image or a sound cannot be made into what an input takes.

    An image becomes floats `[1, 3, h, w]`, or `[1, 1, h, w]` where the model takes one colour; a
    sound becomes a log-mel spectrogram `[1, mels, t]`. Several files for one input make a batch.
    """

    name: str
    file: Path
    wanted: str
    reason: str

    def report(self) -> Report:
        return self.message(
            f"`{self.file}` cannot feed `{self.name}`",
            Remark("the input is", self.wanted),
            Remark("because", self.reason),
        )
