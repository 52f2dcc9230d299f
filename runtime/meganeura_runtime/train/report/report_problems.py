"""Problems of a run folder that is read, and their messages."""

from pathlib import Path

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report


class NotARun(Problem, code="E0620", topic="files"):
    """A folder that was named as a run is none."""

    folder: Path
    missing: str

    def report(self) -> Report:
        return self.message(
            f"`{self.folder}` is not the folder of a run: it has no `{self.missing}`",
            cure=Help("name a folder that `meganeura train` made, such as", "runs/fit-1"),
        )


class ProgramGone(Problem, code="E0624", topic="files"):
    """The program of a run is not where it was."""

    folder: Path
    program: str
    """The path that it was trained by; empty where the run does not say it."""
    train: str

    def report(self) -> Report:
        told = (
            f"`{self.program}`, which is not here" if self.program else "a program it does not name"
        )
        named = self.program.rpartition("/")[2] or "net.mgn"
        return self.message(
            f"the run in `{self.folder}` is of {told}",
            cure=Help(
                "name the program, and the weights of the run",
                f"{named}:{self.train} --weights {self.folder}/best.safetensors",
            ),
        )


class DamagedRun(Problem, code="E0621", topic="files"):
    """A file of a run does not hold what a run writes into it."""

    file: Path
    line: int
    """The line that is no record; 0 where the whole file is meant."""
    reason: str

    def report(self) -> Report:
        where = f"line {self.line:,} of `{self.file}`" if self.line else f"`{self.file}`"
        return self.message(
            f"{where} is not what a run writes",
            Remark("because", self.reason),
            cure=Help("take the file from a copy, or the run again: it is not to be edited"),
        )
