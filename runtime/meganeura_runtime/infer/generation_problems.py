"""Problems of generations."""

from meganeura_dsl.diagnostics.problem import Help, Problem, Report


class WrongSampling(Problem, code="E0662", topic="generation"):
    """A setting of a generation is out of range."""

    name: str
    value: str
    wanted: str

    def report(self) -> Report:
        return self.message(f"`{self.name}` is {self.value}", cure=Help(f"it is {self.wanted}"))


class TooLong(Problem, code="E0661", topic="generation"):
    """A prompt and what is to follow it are longer than the model's memory."""

    prompt: int
    steps: int
    room: int

    def report(self) -> Report:
        needed = self.prompt + self.steps - 1
        fewer = self.room - self.prompt + 1
        cure = f"ask for at most {fewer:,}" if fewer >= 1 else "shorten the prompt"
        return self.message(
            f"a prompt of {self.prompt:,} tokens and {self.steps:,} after it take {needed:,} "
            f"places, and there are {self.room:,}",
            cure=Help(cure),
        )
