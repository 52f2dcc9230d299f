"""A tokenizer.json by which a page reads texts, and whether its runtime knows the kind.

It has WordPiece alone, as of BERT and MiniLM. What it lacks is refused here by name, before a page
is made that could not be used; `runtime/web/src/wordpiece.ts` refuses the same.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.preprocess.preparation import preparation_of
from meganeura_runtime.io.preprocess.tokens import (
    read_tokenizer,
    require_same_tokenizer,
    tokenizer_file,
)

TOKEN = ("single_word", "lstrip", "rstrip")
"""Fields that an added token may not have."""

KINDS = {
    "normalizer": (None, "BertNormalizer"),
    "pre_tokenizer": ("BertPreTokenizer",),
    "post_processor": (None, "BertProcessing", "TemplateProcessing"),
}
"""The supported kinds of each part."""

Json = Mapping[str, Any]


@dataclass(frozen=True)
class ReadingTokenizer:
    """A tokenizer as a page has it."""

    text: str
    size: int
    """The number of tokens."""


def reading_tokenizer(
    weights: Sequence[Path], chosen: Path | None = None
) -> ReadingTokenizer | None:
    """The tokenizer that is chosen, or one of WordPiece beside some weights; None without either.

    Raises `ProblemError` for one that is chosen, or is of WordPiece, and that pages do not know.
    """
    file = tokenizer_file(weights, chosen)
    require_same_tokenizer(preparation_of(weights), file)
    if file is None:
        return None
    content = read_tokenizer(file)
    try:
        text = content.decode()
        found = cast("Json", json.loads(text))
        if chosen is None and found["model"].get("type", "BPE") != "WordPiece":
            return None
        fault = next(_faults(found), None)
        tokens = [*found["model"]["vocab"].values()]
        tokens += [each["id"] for each in found.get("added_tokens") or ()]
        size = int(max(tokens)) + 1
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        fault, text, size = "it is no tokenizer of WordPiece", "", 0
    if fault is not None:
        raise ProblemError(UnreadableFile(file, f"{fault}, which a page does not know"))
    return ReadingTokenizer(text, size)


def _faults(file: Json) -> Iterator[str]:
    """Yields the parts of a tokenizer that pages do not support."""
    model = cast("Json", file["model"])
    if model.get("type", "BPE") != "WordPiece":
        yield f"its model is {model.get('type', 'BPE')}"
    if model["unk_token"] not in model["vocab"]:
        yield f"it has no token `{model['unk_token']}`"
    for what, known in KINDS.items():
        part = cast("Json | None", file.get(what))
        kind = part and part["type"]
        if kind not in known:
            yield f"its {what.replace('_', '-')} is {kind or 'none'}"
    for each in file.get("added_tokens") or ():
        yield from (f"its token `{each['content']}` has {name}" for name in TOKEN if each.get(name))
