"""What can be wrong with the name of a program."""

from dataclasses import dataclass
from typing import ClassVar

from meganeura_dsl.diagnostics import Help, Problem, Report


@dataclass(frozen=True)
class UnknownTarget(Problem):
    """A program, model or `train` block was asked for by a name that does not exist.

    A program is a path such as `net.mgn`, one declaration of it such as `net.mgn:small`, or the
    name of a standard model such as `resnet18`.
    """

    code: ClassVar[str] = "E0218"
    topic: ClassVar[str] = "program"
    file: str
    kind: str
    name: str
    known: tuple[str, ...]

    def report(self) -> Report:
        """The words."""
        listed = ", ".join(f"`{name}`" for name in self.known)
        if not self.file:
            headline = f"there is no file or standard model called `{self.name}`"
            cure = Help(f"did you mean {listed}?") if listed else None
        elif self.name:
            headline = f"{self.file} declares no {self.kind} called `{self.name}`"
            cure = Help(f"it declares {listed}") if listed else None
        elif self.known:
            headline = f"{self.file} declares several: which {self.kind} is meant?"
            cure = Help(f"name one of {listed}", f"{self.file}:{self.known[0]}")
        else:
            headline = f"{self.file} declares no {self.kind}"
            cure = None
        return Report(self.code, self.severity, headline, self.topic, None, (), cure)


PROBLEMS: tuple[type[Problem], ...] = (UnknownTarget,)
"""Every problem of this module."""
