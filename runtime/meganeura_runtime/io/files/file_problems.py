"""Problems of files of tensors."""

from pathlib import Path

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report


class UnreadableFile(Problem, code="E0530", topic="files"):
    """A file of tensors is not what its name or its own header says.

    Nothing in a file is trusted: lengths, offsets, shapes and types are compared with the size of
    the file and with each other before a single value is read. A file that was cut short by a full
    disk or a broken download is found here, and nothing of it is used.
    """

    file: Path
    reason: str
    instead: Help | None = None
    """What may be used instead."""

    def report(self) -> Report:
        return self.message(
            f"cannot read `{self.file}`", Remark("because", self.reason), cure=self.instead
        )


class NotFinite(Problem, code="E0531", topic="files"):
    """A tensor of a file holds an infinity or a NaN.

    One such value spreads through every sum it meets and ruins a whole run, mostly long after it
    was read. The message has its index, so that it can be looked up.
    """

    file: Path
    name: str
    index: tuple[int, ...]
    value: str

    def report(self) -> Report:
        return self.message(
            f"`{self.name}` holds {self.value}",
            Remark("at index", show_index(self.index)),
            Remark("in", str(self.file)),
        )


class OutOfRange(Problem, code="E0532", topic="files"):
    """A value in a file does not fit the type the program computes with.

    Files may store wider types than a graph has, such as i64 labels. They are read value by value,
    and a value that the narrower type cannot hold exactly (integers) or finitely (floats) is
    refused rather than wrapped around.
    """

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
        )


class NoSuchFile(Problem, code="E0533", topic="files"):
    """A file or a folder that is to be read does not exist."""

    file: Path

    def report(self) -> Report:
        return self.message(f"there is no `{self.file}`")


class CannotWrite(Problem, code="E0534", topic="files"):
    """A file could not be written: the disk is full, or the folder may not be written to.

    Files are written beside their final name and renamed when they are whole, so the version that
    was there before is still there, unharmed.
    """

    file: Path
    reason: str

    def report(self) -> Report:
        return self.message(
            f"cannot write `{self.file}`",
            Remark("because", self.reason),
            cure=Help("an earlier version of the file, if there was one, is unharmed"),
        )


class WouldReplace(Problem, code="E0539", topic="files"):
    """`-o` names a file that the command would destroy.

    A command replaces what it wrote before: a page by a page, a compiled model by a compiled model.
    A program, a file of another kind, a file that the command reads, and a file that nobody named
    stay as they are. `--force` replaces them.
    """

    file: Path
    reason: str

    def report(self) -> Report:
        return self.message(
            f"`{self.file}` would be replaced",
            Remark("because", self.reason),
            cure=Help("write to another file, or add `--force` to replace it"),
        )


class DamagedFile(Problem, code="E0542", topic="files"):
    """A file is not as it was written: some of its bits have changed.

    Checkpoints, weights and compiled models hold a checksum of each tensor and one of the header:
    their names, types and shapes, and whatever else the file says of itself. A disk, a cable or a
    copy that was not finished can change a file without anybody noticing. Nothing of such a file is
    used. The message names the tensor that has changed, or the header.

    Data that is trained on is compared piece by piece, as it is read. The message then names bytes
    and rows of the tensor, and no step has used them.

    Another program that reads such a file and writes other tensors with the same metadata makes
    one whose checksums are wrong. Leave `meganeura.checksums` out of its metadata: a file without
    checksums is read as it is.
    """

    file: Path
    damaged: str
    """The tensor, in backticks, maybe with a place in it, or `its header`."""
    instead: Help | None = None
    """What may be used instead."""

    def report(self) -> Report:
        return self.message(
            f"`{self.file}` is damaged",
            Remark("because", f"{self.damaged} is not as it was written"),
            cure=self.instead,
        )


def show_index(index: tuple[int, ...]) -> str:
    """`[3, 0, 7]`, in Python's syntax."""
    return f"[{', '.join(map(str, index))}]"
