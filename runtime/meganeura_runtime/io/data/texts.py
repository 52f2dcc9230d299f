"""Texts as sequences of tokens: cut into pieces of one length, the rest at the end left out."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.support.regular_files import opened
from meganeura_dsl.symbolic.size import evaluate
from meganeura_runtime.io.data.dataset import InputSpec
from meganeura_runtime.io.data.folder_problems import WrongReader
from meganeura_runtime.io.data.numpy_files import LARGEST_UNPACKED
from meganeura_runtime.io.files.file_problems import NoSuchFile, UnreadableFile
from meganeura_runtime.io.preprocess.tokens import LibraryTokenizer, load_tokenizer
from meganeura_runtime.io.tensors.open_file import OpenFile
from meganeura_runtime.io.tensors.stored_tensor import (
    Array,
    StoredTensor,
    stored_array,
    stored_in_file,
)

SUFFIXES = (".txt",)

PIECE = 1 << 20
"""Bytes of a text that are tokenized at a time; a piece ends with a line."""
LONGEST_LINE = 1 << 24
"""Bytes of a line."""


def read_text(
    path: Path, input_spec: InputSpec, tokenizer: Path | None, span: Span | None
) -> dict[str, StoredTensor]:
    """The tokens of a text as the one input i32[n, s]: rows of s, which follow each other.

    Without a tokenizer tokens are bytes, which stay in the file. Raises `ProblemError`.
    """
    name, length = _sequences(path, input_spec, span)
    try:
        if tokenizer is None:
            file = OpenFile(path)
            shape = file.size // length, length
            return {name: stored_in_file(file, name, np.dtype(np.uint8), shape, 0)}
        tokens = _tokens(path, load_tokenizer(tokenizer))
    except FileNotFoundError:
        raise ProblemError(NoSuchFile(path)) from None
    except OSError as error:
        raise ProblemError(UnreadableFile(path, error.strerror or str(error))) from None
    rows = len(tokens) // length
    return {name: stored_array(path, name, tokens[: rows * length].reshape(rows, length))}


def require_sequences(path: Path, tensors: Mapping[str, StoredTensor], span: Span | None) -> None:
    """Raise `ProblemError` where no text is as long as a sequence."""
    for each in tensors.values():
        rows, length = each.shape
        if rows == 0:
            reason = f"no text of it has the {length:,} tokens of a sequence"
            advice = "give a longer text, or declare shorter sequences"
            raise ProblemError(WrongReader(span, path, reason, advice))


def _sequences(path: Path, input_spec: InputSpec, span: Span | None) -> tuple[str, int]:
    """The tensor of the only input, and the length of a sequence; raises `ProblemError`."""
    shapes = {name: each for name, each in input_spec.inputs.items() if not each.dtype.is_float}
    if len(input_spec.inputs) == 1 and len(shapes) == 1:
        ((name, wanted),) = shapes.items()
        if len(wanted.shape) == 2:
            return input_spec.tensors.get(name, name), evaluate(wanted.shape[1], input_spec.sizes)
    listed = ", ".join(f"{name}: {each}" for name, each in input_spec.inputs.items())
    reason = f"a text feeds one input such as ids: i32[batch, 65]; the inputs are {listed}"
    advice = "let `train` take the ids alone, and compute labels and positions from them"
    raise ProblemError(WrongReader(span, path, reason, advice))


def _tokens(path: Path, tokenizer: LibraryTokenizer) -> Array:
    """The tokens of a whole text; raises `ProblemError` for one that is not UTF-8, or too long."""
    found: list[Array] = []
    with opened(path) as file:
        if path.stat().st_size * 4 > LARGEST_UNPACKED:
            raise ProblemError(UnreadableFile(path, "it is too long: cut it into several"))
        for piece in _pieces(path, file):
            try:
                text = piece.decode()
            except UnicodeDecodeError as error:
                raise ProblemError(UnreadableFile(path, f"it is not UTF-8: {error}")) from None
            found.append(np.array(tokenizer.encode(text, add_special_tokens=False), np.int32))
    return np.concatenate([np.zeros(0, np.int32), *found])


def _pieces(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """The text in pieces that end with a line; raises `ProblemError` for a line without an end."""
    while piece := file.read(PIECE):
        rest = file.readline(LONGEST_LINE)
        if len(rest) == LONGEST_LINE:
            raise ProblemError(UnreadableFile(path, "a line of it has more than 16 MiB"))
        yield piece + rest
