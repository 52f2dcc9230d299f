"""Transcriptions of sounds by a generator that says anything, by the options.

`transcribed.txt` has of each request what the generator was asked, window by window, and the text.

`python -m tests.runtime.infer.transcribed` writes the file anew; read the difference before you
keep it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.infer.generator import GREEDY, Generator, Sampling
from meganeura_runtime.infer.transcription import Speech, SpeechTask, Transcriber
from meganeura_runtime.io.preprocess.input_transforms import Sounds
from meganeura_runtime.io.preprocess.speech_tokens import SpeechTokens
from meganeura_runtime.io.preprocess.tokens import TextStream, Tokenizer
from meganeura_runtime.io.tensors.stored_tensor import Array

FILE = Path(__file__).with_suffix(".txt")
VOCABULARY, TIMED = 60, 20
"""Tokens from 20 on are times."""
PLAIN = SpeechTokens(0, (9,))
MANY = SpeechTokens(
    0, (9, 8), {"de": 15, "en": 14}, {"transcribe": 16, "translate": 17},
    untimed=TIMED - 1, latest_start=4, suppressed=(18, 0, 14, 15, 16, 17), suppressed_first=(9,),
)  # fmt: skip
ROOM, FRAMES = 9, 40
DRAWN = Sampling(temperature=1.0, top_k=5, seed=4)
REQUESTS: Mapping[str, tuple[SpeechTokens, Speech, int | None, Sampling]] = {
    "plain": (PLAIN, Speech(), None, GREEDY),
    "plain, drawn": (PLAIN, Speech(), None, DRAWN),
    "plain, another seed": (PLAIN, Speech(), None, replace(DRAWN, seed=5)),
    "plain, three": (PLAIN, Speech(), 3, GREEDY),
    "plain, too many": (PLAIN, Speech(), 20, GREEDY),
    "plain, in English": (PLAIN, Speech("en"), None, GREEDY),
    "plain, translated": (PLAIN, Speech(task="translate"), None, GREEDY),
    "plain, timed": (PLAIN, Speech(timestamps=True), None, GREEDY),
    "heard": (MANY, Speech(), None, GREEDY),
    "in English": (MANY, Speech("en"), None, GREEDY),
    "in French": (MANY, Speech("fr"), None, GREEDY),
    "translated": (MANY, Speech("de", "translate"), None, DRAWN),
    "summarized": (MANY, Speech("de", "summarize"), None, GREEDY),
    "timed": (MANY, Speech("en", timestamps=True), None, GREEDY),
    "timed, drawn": (MANY, Speech(timestamps=True), None, DRAWN),
    "timed, two": (MANY, Speech("en", timestamps=True), 2, GREEDY),
}
LENGTHS = (1, 39, 40, 41, 100)


class _Letters(TextStream):
    """A letter, or a space, for each token."""

    def add(self, token: int) -> str:
        return " " if token % 4 == 1 else chr(ord("a") + token % 26)


class _Words(Tokenizer):
    """A tokenizer of these words."""

    @property
    def size(self) -> int:
        return VOCABULARY

    def encode(self, text: str) -> list[int]:
        return [ord(each) % VOCABULARY for each in text]

    def stream(self) -> TextStream:
        return _Letters()


@dataclass
class _Anything:
    """Says what follows from the window it has read, and tells what it was asked."""

    told: list[str] = field(default_factory=list[str])
    window: float = 0.0

    def read(self, inputs: Mapping[str, Array]) -> None:
        """Take a window in."""
        (name,) = inputs
        self.window = float(inputs[name].sum())
        self.told.append(f"reads {name} {list(inputs[name].shape)} {self.window:g}")

    def chosen(
        self, begin: Sequence[int], most: int, choose: Callable[[Array], Array]
    ) -> Iterator[Array]:
        """At most so many tokens."""
        self.told.append(f"after {list(begin)} at most {most}")
        for number in range(most):
            generator = np.random.default_rng((round(self.window) % 1000, len(begin), number))
            yield choose(generator.normal(size=(1, VOCABULARY)).astype(np.float32))


def described() -> Iterator[str]:
    """All lines of the file."""
    for title, (tokens, speech, steps, sampling) in REQUESTS.items():
        for length in LENGTHS if speech.timestamps or title == "heard" else LENGTHS[1::3]:
            anything = _Anything()
            task = SpeechTask("mel", Sounds(2, FRAMES), ROOM)
            made = Transcriber(cast("Generator", anything), task, _Words(), tokens)
            mel = np.arange(2 * length, dtype=np.float32).reshape(2, length)
            try:
                made._require(speech, steps)
                pieces = list(made.of_spectrogram(mel, speech, steps, sampling))
            except ProblemError as error:
                pieces = [error.problem.report().headline]
            yield f"# {title}, {length}"
            yield from anything.told
            yield repr("|".join(pieces))


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
