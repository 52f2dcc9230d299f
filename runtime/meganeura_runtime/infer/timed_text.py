"""Times among the tokens of speech: which token may follow, and where a part of a text ends.

The rules are those by which Whisper writes times (Radford et al. 2022, section 2.3 and 4.5), token
for token as transformers applies them. A time stands before and behind each part, so that two of
them meet between parts. What follows the last pair is cut off in the middle, and is heard again.
"""

from dataclasses import dataclass, field

import numpy as np

from meganeura_dsl.ir.graph import Array
from meganeura_runtime.infer.generator import Sampling
from meganeura_runtime.io.preprocess.mel import HOP, RATE
from meganeura_runtime.io.preprocess.speech_tokens import SpeechTokens

FRAMES = 2
"""Frames of a spectrogram from one time to the next, 20 ms."""
SECONDS = FRAMES * HOP / RATE


@dataclass(frozen=True)
class Segment:
    """The text spoken between two times, in steps of `SECONDS` from the start of a window."""

    start: int
    end: int
    tokens: tuple[int, ...]


@dataclass
class Rules:
    """Chooses the tokens of a window, one after another, as the rules of speech allow them."""

    tokens: SpeechTokens
    timed: bool
    sampling: Sampling
    chance: np.random.Generator
    drawn: list[int] = field(default_factory=list[int])

    def __call__(self, logits: Array) -> Array:
        """The next token, `i32[1]`, from logits `f32[1, vocabulary]`."""
        scores = logits[0].astype(np.float64)
        scores[list(self.tokens.suppressed)] = -np.inf
        if not self.drawn:
            scores[list(self.tokens.suppressed_first)] = -np.inf
        if self.timed and self.tokens.untimed is not None:
            self._apply_times(scores, self.tokens.untimed + 1)
        token = _drawn(scores, self.sampling, self.chance)
        self.drawn.append(token)
        return np.asarray([token], np.int32)

    def _apply_times(self, scores: Array, first: int) -> None:
        """Rule out what cannot be; times are the tokens from `first` on."""
        scores[first - 1] = -np.inf
        times = [token for token in self.drawn if token >= first]
        is_open = False
        if self.drawn and self.drawn[-1] >= first:
            if len(self.drawn) < 2 or self.drawn[-2] >= first:
                scores[first:] = -np.inf
            else:
                is_open = True
                scores[: self.tokens.ends[0]] = -np.inf
        if times:
            scores[first : times[-1] + (0 if is_open else 1)] = -np.inf
        if not self.drawn:
            scores[:first] = -np.inf
            if self.tokens.latest_start is not None:
                scores[first + self.tokens.latest_start + 1 :] = -np.inf
        if _sum_of_exponentials(scores[first:]) > scores[:first].max(initial=-np.inf):
            scores[:first] = -np.inf


def _sum_of_exponentials(scores: Array) -> float:
    """The logarithm of the sum of exponentials."""
    highest = scores.max(initial=-np.inf)
    if highest == -np.inf:
        return -np.inf
    return float(highest + np.log(np.exp(scores - highest).sum()))


def _drawn(scores: Array, sampling: Sampling, chance: np.random.Generator) -> int:
    """A token by a temperature and `top_k`, drawn on the host."""
    if sampling.temperature == 0:
        return int(scores.argmax())
    if 0 < sampling.top_k < len(scores):
        scores = np.where(scores < np.sort(scores)[-sampling.top_k], -np.inf, scores)
    noise = chance.gumbel(size=len(scores))
    return int((scores / max(sampling.temperature, 1e-6) + noise).argmax())


@dataclass
class Parts:
    """The segments of a window, as its tokens come; times are the tokens from `first` on."""

    first: int
    _tokens: list[int] = field(default_factory=list[int])
    _begun: int = 0
    """The start of the segment that is not finished."""

    def add(self, token: int) -> Segment | None:
        """The segment that a token ends, with a second time behind that of its end."""
        self._tokens.append(token)
        here = len(self._tokens) - 1
        if not here or min(self._tokens[-2:]) < self.first:
            return None
        segment = self._segment(self._begun, here)
        self._begun = here
        return segment

    def end(self, frames: int) -> tuple[Segment | None, int]:
        """The last segment, and how many of the frames of the window it was about."""
        tokens = self._tokens
        if not self._begun:
            times = [token - self.first for token in tokens if token >= self.first]
            last = times[-1] if times and times[-1] else frames // FRAMES
            return Segment(0, last, self._text(tokens)), frames
        if tokens[-2] < self.first <= tokens[-1]:
            return self._segment(self._begun, len(tokens)), frames
        return None, (tokens[self._begun - 1] - self.first) * FRAMES

    def _segment(self, begin: int, end: int) -> Segment:
        part = self._tokens[begin:end]
        return Segment(part[0] - self.first, part[-1] - self.first, self._text(part))

    def _text(self, tokens: list[int]) -> tuple[int, ...]:
        return tuple(token for token in tokens if token < self.first)
