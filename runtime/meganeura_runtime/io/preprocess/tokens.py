"""Texts as tokens and back: a checkpoint's tokenizer.json, or bytes where there is none."""

import codecs
import json
from abc import ABC, abstractmethod
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.support.limited_read import TooLongError, read_bytes
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.preprocess.preparation import BYTES as BYTE_TOKENS
from meganeura_runtime.io.preprocess.preparation import (
    Preparation,
    preparation_of,
    tokenizer_digest,
)
from meganeura_runtime.io.preprocess.token_problems import OtherTokenizer, OtherVocabulary
from meganeura_runtime.io.preprocess.tokenizer_worker import (
    DECODE,
    ENCODE,
    IDS,
    LOAD,
)
from meganeura_runtime.support.optional_imports import load
from meganeura_runtime.support.worker_process import (
    WorkerEndedError,
    WorkerFailedError,
    WorkerProcess,
)

NAME = "tokenizer.json"
CONFIGS = ("generation_config.json", "config.json")
"""Files beside a tokenizer that name the tokens around a text, the first that does so."""
BYTES = 256
LONGEST = 64
"""Mebibytes of a tokenizer."""
WORKER = "meganeura_runtime.io.preprocess.tokenizer_worker"
MEMORY = 4 << 30
"""Bytes of memory that the process of the library may address."""
LONGEST_QUESTION = 120.0
"""Seconds in which the library loads a tokenizer, or gives the tokens or the text of a piece."""


class Tokenizer(ABC):
    """Encodes a text as tokens and decodes tokens to text."""

    ends: tuple[int, ...] = ()
    """The tokens at which a text ends."""
    start: int = 0
    """The token before a text that answers another, or tells what was heard."""

    @property
    def stops(self) -> tuple[int, ...]:
        """The tokens at which such a text ends; if nothing else does it, then its start."""
        return self.ends or (self.start,)

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of tokens."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""

    @abstractmethod
    def stream(self) -> "TextStream":
        """Returns a decoder of tokens that come one after another."""


class TextStream(ABC):
    """Text of tokens that come one after another: characters are given out once they are whole."""

    @abstractmethod
    def add(self, token: int) -> str:
        """Returns the text that a token adds; empty while a character is not finished."""

    def end(self) -> str:
        """Returns the rest of the text when no token follows."""
        return ""


class ByteTokenizer(Tokenizer):
    """Each byte of UTF-8 is a token."""

    @property
    def size(self) -> int:
        """All bytes."""
        return BYTES

    def encode(self, text: str) -> list[int]:
        """The bytes of a text."""
        return list(text.encode())

    def stream(self) -> TextStream:
        """Text of bytes; those that are no UTF-8 become U+FFFD."""
        return _ByteStream()


class _ByteStream(TextStream):
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token: int) -> str:
        return self._decoder.decode(bytes([token]) if token < BYTES else "\ufffd".encode())

    def end(self) -> str:
        return self._decoder.decode(b"", final=True)


class LibraryTokenizer:
    """A tokenizer.json in the library `tokenizers`, which runs in a separate process."""

    def __init__(self, path: Path, content: bytes) -> None:
        """Raises `ProblemError` for a file that is none."""
        self._path = path
        self._content = content
        self._worker = WorkerProcess(WORKER, LONGEST_QUESTION)
        self._loaded: object = None
        """The process that has loaded it."""
        self.size = self._load()
        """The number of tokens, with those added to the vocabulary."""

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The tokens of a text; raises `ProblemError` where the file lets the library fail."""
        asked = {"do": ENCODE, "special": add_special_tokens}
        return array(IDS, self._answer(asked, text.encode(errors="replace"))).tolist()

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, special ones left out; raises `ProblemError` likewise."""
        return self._answer({"do": DECODE}, array(IDS, ids).tobytes()).decode()

    def _load(self) -> int:
        size = self._ask({"do": LOAD, "memory": MEMORY}, self._content, "it is no tokenizer")
        self._loaded = self._worker.running
        return int(size)

    def _answer(self, asked: Mapping[str, object], content: bytes) -> bytes:
        if not self._worker.is_running or self._worker.running is not self._loaded:
            self._load()  # in a fork, or behind a text that ended the process
        return self._ask(asked, content, "the library `tokenizers` fails with it")

    def _ask(self, asked: Mapping[str, object], content: bytes, what: str) -> bytes:
        try:
            return self._worker.ask(asked, content)
        except WorkerFailedError as error:
            raise ProblemError(UnreadableFile(self._path, f"{what}: {error}")) from None
        except WorkerEndedError as error:
            bound = f"it may take {MEMORY >> 30} GiB of memory and {LONGEST_QUESTION:g} s"
            raise ProblemError(UnreadableFile(self._path, f"{what}: {error}; {bound}")) from None


class FileTokenizer(Tokenizer):
    """A tokenizer.json, read by the library `tokenizers`."""

    def __init__(self, path: Path) -> None:
        """Raises `ProblemError` for a file that is none, and where the library is not installed."""
        self._tokenizer = load_tokenizer(path)
        self.ends = numbers_beside(path.parent, "eos_token_id")
        self.start = (*numbers_beside(path.parent, "decoder_start_token_id"), 0)[0]

    @property
    def size(self) -> int:
        """The number of tokens of its vocabulary and of those added to it."""
        return self._tokenizer.size

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with those that the tokenizer puts around it."""
        return self._tokenizer.encode(text)

    def stream(self) -> TextStream:
        """Text of tokens, special ones left out."""
        return _FileStream(self._tokenizer)


class _FileStream(TextStream):
    """Text as the difference of what the last tokens give with and without the newest."""

    def __init__(self, tokenizer: LibraryTokenizer) -> None:
        self._tokenizer = tokenizer
        self._context: list[int] = []
        self._pending: list[int] = []

    def add(self, token: int) -> str:
        self._pending.append(token)
        text = self._gained()
        if text.endswith("\ufffd"):
            return ""
        if text:
            self._context, self._pending = self._pending, []
        return text

    def end(self) -> str:
        return self._gained() if self._pending else ""

    def _gained(self) -> str:
        before = self._tokenizer.decode(self._context)
        return self._tokenizer.decode([*self._context, *self._pending])[len(before) :]


def tokenizer_of(weights: Sequence[Path], chosen: Path | None = None) -> Tokenizer:
    """The tokenizer that is chosen, or else the one beside some weights, or else bytes."""
    file = tokenizer_file(weights, chosen)
    require_same_tokenizer(preparation_of(weights), file)
    return ByteTokenizer() if file is None else FileTokenizer(file)


def require_same_tokenizer(trained: Preparation, file: Path | None) -> None:
    """Raise `ProblemError` for a tokenizer that weights were not trained with, if they say so.

    `file` is a tokenizer.json, or `None` for bytes.
    """
    if trained.tokenizer is None:
        return
    used = BYTE_TOKENS if file is None else tokenizer_digest(read_tokenizer(file))
    if used != trained.tokenizer:
        raise ProblemError(OtherTokenizer(_described(used, file), _described(trained.tokenizer)))


def _described(digest: str, file: Path | None = None) -> str:
    if digest == BYTE_TOKENS:
        return "bytes for tokens"
    return f"{NAME if file is None else f'`{file}`'}, SHA-256 {digest[:12]}"


def tokenizer_file(weights: Sequence[Path], chosen: Path | None = None) -> Path | None:
    """The file of that tokenizer; None for bytes."""
    if chosen is not None:
        return chosen
    folders = [path if path.is_dir() else path.parent for path in weights]
    return next((file for folder in folders if (file := folder / NAME).is_file()), None)


def load_tokenizer(path: Path) -> LibraryTokenizer:
    """A tokenizer.json, read by the library `tokenizers`.

    Raises `ProblemError` for a file that is none, and where the library is not installed.
    """
    load("tokenizers", "text", "read a tokenizer.json")
    return LibraryTokenizer(path, read_tokenizer(path))


def require_vocabulary(tokenizer: Tokenizer, vocabulary: int) -> None:
    """Raise `ProblemError` unless a model of so many tokens has all of a tokenizer's."""
    if tokenizer.size > vocabulary:
        found = "the tokenizer" if isinstance(tokenizer, FileTokenizer) else "a text read as bytes"
        raise ProblemError(OtherVocabulary(found, tokenizer.size, vocabulary))


def read_tokenizer(path: Path) -> bytes:
    """The content of a tokenizer.json, or of a file beside it; raises `ProblemError`."""
    try:
        return read_bytes(path, LONGEST)
    except TooLongError as error:
        raise ProblemError(UnreadableFile(path, str(error))) from None
    except OSError as error:
        raise ProblemError(UnreadableFile(path, error.strerror or str(error))) from None


def numbers_beside(folder: Path, key: str) -> tuple[int, ...]:
    """The token or tokens that the files of a checkpoint name so; raises `ProblemError`."""
    for name in CONFIGS:
        path = folder / name
        if path.is_file():
            found = read_json(path).get(key)
            several = cast("list[object]", found if isinstance(found, list) else [found])
            numbers = tuple(each for each in several if type(each) is int)
            if numbers:
                return numbers
    return ()


def read_json(path: Path) -> Mapping[str, object]:
    """Reads a JSON file of a checkpoint. Raises `ProblemError`."""
    try:
        content = cast("object", json.loads(read_tokenizer(path)))
    except (ValueError, RecursionError) as error:
        raise ProblemError(UnreadableFile(path, f"it is not JSON: {error}")) from None
    return cast("Mapping[str, object]", content if isinstance(content, dict) else {})
