"""Problems of images and sounds."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from meganeura_dsl.diagnostics.problem import Problem, Remark, Report


@dataclass(frozen=True)
class UnfitInput(Problem):
    """An image or a sound cannot be made into what an input takes.

    An image becomes floats `[1, 3, h, w]`, or `[1, 1, h, w]` where the model takes one colour; a
    sound becomes a log-mel spectrogram `[1, mels, t]`. Several files for one input make a batch.
    """

    code = "E0563"
    topic: ClassVar[str] = "inputs"

    name: str
    file: Path
    wanted: str
    reason: str

    def report(self) -> Report:
        return Report(
            self.code,
            self.severity,
            f"`{self.file}` cannot feed `{self.name}`",
            self.topic,
            None,
            (Remark("the input is", self.wanted), Remark("because", self.reason)),
        )


PROBLEMS: tuple[type[Problem], ...] = (UnfitInput,)
"""Every kind of problem an image or a sound can have that a file of tensors has not."""
