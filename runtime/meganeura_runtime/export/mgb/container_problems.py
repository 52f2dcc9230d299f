"""Problems of compiled models."""

from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import Help, Problem, Report


@dataclass(frozen=True)
class NotAnArtefact(Problem, code="E0581", topic="compiled models"):
    """A file is no compiled model, or one of another version.

    A compiled model is one file: a plan, its kernels and its weights. It is read by the version of
    the format that wrote it; `meganeura build MODEL --mode infer -o model.mgb` writes it anew.
    """

    file: str
    reason: str

    def report(self) -> Report:
        return self.message(
            f"`{self.file}` cannot be run: {self.reason}",
            cure=Help("write it anew with", "meganeura build MODEL --mode infer -o model.mgb"),
        )
