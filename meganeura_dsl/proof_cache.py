"""Programs that were proved before: in this process, and on disk.

A program is its texts: the file, all it imports and the standard library. The key of a proof is a
hash of these texts and of the compiler. Only success is kept, as the notes that came with it.
"""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, cast

from meganeura_dsl.diagnostics.problem import (
    Applicability,
    Edit,
    Help,
    Label,
    Remark,
    Report,
    Severity,
)
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.support.compiler_fingerprint import front_end
from meganeura_dsl.support.disk_cache import user_cache

Texts = Sequence[tuple[str, Source]]
"""All texts of a program, each under the words that import it; the file itself under none."""

MOST_IN_MEMORY = 1024
"""Proofs in the memory of this process; at this number, all are dropped."""

_in_memory: dict[str, bytes] = {}


def known_notes(texts: Texts) -> tuple[Report, ...] | None:
    """The notes of a proof that is kept; None if there is none, or none that can be read."""
    key, cache = _key(texts), user_cache()
    content = _in_memory.get(key)
    if content is None and cache is not None:
        content = cache.find(key)
    return None if content is None else _notes(content, texts)


def store_notes(texts: Texts, notes: Sequence[Report]) -> None:
    """Remember that a program was proved, with these notes."""
    key, cache = _key(texts), user_cache()
    content = json.dumps([_as_data(note, texts) for note in notes]).encode()
    if len(_in_memory) >= MOST_IN_MEMORY:
        _in_memory.clear()
    _in_memory[key] = content
    if cache is not None:
        cache.store(key, content)


def _key(texts: Texts) -> str:
    ingredients = ["proof", front_end(), *((words, source.text) for words, source in texts)]
    return sha256(json.dumps(ingredients).encode()).hexdigest()


# --- notes as data -------------------------------------------------------------------------------

Offsets = tuple[int, int, int]
"""The number of a text, and the range in it."""


def _as_data(note: Report, texts: Texts) -> dict[str, object]:
    sources = [source for _, source in texts]

    def offsets(span: Span) -> Offsets:
        return sources.index(span.source), span.start, span.end

    return {
        "code": note.code,
        "severity": note.severity.value,
        "headline": note.headline,
        "topic": note.topic,
        "label": note.label and [offsets(note.label.span), note.label.text],
        "remarks": [
            [each.title, each.text, each.span and offsets(each.span)] for each in note.remarks
        ],
        "help": note.help
        and [
            note.help.text,
            note.help.code,
            [[offsets(edit.span), edit.text] for edit in note.help.edits],
            note.help.applicability.value,
        ],
        "path": note.path,
    }


def _notes(content: bytes, texts: Texts) -> tuple[Report, ...] | None:
    """Returns the notes of an entry; None if it cannot be decoded."""
    try:
        return tuple(_report(each, texts) for each in json.loads(content))
    except (ValueError, TypeError, LookupError):
        return None


def _report(data: dict[str, Any], texts: Texts) -> Report:
    def span(offsets: Offsets) -> Span:
        number, start, end = offsets
        source = texts[number][1]
        if not 0 <= start <= end <= len(source.text):
            raise ValueError(offsets)
        return Span(source, start, end)

    label, help_ = data["label"], data["help"]
    return Report(
        str(data["code"]),
        Severity(data["severity"]),
        str(data["headline"]),
        str(data["topic"]),
        label and Label(span(label[0]), str(label[1])),
        tuple(
            Remark(str(title), str(text), offsets and span(cast("Offsets", offsets)))
            for title, text, offsets in data["remarks"]
        ),
        help_
        and Help(
            help_[0],
            help_[1],
            tuple(Edit(span(where), str(text)) for where, text in help_[2]),
            Applicability(help_[3]),
        ),
        str(data["path"]),
    )
