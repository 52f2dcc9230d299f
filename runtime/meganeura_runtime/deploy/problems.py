"""What can keep a model from being deployed, and the words for it."""

from dataclasses import dataclass
from typing import ClassVar

from meganeura_dsl.diagnostics import Help, Problem, Remark, Report


@dataclass(frozen=True)
class DeployedDiffers(Problem):
    """The inference form of a model does not give what the model gives.

    Both are run on random inputs before anything is written. A difference beyond rounding means
    that the weights cannot be folded as they are: running variances near zero, weights that are
    huge, or a mistake of the optimizer. `--disable-rule` finds out which rule is to blame.
    """

    code = "E0580"
    topic: ClassVar[str] = "deploy"

    output: str
    difference: float
    allowed: float

    def report(self) -> Report:
        found = f"{self.difference:.3g}, and {self.allowed:g} is allowed"
        return Report(
            self.code,
            self.severity,
            f"`{self.output}` of the inference form differs from that of the model",
            self.topic,
            None,
            (Remark("largest difference", found),),
            Help("nothing was written"),
        )


@dataclass(frozen=True)
class NotAnArtefact(Problem):
    """A file is no compiled model, or one of another version.

    A compiled model is one file: a plan, its kernels and its weights. It is read by the version of
    the format that wrote it; `meganeura build MODEL --mode infer -o model.mgb` writes it anew.
    """

    code = "E0581"
    topic: ClassVar[str] = "compiled models"

    file: str
    reason: str

    def report(self) -> Report:
        return Report(
            self.code,
            self.severity,
            f"`{self.file}` cannot be run: {self.reason}",
            self.topic,
            None,
            (),
            Help("write it anew with", "meganeura build MODEL --mode infer -o model.mgb"),
        )


PROBLEMS: tuple[type[Problem], ...] = (DeployedDiffers, NotAnArtefact)
"""Every kind of problem of what is deployed."""
