"""Names of tensors in files, as the parameters of a model: renamed by patterns, below a prefix.

So a part of a checkpoint is loaded into a model, or a whole one into a part of a model.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import Help, Problem, ProblemError, Remark, Report
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor

FORM = "PATTERN=REPLACEMENT"
SHOWN = 3
"""The number of names that a message shows as examples."""


class MalformedRename(Problem, code="E0585", topic="weights"):
    """A rename of tensors is not a pattern and a replacement."""

    text: str
    reason: str

    def report(self) -> Report:
        """Quote it, say what is wrong with it, and show one that is right."""
        return self.message(
            f"cannot rename by `{self.text}`",
            Remark("because", self.reason),
            cure=Help("write a pattern and a replacement", r"--rename 'teacher\.(.*)=\1'"),
        )


class NothingToRename(Problem, code="E0586", topic="weights"):
    """A rename matches no tensor of the files, or none that an earlier one has left."""

    pattern: str
    names: tuple[str, ...]

    def report(self) -> Report:
        """Name the pattern, and show what the file has."""
        more = ", ..." if len(self.names) > SHOWN else ""
        return self.message(
            f"no tensor is left that `{self.pattern}` matches",
            Remark("the file has", f"{', '.join(self.names[:SHOWN])}{more}"),
            cure=Help("a pattern matches a whole name, in the order of the renames"),
        )


class SameName(Problem, code="E0587", topic="weights"):
    """Two tensors of a file are given one name."""

    name: str
    tensors: tuple[str, str]

    def report(self) -> Report:
        """Name both tensors."""
        first, second = self.tensors
        cure = Help("let the pattern match one of them, or keep in the new name what differs")
        return self.message(
            f"`{first}` and `{second}` are both renamed to `{self.name}`", cure=cure
        )


@dataclass(frozen=True)
class Rename:
    """A tensor whose whole name a pattern matches has another name in the model."""

    pattern: str
    replacement: str

    @staticmethod
    def parse(text: str) -> "Rename":
        """`PATTERN=REPLACEMENT`; raises `ProblemError`."""
        pattern, _, replacement = text.rpartition("=")
        if not pattern:
            raise ProblemError(MalformedRename(text, f"it is not {FORM}"))
        rename = Rename(pattern, replacement)
        rename.compiled()
        return rename

    def compiled(self) -> re.Pattern[str]:
        """The pattern; raises `ProblemError` if it is none."""
        try:
            return re.compile(self.pattern)
        except re.error as error:
            raise ProblemError(MalformedRename(str(self), str(error))) from None

    def __str__(self) -> str:
        """Returns the text on a command line."""
        return f"{self.pattern}={self.replacement}"


@dataclass(frozen=True)
class Names:
    """Names in a model of the tensors of files: renamed, and then all below a prefix."""

    renames: tuple[Rename, ...] = ()
    prefix: str = ""

    @staticmethod
    def of(renames: Mapping[str, str], prefix: str) -> "Names":
        """Returns names by patterns and their replacements. Raises `ProblemError`."""
        return Names(tuple(Rename(*each) for each in renames.items()), prefix)

    def apply(self, tensors: Mapping[str, StoredTensor]) -> dict[str, str]:
        """The name of each tensor in its file, by its name in the model; raises `ProblemError`."""
        patterns = [(each, each.compiled()) for each in self.renames]
        used: set[Rename] = set()
        found: dict[str, str] = {}
        for stored in tensors:
            name = stored
            for rename, pattern in patterns:
                match = pattern.fullmatch(stored)
                if match is not None:
                    used.add(rename)
                    name = _expanded(rename, match)
                    break
            name = f"{self.prefix}{name}"
            if name in found:
                raise ProblemError(SameName(name, (found[name], stored)))
            found[name] = stored
        for rename in self.renames:
            if rename not in used:
                raise ProblemError(NothingToRename(rename.pattern, tuple(tensors)))
        return found


AS_STORED = Names()
"""Every tensor has the name it has in its file."""


def _expanded(rename: Rename, match: re.Match[str]) -> str:
    try:
        return match.expand(rename.replacement)
    except (re.error, IndexError) as error:
        raise ProblemError(MalformedRename(str(rename), str(error))) from None
