"""Problems of images and sounds."""

from pathlib import Path

from meganeura_dsl.diagnostics.problem import Problem, Remark, Report


class UnfitInput(Problem, code="E0563", topic="inputs"):
    """An image or a sound cannot be made into what an input takes."""

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
