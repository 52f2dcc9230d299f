"""Suggestions of known words for a misspelt one."""

from collections.abc import Iterable

from meganeura_dsl.diagnostics.foreign_names import foreign_names
from meganeura_dsl.diagnostics.problem import Edit, Help, suggested_fix
from meganeura_dsl.diagnostics.source import Span

SHORTEST = 5
"""Letters from which one mistake leaves little doubt which word was meant: `relu` is no `prelu`."""


def meant(word: str, known: Iterable[str], shortest: int = SHORTEST) -> str | None:
    """The one known word that is a single slip away: a letter more, less, other, or two swapped.

    None if there are several such words, if the words are short, if the slip is in a digit
    (`conv1` is not `conv2` misspelt), or if other systems have something of this name.
    """
    if word in foreign_names():
        return None
    near = [each for each in dict.fromkeys(known) if _is_slip(word, each, shortest)]
    return near[0] if len(near) == 1 else None


def _is_slip(word: str, other: str, shortest: int) -> bool:
    """True if one slip makes a word of another; two swapped letters, in shorter ones too."""
    if not word or _digits(word) != _digits(other):
        return False
    start = 0
    while start < min(len(word), len(other)) and word[start] == other[start]:
        start += 1
    one, two = word[start:], other[start:]
    if len(one) == len(two):
        if one[:2] == two[1::-1] and one[2:] == two[2:]:
            return bool(one) and len(word) >= shortest - 1
        return bool(one) and one[1:] == two[1:] and len(word) >= shortest
    longer, shorter = (one, two) if len(one) > len(two) else (two, one)
    return longer[1:] == shorter and min(len(word), len(other)) >= shortest


def _digits(word: str) -> str:
    return "".join(char for char in word if char.isdigit())


def corrected(span: Span, word: str, known: Iterable[str], text: str) -> Help:
    """Advice on a misspelt word; a suggested fix if one word is near, and it stands there once.

    No respelling is safe: the word may be a name that was meant and is missing.
    """
    right = meant(word, known)
    if right is None:
        return Help(text)
    before, found, after = span.text.partition(word)
    if not found or word in after or _is_part(before[-1:], after[:1]):
        return Help(text)
    start = span.start + len(before)
    return suggested_fix(text, Edit(Span(span.source, start, start + len(word)), right))


def _is_part(before: str, after: str) -> bool:
    """True if these characters make what is between them part of a longer word."""
    return any(char.isalnum() or char == "_" for char in before + after)
