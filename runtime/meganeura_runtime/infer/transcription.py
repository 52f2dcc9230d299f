"""Speech to text: a sound in windows, each read once and written down token by token.

Where times are written, a window begins at the last of them, so that nothing is cut in the middle
(Radford et al. 2022, section 3.8); otherwise windows follow each other.
"""

from collections.abc import Generator as Generation
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.generation import TokenStep
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.types import TensorType
from meganeura_runtime.infer.generation_problems import WrongSampling
from meganeura_runtime.infer.generator import (
    GREEDY,
    STEPS,
    UNBOUNDED,
    Elaborate,
    Generator,
    Sampling,
    capacity_for,
    room_for,
    streamed,
)
from meganeura_runtime.infer.inference_problems import WrongInputs
from meganeura_runtime.infer.recomputation import Recomputation
from meganeura_runtime.infer.timed_text import FRAMES, SECONDS, Parts, Rules, Segment
from meganeura_runtime.io.preprocess.audio import read_speech
from meganeura_runtime.io.preprocess.input_transforms import Choices, Sounds
from meganeura_runtime.io.preprocess.mel import HOP, RATE
from meganeura_runtime.io.preprocess.preprocessor_config import find
from meganeura_runtime.io.preprocess.speech_tokens import SpeechTokens
from meganeura_runtime.io.preprocess.tokens import Tokenizer

TRANSCRIBE = "transcribe"


@dataclass(frozen=True)
class Speech:
    """The options of a transcription."""

    language: str | None = None
    """Its code, such as `en`; the model says which one it hears if this is None."""
    task: str | None = None
    """`transcribe`, or `translate` into English; the first if None."""
    timestamps: bool = False


@dataclass(frozen=True)
class SpeechTask:
    """A model that takes a sound beside its tokens: which input, in windows of what size."""

    name: str
    window: Sounds
    room: int
    """The number of tokens that a window may have, with those before them."""

    @classmethod
    def of(cls, elaborate: Elaborate, weights: Sequence[Path]) -> "SpeechTask":
        """Returns the task of a model.

        Raises `ProblemError` if it does not take exactly one sound.
        """
        elaborated = elaborate(TokenStep(UNBOUNDED, 1))
        types = {name: elaborated.elaboration.inputs[name] for name in elaborated.context}
        found = {name: _window(type_, weights) for name, type_ in types.items()}
        sounds = {name: each for name, each in found.items() if each is not None}
        if len(types) != 1 or len(sounds) != 1:
            declared = types or {elaborated.ids: elaborated.elaboration.inputs[elaborated.ids]}
            shown = tuple((each, str(type_)) for each, type_ in declared.items())
            raise ProblemError(WrongInputs((), ("sound",), shown))
        ((name, window),) = sounds.items()
        return cls(name, window, STEPS if elaborated.without_caches else room_for(elaborate))

    @property
    def step(self) -> TokenStep:
        """The smallest step of the generator."""
        return TokenStep(capacity_for(1, self.room, self.room), 1, draws=False)


def _window(wanted: TensorType, weights: Sequence[Path]) -> Sounds | None:
    """The spectrogram that an input takes; None if it takes none of a fixed length."""
    if len(wanted.shape) != 3 or not isinstance(wanted.shape[2], int):
        return None
    config = next((each for each in map(find, weights) if each is not None), None)
    return Choices(config=config).sound_form(wanted)


@dataclass(frozen=True)
class Transcriber:
    """A generator that writes down sounds."""

    generator: Generator | Recomputation
    task: SpeechTask
    words: Tokenizer
    tokens: SpeechTokens

    def __call__(
        self,
        sound: Path,
        speech: Speech,
        steps: int | None = None,
        sampling: Sampling = GREEDY,
    ) -> Iterator[str]:
        """The text of a sound file, piece by piece; with timestamps each piece is a line.

        At most `steps` tokens are of one window, or as many as fit. Raises `ProblemError` for what
        the model cannot do and for a file that is no sound.
        """
        window = self.task.window
        self._require(speech, steps)
        mel = read_speech(sound, window.mels, window.frames)
        return self.of_spectrogram(mel, speech, steps, sampling)

    def _require(self, speech: Speech, steps: int | None) -> None:
        """Raise `ProblemError` for what the model cannot do."""
        begin = self._begin(speech, speech.language or next(iter(self.tokens.languages), None))
        capacity_for(len(begin), 1 if steps is None else steps, self.task.room)

    def of_spectrogram(
        self, mel: Array, speech: Speech, steps: int | None, sampling: Sampling
    ) -> Iterator[str]:
        """The text of a spectrogram [mels, time], of at least one frame."""
        frames, language, seek = self.task.window.frames, speech.language, 0
        chance = np.random.default_rng(sampling.seed)
        while seek < mel.shape[1]:
            window = mel[None, :, seek : seek + frames]
            length = window.shape[2]
            whole = np.pad(window, ((0, 0), (0, 0), (0, frames - length)))
            self.generator.read({self.task.name: whole})
            language = language or self._heard()
            begin = self._begin(speech, language)
            rules = Rules(self.tokens, speech.timestamps, sampling, chance)
            most = self.task.room - len(begin) if steps is None else steps
            drawn = self.generator.chosen(begin, most, rules)
            if speech.timestamps:
                seek += yield from self._timed(drawn, seek, length)
            else:
                pieces = streamed(self.words, self._untimed(drawn), self.tokens.ends)
                yield from pieces if seek else _without_space(pieces)
                seek += length

    def _begin(self, speech: Speech, language: str | None) -> list[int]:
        """The tokens that say what is to be written; raises `ProblemError` for what cannot be."""
        known = self.tokens
        begin = [known.start]
        if language is not None:
            begin.append(_one_of(known.languages, "language", language))
        if speech.task is not None or known.tasks:
            begin.append(_one_of(known.tasks, "task", speech.task or TRANSCRIBE))
        if speech.timestamps and known.untimed is None:
            raise ProblemError(WrongSampling("timestamps", "true", "false: the model has none"))
        if not speech.timestamps and known.untimed is not None:
            begin.append(known.untimed)
        return begin

    def _heard(self) -> str | None:
        """The likeliest language of a window that was read; None if the model knows but one."""
        names = {token: name for name, token in self.tokens.languages.items()}
        if not names:
            return None
        tokens = np.asarray([*names])

        def likeliest(logits: Array) -> Array:
            return tokens[logits[:, tokens].argmax(1)].astype(np.int32)

        (token,) = self.generator.chosen([self.tokens.start], 1, likeliest)
        return names[int(token[0])]

    def _untimed(self, drawn: Iterator[Array]) -> Iterator[Array]:
        """Tokens without those that are times, which have no text."""
        untimed = self.tokens.untimed
        return (token for token in drawn if untimed is None or token[0] <= untimed)

    def _timed(self, drawn: Iterator[Array], seek: int, length: int) -> Generation[str, None, int]:
        """A line for each segment of a window; returns the frames from this window to the next."""
        assert self.tokens.untimed is not None
        parts = Parts(self.tokens.untimed + 1)
        for token in drawn:
            if int(token[0]) in self.tokens.ends:
                break
            segment = parts.add(int(token[0]))
            if segment is not None:
                yield self._line(segment, seek)
        last, frames = parts.end(length)
        if last is not None:
            yield self._line(last, seek)
        return max(frames, FRAMES)

    def _line(self, segment: Segment, seek: int) -> str:
        """Returns the line of a segment: its times and its text."""
        begin, end = (
            _clock(seek * HOP / RATE + at * SECONDS) for at in (segment.start, segment.end)
        )
        tokens = (np.asarray([token]) for token in segment.tokens)
        text = "".join(streamed(self.words, tokens, self.tokens.ends))
        return f"[{begin} --> {end}]  {text.strip()}\n"


def _without_space(pieces: Iterator[str]) -> Iterator[str]:
    """A text whose first word has no space before it, as the tokens of words have."""
    for piece in pieces:
        first = piece.lstrip()
        if first:
            yield first
            break
    yield from pieces


def _one_of(known: Mapping[str, int], name: str, given: str) -> int:
    if given not in known:
        listed = ", ".join(sorted(known)) or "left out: the model knows but one"
        raise ProblemError(WrongSampling(name, given, f"one of {listed}" if known else listed))
    return known[given]


def _clock(seconds: float) -> str:
    """`01:02.340`, and hours where there are any."""
    minutes, rest = divmod(round(seconds * 1000), 60_000)
    hours, minutes = divmod(minutes, 60)
    begin = f"{hours:02}:" if hours else ""
    return f"{begin}{minutes:02}:{rest // 1000:02}.{rest % 1000:03}"
