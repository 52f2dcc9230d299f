"""The tokens that say how speech is written down: a checkpoint's generation_config.json.

Whisper's say what language is spoken, whether to translate, and when each part was said (Radford et
al. 2022, section 2.3). A model without that file has a token to start from and those that end it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.preprocess.tokens import Tokenizer, read_json

NAME = "generation_config.json"

Token = Annotated[int, Field(ge=0, lt=1 << 31, strict=True)]


class _Config(BaseModel):
    """The keys of the file that are about tokens; it may have any others."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    decoder_start_token_id: Token
    eos_token_id: Token | Annotated[tuple[Token, ...], Field(min_length=1)]
    lang_to_id: Mapping[str, Token] = Field(default_factory=dict[str, int])
    task_to_id: Mapping[str, Token] = Field(default_factory=dict[str, int])
    no_timestamps_token_id: Token | None = None
    max_initial_timestamp_index: Token | None = None
    suppress_tokens: tuple[Token, ...] | None = None
    begin_suppress_tokens: tuple[Token, ...] | None = None


@dataclass(frozen=True)
class SpeechTokens:
    """The meaning of the tokens of a model of speech."""

    start: int
    ends: tuple[int, ...]
    languages: Mapping[str, int] = field(default_factory=dict[str, int])
    """The tokens of languages by code, such as `en`; none for a model of one language."""
    tasks: Mapping[str, int] = field(default_factory=dict[str, int])
    untimed: int | None = None
    """Says that no times are to be written; times are the tokens behind it, 20 ms apart."""
    latest_start: int | None = None
    """The latest that the first time may be, as a number of steps."""
    suppressed: tuple[int, ...] = ()
    """Tokens that are never written."""
    suppressed_first: tuple[int, ...] = ()
    """Tokens that no text begins with."""

    @property
    def highest(self) -> int:
        """The largest of these tokens."""
        several = (*self.ends, *self.languages.values(), *self.tasks.values())
        return max(
            self.start, self.untimed or 0, *several, *self.suppressed, *self.suppressed_first
        )


def speech_tokens(weights: Sequence[Path], words: Tokenizer, vocabulary: int) -> SpeechTokens:
    """The tokens that the file beside some weights names; raises `ProblemError`."""
    for path in weights:
        beside = (path if path.is_dir() else path.parent) / NAME
        if beside.is_file():
            found = _tokens(beside)
            if found.highest >= vocabulary:
                reason = f"it names the token {found.highest:,}, and the model has {vocabulary:,}"
                raise ProblemError(UnreadableFile(beside, reason))
            return found
    return SpeechTokens(words.start, words.stops)


def _tokens(path: Path) -> SpeechTokens:
    try:
        config = _Config.model_validate(read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        raise ProblemError(UnreadableFile(path, f"`{location}`: {first['msg']}")) from None
    ends = config.eos_token_id
    return SpeechTokens(
        config.decoder_start_token_id,
        (ends,) if isinstance(ends, int) else ends,
        {name.strip("<|>"): token for name, token in config.lang_to_id.items()},
        config.task_to_id,
        config.no_timestamps_token_id,
        config.max_initial_timestamp_index,
        config.suppress_tokens or (),
        config.begin_suppress_tokens or (),
    )
