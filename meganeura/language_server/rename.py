"""Rename: of declarations, names and labels, with the checkpoint keys that change."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lsprotocol.types import Position, Range, TextEdit

from meganeura.language_server.analysis import Analysis, analyse
from meganeura.language_server.mentions import Mention, Role, declared, mention_at, same
from meganeura_dsl.diagnostics.fixes import apply
from meganeura_dsl.diagnostics.report import Edit, Severity
from meganeura_dsl.syntax.parser.compiled_grammar import RESERVED

MOST_KEYS = 5
"""The most keys that are listed; of the others, the number is shown."""


class RenameError(Exception):
    """A name cannot be given; the text says why."""


@dataclass(frozen=True)
class Renaming:
    """The edits of a rename, and what it does to checkpoints."""

    edits: list[TextEdit]
    keys: tuple[tuple[str, str], ...]
    """The keys that change, each with what it becomes."""

    @property
    def told(self) -> str:
        """`2 checkpoint keys change: conv1.weight -> stem.weight, ...`; empty if none does."""
        if not self.keys:
            return ""
        count = len(self.keys)
        shown = ", ".join(f"{old} -> {new}" for old, new in self.keys[:MOST_KEYS])
        more = f", and {count - MOST_KEYS} more" if count > MOST_KEYS else ""
        noun = "checkpoint key changes" if count == 1 else "checkpoint keys change"
        return f"{count} {noun}: {shown}{more}"


def renamed_range(analysis: Analysis, position: Position) -> Range | None:
    """The range of the name at a position; None if it is not one that this document gives."""
    mention = _mention(analysis, position)
    return None if mention is None else analysis.range(mention.span)


def _mention(analysis: Analysis, position: Position) -> Mention | None:
    mention = mention_at(analysis, analysis.offset(position))
    if mention is None or mention.role in (Role.SETTING, Role.OUTPUT):
        return None
    found = declared(analysis, mention)
    is_own = found is not None and found[0] is analysis.module
    return mention if is_own or mention.role not in (Role.GLOBAL, Role.ARGUMENT) else None


def rename(
    analysis: Analysis, position: Position, new: str, texts: Mapping[Path, str]
) -> Renaming | None:
    """Rename what is mentioned at a position; None if nothing there can be.

    Raises `RenameError` where the program would be wrong afterwards and is not now.
    """
    mention = _mention(analysis, position)
    if mention is None:
        return None
    if re.fullmatch(r"[A-Za-z_]\w*", new, re.ASCII) is None or new in RESERVED:
        raise RenameError(f"`{new}` is no name: letters, digits and underscores, and no keyword")
    edits = [Edit(each.span, new) for each in same(analysis, mention)]
    after = analyse(analysis.uri, apply(analysis.source.text, edits), texts)
    before = _errors(analysis)
    wrong = [each for each in _errors(after) if each not in before]
    if len(_errors(after)) > len(before) and wrong:
        raise RenameError(f"with `{new}` the program would not hold: {wrong[0]}")
    changes = [TextEdit(analysis.range(edit.span), edit.text) for edit in edits]
    return Renaming(changes, _changed_keys(analysis, after))


def _errors(analysis: Analysis) -> list[str]:
    return [each.headline for each in analysis.reports if each.severity is Severity.ERROR]


def _changed_keys(before: Analysis, after: Analysis) -> tuple[tuple[str, str], ...]:
    """The keys of all models that become others, each once; parameters keep their order."""
    found: dict[str, str] = {}
    pairs = zip(
        before.result.elaborations.values(), after.result.elaborations.values(), strict=False
    )
    for old, new in pairs:
        for one, other in zip(old.parameters, new.parameters, strict=False):
            if one.name != other.name:
                found.setdefault(one.name, other.name)
    return tuple(found.items())
