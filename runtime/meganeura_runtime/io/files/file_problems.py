"""Problems of files of tensors."""

from pathlib import Path

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report


class UnreadableFile(Problem, code="E0530", topic="files"):
    """A file of tensors is not what its name or its own header says."""

    file: Path
    reason: str
    instead: Help | None = None
    """A suggestion of something to use instead."""

    def report(self) -> Report:
        return self.message(
            f"cannot read `{self.file}`", Remark("because", self.reason), cure=self.instead
        )


class NotFinite(Problem, code="E0531", topic="files"):
    """A tensor of a file holds an infinity or a NaN."""

    file: Path
    name: str
    index: tuple[int, ...]
    value: str

    def report(self) -> Report:
        return self.message(
            f"`{self.name}` holds {self.value}",
            Remark("at index", show_index(self.index)),
            Remark("in", str(self.file)),
            cure=Help("leave such examples out, or store a number and a mask of what is known"),
        )


class OutOfRange(Problem, code="E0532", topic="files"):
    """A value in a file does not fit the type the program computes with."""

    file: Path
    name: str
    index: tuple[int, ...]
    value: str
    stored: str
    wanted: str

    def report(self) -> Report:
        return self.message(
            f"`{self.name}` holds {self.value}, which {self.wanted} cannot",
            Remark("at index", show_index(self.index)),
            Remark("in", f"{self.file}, stored as {self.stored}"),
            cure=Help("store numbers of its range, counted from 0"),
        )


class NoSuchFile(Problem, code="E0533", topic="files"):
    """A file or a folder that is to be read does not exist."""

    file: Path

    def report(self) -> Report:
        cure = Help("paths are counted from the folder of the command: check where the file lies")
        return self.message(f"there is no `{self.file}`", cure=cure)


class CannotWrite(Problem, code="E0534", topic="files"):
    """A file could not be written: the disk is full, or the folder may not be written to."""

    file: Path
    reason: str
    cure: str = "an earlier version of the file, if there was one, is unharmed"

    def report(self) -> Report:
        headline = f"cannot write `{self.file}`"
        return self.message(headline, Remark("because", self.reason), cure=Help(self.cure))


class WouldReplace(Problem, code="E0539", topic="files"):
    """`-o` names a file that the command would destroy."""

    file: Path
    reason: str

    def report(self) -> Report:
        return self.message(
            f"`{self.file}` would be replaced",
            Remark("because", self.reason),
            cure=Help("write to another file, or add `--force` to replace it"),
        )


class DamagedFile(Problem, code="E0542", topic="files"):
    """A file is not as it was written: some of its bits have changed."""

    file: Path
    damaged: str
    """The tensor, in backticks, maybe with a place in it, or `its header`."""
    instead: Help | None = None
    """A suggestion of something to use instead."""

    def report(self) -> Report:
        return self.message(
            f"`{self.file}` is damaged",
            Remark("because", f"{self.damaged} is not as it was written"),
            cure=self.instead,
        )


def show_index(index: tuple[int, ...]) -> str:
    """`[3, 0, 7]`, in Python's syntax."""
    return f"[{', '.join(map(str, index))}]"
