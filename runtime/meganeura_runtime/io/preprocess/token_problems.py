"""Problems of texts as tokens."""

from meganeura_dsl.diagnostics.problem import Help, Problem, Report


class OtherVocabulary(Problem, code="E0663", topic="tokenizer"):
    """A tokenizer has tokens that the model has no place for."""

    found: str
    tokens: int
    vocabulary: int

    def report(self) -> Report:
        return self.message(
            f"{self.found} has {self.tokens:,} tokens, and the model {self.vocabulary:,}",
            cure=Help("give the tokenizer of its checkpoint with", "--tokenizer FILE"),
        )


class OtherTokenizer(Problem, code="E0666", topic="tokenizer"):
    """Weights were trained on the tokens of another tokenizer."""

    used: str
    trained: str

    def report(self) -> Report:
        return self.message(
            f"the weights were trained with {self.trained}, and here is {self.used}",
            cure=Help("give the tokenizer of their training with", "--tokenizer FILE"),
        )


class EmptyPrompt(Problem, code="E0665", topic="generation"):
    """A prompt has no tokens."""

    def report(self) -> Report:
        return self.message(
            "the prompt has no tokens", cure=Help("begin the text", '--prompt "Once"')
        )
