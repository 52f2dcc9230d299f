"""Problems of compiled models."""

from dataclasses import dataclass
from typing import ClassVar

from meganeura_dsl.diagnostics.problem import Help, Problem, Report


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


PROBLEMS: tuple[type[Problem], ...] = (NotAnArtefact,)
"""Every kind of problem that only compiled models have."""
