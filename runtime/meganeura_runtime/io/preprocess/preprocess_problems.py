"""Problems of images and sounds."""

from pathlib import Path

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report


class UnfitInput(Problem, code="E0563", topic="inputs"):
    """An image or a sound cannot be made into what an input takes."""

    name: str
    file: Path
    wanted: str
    reason: str
    advice: str = ""

    def report(self) -> Report:
        return self.message(
            f"`{self.file}` cannot feed `{self.name}`",
            Remark("the input is", self.wanted),
            Remark("because", self.reason),
            cure=Help(self.advice) if self.advice else Help(*self._of_numbers()),
        )

    def _of_numbers(self) -> tuple[str, str]:
        """Advice for an input that takes no file of this kind."""
        return "feed it numbers from a file that has them", f"--input {self.name}={self.name}.npy"
