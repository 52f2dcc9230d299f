"""Problems of generations."""

from meganeura_dsl.diagnostics.problem import Help, Problem, Report


class WrongSampling(Problem, code="E0662", topic="generation"):
    """A setting of a generation is out of range.

    `steps` is how many tokens are drawn at most, `temperature` what logits are divided by before
    one is drawn (0 takes the likeliest), `top_k` from how many of the likeliest (0 for all). Of a
    sound, `language`, `task` and `timestamps` are those that the checkpoint has tokens for.
    """

    name: str
    value: str
    wanted: str

    def report(self) -> Report:
        return self.message(f"`{self.name}` is {self.value}", cure=Help(f"it is {self.wanted}"))


class TooLong(Problem, code="E0661", topic="generation"):
    """A prompt and what is to follow it are longer than the model's memory.

    The positions of a model with a table of positions are as many as its rows; the capacity of a
    generator is how many tokens its caches hold.
    """

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
