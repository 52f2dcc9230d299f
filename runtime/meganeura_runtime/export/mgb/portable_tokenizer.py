"""A tokenizer.json that a compiled model holds, and whether the runtime of pages knows its kind.

That runtime has byte-level BPE alone. What it lacks is refused here by name, before a page is made
that could not be used; `runtime/web/src/tokenizer.ts` refuses the same.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.preprocess.preparation import preparation_of
from meganeura_runtime.io.preprocess.token_problems import OtherVocabulary
from meganeura_runtime.io.preprocess.tokens import (
    BYTES,
    numbers_beside,
    read_tokenizer,
    require_same_tokenizer,
    tokenizer_file,
)

NORMALIZERS = ("NFC", "NFD", "NFKC", "NFKD")
MODEL = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")
"""Fields that a model may not have."""
TOKEN = ("single_word", "lstrip", "rstrip")
"""Fields that an added token may not have."""

Json = Mapping[str, Any]


@dataclass(frozen=True)
class PortableTokenizer:
    """A tokenizer as a compiled model has it; without a text, each byte is a token."""

    text: str | None = None
    ends: tuple[int, ...] = ()
    size: int = BYTES

    def require_vocabulary(self, vocabulary: int) -> None:
        """Raise `ProblemError` unless a model of so many tokens has all of them."""
        if self.size > vocabulary:
            found = "a text read as bytes" if self.text is None else "the tokenizer"
            raise ProblemError(OtherVocabulary(found, self.size, vocabulary))


def portable_tokenizer(weights: Sequence[Path], chosen: Path | None = None) -> PortableTokenizer:
    """The tokenizer that is chosen, or the one beside some weights, or bytes.

    Raises `ProblemError` for a kind that pages do not know.
    """
    file = tokenizer_file(weights, chosen)
    require_same_tokenizer(preparation_of(weights), file)
    if file is None:
        return PortableTokenizer()
    content = read_tokenizer(file)
    try:
        text = content.decode()
        found = cast("Json", json.loads(text))
        tokens = [*found["model"]["vocab"].values()]
        tokens += [each["id"] for each in found.get("added_tokens") or ()]
        size = int(max(tokens)) + 1
        fault = _fault(found)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        fault, text, size = "it is no tokenizer of byte-level BPE", "", 0
    if fault is not None:
        raise ProblemError(UnreadableFile(file, f"{fault}, which a page does not know"))
    return PortableTokenizer(text, numbers_beside(file.parent, "eos_token_id"), size)


def _fault(file: Json) -> str | None:
    """Returns the part of a tokenizer that pages do not support, if any."""
    model = cast("Json", file["model"])
    faults = [
        *([] if model.get("type", "BPE") == "BPE" else [f"its model is {model['type']}"]),
        *(f"its model has {name}" for name in MODEL if model.get(name)),
        *(f"it has {name}" for name in ("truncation", "padding") if file.get(name)),
        *(
            f"its token `{each['content']}` has {name}"
            for each in file.get("added_tokens") or ()
            for name in TOKEN
            if each.get(name)
        ),
        *_missing_bytes(model["vocab"]),
        *_unknown("normalizer", _parts(file.get("normalizer"), "normalizers"), NORMALIZERS),
        *_split_faults(_parts(file.get("pre_tokenizer"), "pretokenizers")),
        *_unknown("decoder", _parts(file.get("decoder"), ""), ("ByteLevel",), at_least=1),
        *_unknown(
            "post-processor",
            _parts(file.get("post_processor"), "processors"),
            ("ByteLevel", "TemplateProcessing"),
        ),
    ]
    return next(iter(faults), None)


def _missing_bytes(vocabulary: Json) -> list[str]:
    """Bytes that have no token of their own, by the characters that stand for them."""
    seen = [byte for byte in range(BYTES) if 32 < byte < 127 or (byte > 160 and byte != 173)]
    others = (byte for byte in range(BYTES) if byte not in seen)
    shown = {byte: byte for byte in seen} | {byte: BYTES + n for n, byte in enumerate(others)}
    missing = (byte for byte in range(BYTES) if chr(shown[byte]) not in vocabulary)
    return [f"it has no token for the byte {byte}" for byte in missing]


def _parts(found: Json | None, name: str) -> list[Json]:
    if found is None:
        return []
    return [*found[name]] if found["type"] == "Sequence" and name else [found]


def _unknown(
    what: str, parts: Sequence[Json], known: Sequence[str], at_least: int = 0
) -> list[str]:
    if len(parts) < at_least:
        return [f"it has no {what}"]
    return [f"its {what} is {each['type']}" for each in parts if each["type"] not in known]


def _split_faults(parts: Sequence[Json]) -> list[str]:
    if not parts:
        return ["it has no pre-tokenizer"]
    *splits, last = parts
    others = [each["type"] for each in splits if each["type"] not in ("Digits", "Split")]
    if last["type"] != "ByteLevel":
        others.append(last["type"])
    kinds = [
        f"Split {each['behavior']}"
        for each in splits
        if each["type"] == "Split"
        and (
            "Regex" not in each["pattern"]
            or not (
                each["behavior"] == "Isolated" or (each["behavior"] == "Removed" and each["invert"])
            )
        )
    ]
    return [f"its pre-tokenizer is {each}" for each in (*others, *kinds)]
